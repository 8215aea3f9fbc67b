//! PTX parser, types and module metadata; the metadata of machine code too.
//!
//! [`ParsedModule::parse`] turns the text that NVRTC, Numba, tinygrad or Triton emit into a typed tree:
//! variables, functions, statements with their line and column. The grammar is generic: an instruction is a
//! dotted opcode with operands, so that a new opcode needs no change here. [`ModuleInfo`] is the owned
//! summary a loader needs: entries, parameter layout, shared bytes. For machine code (a cubin) there is only
//! this summary.
//!
//! Arbitrary input never panics, never recurses without bound, and never allocates more than a constant times
//! its own length.

mod ast;
mod cubin;
mod error;
mod grid;
mod image;
mod info;
mod lex;
mod link;
mod outline;
mod parse;
mod shared;
mod source_lines;
mod types;

pub use ast::{
    Address, FunctionKind, Guard, Init, Instruction, Linkage, Operand, ParsedFunction,
    ParsedModule, ParsedVariable, Prototype, Statement,
};
pub use cubin::cubin_extent;
pub use error::{Position, PtxError};
pub use grid::{waits_for_grid, with_grid_workspace};
pub use image::is_machine_code;
pub use info::{EntryInfo, GlobalInfo, ModuleInfo, ParamInfo};
pub use link::{LinkError, LinkImage, link};
pub use outline::Outline;
pub use shared::{SharedLayout, SharedPlace};
pub use source_lines::SourceLines;
pub use types::{Scalar, Space};
