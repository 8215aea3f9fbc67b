//! The state of a module that is being decoded: its symbols, constants and functions.

use super::form::{self, Constant};
use super::module::Decoded;
use crate::error::BuildError;
use crate::watched::Watched;
use ptx::{FunctionKind, Position, PtxError};
use std::collections::HashMap;

/// The meaning of a module-scope name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Symbol {
    Global(u32),
    Shared(u64),
    /// Dynamic shared memory, behind all static shared memory of the entry.
    Dynamic,
    Function(u32),
}

/// Constants of one bank, each kept once.
#[derive(Default)]
pub(crate) struct Pool {
    pub(crate) list: Vec<Constant>,
    index: HashMap<Constant, u32>,
}

impl Pool {
    /// Position of a constant in the list; it is added if missing.
    pub(super) fn place(&mut self, constant: Constant) -> u32 {
        let list = &mut self.list;
        *self.index.entry(constant).or_insert_with(|| {
            list.push(constant);
            list.len() as u32 - 1
        })
    }
}

/// State of a module while it is decoded.
pub(crate) struct Builder<'a> {
    /// Cancels the build on request.
    pub(crate) watched: &'a Watched<'a>,
    pub(crate) out: Decoded,
    pub(crate) symbols: HashMap<&'a str, Symbol>,
    pub(crate) words: Pool,
    pub(crate) doubles: Pool,
    pub(crate) functions: Vec<&'a ptx::ParsedFunction<'a>>,
    /// The shared variables of the module's scope.
    pub(super) layout: ptx::SharedLayout<'a>,
    /// Bytes of the shared variables of the module's scope and of its functions.
    pub(crate) shared: u64,
    /// Start of each function's own shared variables, by its index. Those of an entry begin behind
    /// all others.
    pub(super) shared_of: Vec<u64>,
    /// Variables in the session's memory that are local to a function, by the position of their
    /// names.
    pub(super) statics: HashMap<Position, u32>,
    /// Bytes of one element of each module-scope variable.
    pub(crate) elements: HashMap<&'a str, u64>,
}

impl<'a> Builder<'a> {
    /// An empty module, before decoding.
    pub(super) fn new(watched: &'a Watched<'a>) -> Self {
        Self {
            watched,
            out: Decoded::default(),
            symbols: HashMap::new(),
            words: Pool::default(),
            doubles: Pool::default(),
            functions: Vec::new(),
            layout: ptx::SharedLayout::default(),
            shared: 0,
            shared_of: Vec::new(),
            statics: HashMap::new(),
            elements: HashMap::new(),
        }
    }

    /// Start of a function's own shared variables.
    pub(crate) fn shared_start(&self, function: usize) -> u64 {
        match self.functions[function].kind {
            FunctionKind::Func => self.shared_of[function],
            FunctionKind::Entry => self.shared,
        }
    }
}

/// An error at a position of the text.
pub(crate) fn fail<T>(position: Position, message: impl Into<String>) -> Result<T, BuildError> {
    Err(PtxError::new(position, message).into())
}

/// Address of a function.
pub(crate) fn code(function: u32) -> u64 {
    form::CODE_WINDOW + u64::from(function + 1) * form::CODE_STRIDE
}
