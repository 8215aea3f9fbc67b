//! Functions of the CUDA runtime that kernels call without a definition in the module: `vprintf`,
//! `malloc`, `free`, `__assertfail`.

mod call;
mod format;
mod heap;
mod print;
mod text;

pub(crate) use super::printed::Printed;
pub(crate) use heap::Heap;
