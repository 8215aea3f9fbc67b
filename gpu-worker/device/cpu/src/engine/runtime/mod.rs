//! Functions of the CUDA runtime that kernels call and no module defines: `vprintf`, `malloc`,
//! `free`, `__assertfail`.

mod call;
mod format;
mod heap;
mod print;
mod text;

pub(crate) use super::printed::Printed;
pub(crate) use heap::Heap;
