//! Allocations that sessions let others use: who has imported which.

use crate::memory::ExportedPages;
use bus_schemas::SessionId;
use device::TenantNumber;
use std::collections::BTreeMap;

/// What the sessions of a device have exported.
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

/// A session that has imported something, and where.
pub(super) type Importer = (SessionId, u64);

#[derive(Debug)]
struct Import {
    importer: Importer,
    tenant: Option<TenantNumber>,
}

impl Exports {
    /// A session exports the allocation that begins at `address`.
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

    /// Where the pages of an export lie, if it is there.
    pub(super) fn pages(&self, export: u64) -> Option<ExportedPages> {
        self.exported.get(&export).map(|exported| exported.pages)
    }

    /// How many imports there are of a tenant's sessions, and of all others.
    pub(super) fn imports(&self, tenant: Option<TenantNumber>) -> (usize, usize) {
        let all = || self.exported.values().flat_map(|it| &it.imports);
        let own = all().filter(|it| it.tenant == tenant).count();
        (own, all().count() - own)
    }

    /// It was imported by a session of this tenant's.
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

    /// What was imported is not used any more.
    pub(super) fn dropped(&mut self, importer: Importer) {
        for exported in self.exported.values_mut() {
            exported.imports.retain(|it| it.importer != importer);
        }
    }

    /// The allocation of a session that begins at `address` is about to be freed: those that have imported it
    /// are to reach nothing there any more.
    pub(super) fn freed(&mut self, session: SessionId, address: u64) -> Vec<Importer> {
        self.end(|it| (it.session, it.address) == (session, address))
    }

    /// A session is about to be closed, likewise.
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

    /// The exports that are gone since this was last asked.
    pub(super) fn take_gone(&mut self, gone: &mut Vec<u64>) {
        gone.append(&mut self.gone);
    }
}
