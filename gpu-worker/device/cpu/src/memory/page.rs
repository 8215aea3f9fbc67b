//! The size of a page.

/// Bytes of a page; allocations of less share pages.
pub(crate) const PAGE: u64 = 4096;
