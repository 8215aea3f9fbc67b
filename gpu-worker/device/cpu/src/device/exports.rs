//! Allocations that sessions have exported, with their importers.

use crate::memory::ExportedPages;
use bus_schemas::SessionId;
use device::TenantNumber;
use std::collections::BTreeMap;

/// Exports of the sessions of a device.
#[derive(Debug, Default)]
pub(super) struct Exports {
    /// By the numbers of the exports.
    exported: BTreeMap<u64, Exported>,
    gone: Vec<u64>,
}

#[derive(Debug)]
struct Exported {
    session: SessionId,
    address: u64,
    pages: ExportedPages,
    imports: Vec<Import>,
}

/// A session that has imported an allocation, and its address there.
pub(super) type Importer = (SessionId, u64);

#[derive(Debug)]
struct Import {
    importer: Importer,
    tenant: Option<TenantNumber>,
}

impl Exports {
    /// Records that a session exports the allocation that begins at `address`.
    pub(super) fn add(
        &mut self,
        export: u64,
        session: SessionId,
        address: u64,
        pages: ExportedPages,
    ) {
        let exported = Exported {
            session,
            address,
            pages,
            imports: Vec::new(),
        };
        self.exported.insert(export, exported);
    }

    /// Pages of an export, if it exists.
    pub(super) fn pages(&self, export: u64) -> Option<ExportedPages> {
        self.exported.get(&export).map(|exported| exported.pages)
    }

    /// Number of imports by sessions of a tenant, and by all others.
    pub(super) fn imports(&self, tenant: Option<TenantNumber>) -> (usize, usize) {
        let all = || self.exported.values().flat_map(|it| &it.imports);
        let own = all().filter(|it| it.tenant == tenant).count();
        (own, all().count() - own)
    }

    /// Records an import by a session of this tenant.
    pub(super) fn imported(
        &mut self,
        export: u64,
        importer: Importer,
        tenant: Option<TenantNumber>,
    ) {
        if let Some(exported) = self.exported.get_mut(&export) {
            exported.imports.push(Import { importer, tenant });
        }
    }

    /// Records that an import has ended.
    pub(super) fn dropped(&mut self, importer: Importer) {
        for exported in self.exported.values_mut() {
            exported.imports.retain(|it| it.importer != importer);
        }
    }

    /// Ends the export of an allocation that begins at `address` and is about to be freed. The
    /// returned importers must lose access to it.
    pub(super) fn freed(&mut self, session: SessionId, address: u64) -> Vec<Importer> {
        self.end(|it| (it.session, it.address) == (session, address))
    }

    /// Ends the exports of a session that is about to be closed, likewise.
    pub(super) fn closed(&mut self, session: SessionId) -> Vec<Importer> {
        for exported in self.exported.values_mut() {
            exported.imports.retain(|it| it.importer.0 != session);
        }
        self.end(|it| it.session == session)
    }

    fn end(&mut self, which: impl Fn(&Exported) -> bool) -> Vec<Importer> {
        let ended = self.exported.extract_if(.., |_, exported| which(exported));
        let mut importers = Vec::new();
        for (export, exported) in ended {
            importers.extend(exported.imports.iter().map(|it| it.importer));
            self.gone.push(export);
        }
        importers
    }

    /// Takes the exports that have ended since the last call.
    pub(super) fn take_gone(&mut self, gone: &mut Vec<u64>) {
        gone.append(&mut self.gone);
    }
}
