//! The table of a session's imports.

use std::collections::BTreeMap;

use bus_schemas::ExportPlace;

use crate::driver::Mapping;

/// The imports of a session, by the addresses of their first bytes.
#[derive(Debug, Default)]
pub(super) struct Imports(pub(super) BTreeMap<u64, Import>);

#[derive(Debug)]
pub(super) struct Import {
    pub(super) bytes: u64,
    /// The address range of its extents.
    pub(super) first: u64,
    pub(super) end: u64,
    /// Mappings, unmapped when dropped.
    pub(super) _mappings: Vec<Mapping>,
}

impl Imports {
    /// True if a range lies in an import.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> bool {
        let before = self.0.range(..=address).next_back();
        before.is_some_and(|(first, import)| {
            let end = address.checked_add(bytes);
            end.is_some_and(|end| end <= first + import.bytes)
        })
    }

    /// End of the import that holds an address.
    pub(super) fn end(&self, address: u64) -> Option<u64> {
        let (first, import) = self.0.range(..=address).next_back()?;
        let end = first + import.bytes;
        (address < end).then_some(end)
    }

    /// True if an import is mapped in a range.
    pub(super) fn overlap(&self, base: u64, limit: u64) -> bool {
        let mut imports = self.0.values();
        imports.any(|import| import.first < limit && base < import.end)
    }
}

/// The extents of an exported allocation: the address of each in its session, and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct ExportedExtents {
    pub(super) extents: Vec<(u64, u64)>,
    pub(crate) place: ExportPlace,
}
