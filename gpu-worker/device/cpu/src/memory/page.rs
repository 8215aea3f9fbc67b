//! The size of a page.

/// Bytes of a page; smaller allocations share pages.
pub(crate) const PAGE: u64 = 4096;
