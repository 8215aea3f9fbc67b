//! Allocations that places in generated code hit last.

/// A live allocation that a place in the code hit last.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Site {
    pub(super) start: u64,
    pub(super) span: u64,
}

/// Sites of a context; places in the code share them.
pub(crate) const SITES: usize = 16;
