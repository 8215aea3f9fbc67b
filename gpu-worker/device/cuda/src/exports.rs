//! Allocations that sessions let others use: who has imported which.

use std::collections::BTreeMap;

use bus_schemas::SessionId;

use crate::memory::ExportedExtents;

/// What the sessions of a device have exported.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    /// By the numbers of the exports.
    exported: BTreeMap<u64, Exported>,
    gone: Vec<u64>,
}

#[derive(Debug)]
struct Exported {
    session: SessionId,
    address: u64,
    extents: ExportedExtents,
    /// Who has it, and where.
    importers: Vec<Importer>,
}

/// A session that has imported something, and where.
pub(crate) type Importer = (SessionId, u64);

impl Exports {
    /// A session exports the allocation that begins at `address`.
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

    /// The extents of an export, if it is there.
    pub(crate) fn extents(&self, export: u64) -> Option<ExportedExtents> {
        let exported = self.exported.get(&export);
        exported.map(|exported| exported.extents.clone())
    }

    /// It was imported.
    pub(crate) fn imported(&mut self, export: u64, importer: Importer) {
        if let Some(exported) = self.exported.get_mut(&export) {
            exported.importers.push(importer);
        }
    }

    /// What was imported is not used any more.
    pub(crate) fn dropped(&mut self, importer: Importer) {
        for exported in self.exported.values_mut() {
            exported.importers.retain(|it| *it != importer);
        }
    }

    /// The exports of a session end, of one allocation or all: those that have imported them are to reach
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

    /// A session is closed: it uses nothing of others.
    pub(crate) fn closed(&mut self, session: SessionId) {
        for exported in self.exported.values_mut() {
            exported.importers.retain(|(id, _)| *id != session);
        }
    }

    /// The exports that are gone since this was last asked.
    pub(crate) fn take_gone(&mut self, gone: &mut Vec<u64>) {
        gone.append(&mut self.gone);
    }
}
