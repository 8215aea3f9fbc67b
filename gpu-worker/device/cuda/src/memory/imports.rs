//! The table of what a session has of others.

use std::collections::BTreeMap;

use bus_schemas::ExportPlace;

use crate::driver::Mapping;

/// What a session has of others, by the addresses of their first bytes.
#[derive(Debug, Default)]
pub(super) struct Imports(pub(super) BTreeMap<u64, Import>);

#[derive(Debug)]
pub(super) struct Import {
    pub(super) bytes: u64,
    /// The addresses that its extents take.
    pub(super) first: u64,
    pub(super) end: u64,
    /// Unmapped when it is dropped.
    pub(super) _mappings: Vec<Mapping>,
}

impl Imports {
    /// Whether a range lies in something imported.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> bool {
        let before = self.0.range(..=address).next_back();
        before.is_some_and(|(first, import)| {
            let end = address.checked_add(bytes);
            end.is_some_and(|end| end <= first + import.bytes)
        })
    }

    /// Where what was imported and holds an address ends.
    pub(super) fn end(&self, address: u64) -> Option<u64> {
        let (first, import) = self.0.range(..=address).next_back()?;
        let end = first + import.bytes;
        (address < end).then_some(end)
    }

    /// Whether something imported is mapped in a range.
    pub(super) fn overlap(&self, base: u64, limit: u64) -> bool {
        let mut imports = self.0.values();
        imports.any(|import| import.first < limit && base < import.end)
    }
}

/// The extents of an exported allocation: where each is mapped in its session, and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct ExportedExtents {
    pub(super) extents: Vec<(u64, u64)>,
    pub(crate) place: ExportPlace,
}
