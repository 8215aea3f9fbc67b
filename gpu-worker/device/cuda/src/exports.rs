//! Exported allocations of sessions, and their importers.

use std::collections::BTreeMap;

use bus_schemas::SessionId;

use crate::memory::ExportedExtents;

/// The exports of a device's sessions.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    /// Exports by number.
    exported: BTreeMap<u64, Exported>,
    gone: Vec<u64>,
}

#[derive(Debug)]
struct Exported {
    session: SessionId,
    address: u64,
    extents: ExportedExtents,
    /// Importers, each with its address.
    importers: Vec<Importer>,
}

/// A session that has imported an export, and the address.
pub(crate) type Importer = (SessionId, u64);

impl Exports {
    /// Adds an export of a session: the allocation that begins at `address`.
    pub(crate) fn add(
        &mut self,
        export: u64,
        session: SessionId,
        address: u64,
        extents: ExportedExtents,
    ) {
        let exported = Exported {
            session,
            address,
            extents,
            importers: Vec::new(),
        };
        self.exported.insert(export, exported);
    }

    /// Returns the extents of an export, if it exists.
    pub(crate) fn extents(&self, export: u64) -> Option<ExportedExtents> {
        let exported = self.exported.get(&export);
        exported.map(|exported| exported.extents.clone())
    }

    /// Adds an importer of an export.
    pub(crate) fn imported(&mut self, export: u64, importer: Importer) {
        if let Some(exported) = self.exported.get_mut(&export) {
            exported.importers.push(importer);
        }
    }

    /// Removes an importer that does not use its import any more.
    pub(crate) fn dropped(&mut self, importer: Importer) {
        for exported in self.exported.values_mut() {
            exported.importers.retain(|it| *it != importer);
        }
    }

    /// Ends the exports of a session, of one allocation or of all. Returns the importers, which must reach
    /// nothing there any more.
    pub(crate) fn end(&mut self, session: SessionId, address: Option<u64>) -> Vec<Importer> {
        let ended = self.exported.extract_if(.., |_, it| {
            it.session == session && address.is_none_or(|address| it.address == address)
        });
        let mut importers = Vec::new();
        for (export, exported) in ended {
            importers.extend(exported.importers);
            self.gone.push(export);
        }
        importers
    }

    /// Removes a closed session from all importers.
    pub(crate) fn closed(&mut self, session: SessionId) {
        for exported in self.exported.values_mut() {
            exported.importers.retain(|(id, _)| *id != session);
        }
    }

    /// Takes the exports that are gone since the last call.
    pub(crate) fn take_gone(&mut self, gone: &mut Vec<u64>) {
        gone.append(&mut self.gone);
    }
}
