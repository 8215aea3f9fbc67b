//! A block of whole pages within a session's memory.

/// Whole pages reserved for the variables of one module, or for the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) start: u64,
    pub(super) end: u64,
}
