//! Allocations that sites in generated code accessed last.

/// A live allocation that a site in the code accessed last.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Site {
    pub(super) start: u64,
    pub(super) span: u64,
}

/// Number of sites of a context; places in the code share them.
pub(crate) const SITES: usize = 16;
