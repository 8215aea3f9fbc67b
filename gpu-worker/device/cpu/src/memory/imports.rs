//! The table of a session's imports and exports.

use std::collections::BTreeMap;

use bus_schemas::ExportPlace;

/// Imports and exports of a session.
#[derive(Debug, Default)]
pub(super) struct Imports {
    /// Imports by their first page: the end of the last page, and the address of the first byte.
    /// Pages stay here without live bytes if the host refused to unmap them.
    pub(super) pages: BTreeMap<u64, (u64, u64)>,
    /// Exports: the end of each allocation, by its start.
    pub(super) exported: BTreeMap<u64, u64>,
}

impl Imports {
    /// True if an import is on a page of a range.
    pub(super) fn overlap(&self, addr: u64, end: u64) -> bool {
        let before = self.pages.range(..end).next_back();
        before.is_some_and(|(_, (until, _))| *until > addr)
    }

    /// True if an export overlaps a range.
    pub(super) fn is_exported(&self, addr: u64, end: u64) -> bool {
        let before = self.exported.range(..end).next_back();
        before.is_some_and(|(_, until)| *until > addr)
    }

    /// True if there are neither imports nor exports.
    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty() && self.exported.is_empty()
    }
}

/// Pages of an exported allocation in the device's physical memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExportedPages {
    pub(super) start: u64,
    pub(crate) place: ExportPlace,
}
