//! Memory of one session that another one uses.
//!
//! One session runs at a time, and the exports do not change while it runs. The exception is a
//! free: importers lose the memory before its pages go.

use super::CpuDevice;
use super::failure::memory_failure;
use super::session::Session;
use super::sharing::Shares as _;
use crate::error::MemoryError;
use crate::memory::remapped;
use bus_schemas::{Code, ExportPlace, Failure, SessionId};
use device::ExportMemory;
use std::cell::RefCell;

/// The mover has the memory of a session that is open but not here; it will come back.
fn elsewhere() -> Failure {
    let why = "the session's memory is being moved: it can be used when it is back";
    Failure {
        retryable: true,
        ..Failure::new(Code::NotPinned, why)
    }
}

fn gone() -> Failure {
    let why = "what was exported has been freed";
    Failure::new(Code::NotExported, why)
}

impl CpuDevice {
    fn here(&mut self, session: SessionId) -> Result<&mut Session, Failure> {
        let away = self.away.has(session);
        match self.sessions.get_mut(&session).map(RefCell::get_mut) {
            Some(here) => Ok(here),
            None if away => Err(elsewhere()),
            None => Err(Failure::new(Code::SessionGone, "the session has ended")),
        }
    }
}

impl CpuDevice {
    /// Ends the exports of a session that is about to be closed: importers lose access.
    pub(super) fn end_exports(&mut self, session: SessionId) {
        for (id, at) in self.exports.get_mut().closed(session) {
            // No importer is away, because a session with imports is never moved.
            if let Some(importer) = self.sessions.get_mut(&id) {
                importer.get_mut().memory.drop_import(at);
            }
        }
    }
}

impl ExportMemory for CpuDevice {
    fn export(
        &mut self,
        session: SessionId,
        address: u64,
        export: u64,
    ) -> Result<ExportPlace, Failure> {
        let bytes = self.here(session)?.memory.allocated(address).unwrap_or(0);
        let Some(owner) = self.sessions.get_mut(&session).map(RefCell::get_mut) else {
            return Err(elsewhere());
        };
        if let Some(mut guest) = owner.guest() {
            // The exporter takes its own copy of shared units, because sharers must not see its
            // writes.
            let sharing = self.sharing.get_mut();
            if !sharing.keep_apart(&mut guest, address..address + bytes) {
                return Err(memory_failure(MemoryError::OutOfMemory(bytes)));
            }
        }
        let pages = owner.memory.export(address).map_err(memory_failure)?;
        self.exports.get_mut().add(export, session, address, pages);
        Ok(pages.place)
    }

    fn import(&mut self, session: SessionId, address: u64, export: u64) -> Result<(), Failure> {
        let pages = self.exports.get_mut().pages(export).ok_or_else(gone)?;
        let tenant = self.here(session)?.memory.tenant();
        let (own, others) = self.exports.get_mut().imports(tenant);
        if !remapped::has_room(own, others, remapped::most()) {
            let why = "the worker's process has no more mappings for memory that this tenant's sessions import \
                       (vm.max_map_count)";
            return Err(Failure::new(Code::OutOfMemory, why));
        }
        let imported = self.here(session)?.memory.import(address, pages);
        imported.map_err(memory_failure)?;
        let exports = self.exports.get_mut();
        exports.imported(export, (session, address), tenant);
        Ok(())
    }

    fn drop_import(&mut self, session: SessionId, address: u64) -> Result<(), Failure> {
        let dropped = self.here(session)?.memory.drop_import(address);
        self.exports.get_mut().dropped((session, address));
        let nothing = || {
            Failure::new(
                Code::BadAddress,
                format!("nothing is imported at {address:#x}"),
            )
        };
        dropped.then_some(()).ok_or_else(nothing)
    }

    fn take_gone(&mut self, gone: &mut Vec<u64>) {
        self.exports.get_mut().take_gone(gone);
    }
}
