//! The table of what a session has of others, and of what others have of it.

use std::collections::BTreeMap;

use bus_schemas::ExportPlace;

/// A session's side of exported memory.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// What is imported: by its first page, where its last page ends and where its first byte is. Pages of
    /// which the host has not taken the mapping back stay, without anything that is live.
    pub(super) pages: BTreeMap<u64, (u64, u64)>,
    /// What others use: where each allocation ends, by where it begins.
    pub(super) exported: BTreeMap<u64, u64>,
}

impl Imports {
    /// Whether something imported is on a page of a range.
    pub(super) fn overlap(&self, addr: u64, end: u64) -> bool {
        let before = self.pages.range(..end).next_back();
        before.is_some_and(|(_, (until, _))| *until > addr)
    }

    /// Whether others use something in a range.
    pub(super) fn is_exported(&self, addr: u64, end: u64) -> bool {
        let before = self.exported.range(..end).next_back();
        before.is_some_and(|(_, until)| *until > addr)
    }

    /// Whether there is neither.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.exported.is_empty()
    }
}

/// Where the pages of an exported allocation lie in the device's physical memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExportedPages {
    pub(super) start: u64,
    pub(crate) place: ExportPlace,
}
