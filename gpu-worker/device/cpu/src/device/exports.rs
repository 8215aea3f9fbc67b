//! Allocations that sessions let others use: who has imported which.
//!
//! One session runs at a time, and nothing of this changes while one does: what a session frees is taken from
//! those that have imported it before its pages go.

use super::CpuDevice;
use super::failure::memory_failure;
use super::session::{Session, Sessions};
use super::sharing::Shares as _;
use crate::error::MemoryError;
use crate::memory::ExportedPages;
use bus_schemas::{Code, ExportPlace, Failure, SessionId};
use device::ExportMemory;
use std::cell::RefCell;
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
    /// Who has it, and where.
    importers: Vec<(SessionId, u64)>,
}

impl Exports {
    /// The allocation of a session that begins at `address` is about to be freed.
    pub(super) fn freed(&mut self, session: SessionId, address: u64, others: &Sessions) {
        let mine = |it: &Exported| (it.session, it.address) == (session, address);
        self.end(mine, others);
    }

    /// A session is about to be closed.
    pub(super) fn closed(&mut self, session: SessionId, others: &Sessions) {
        self.end(|it| it.session == session, others);
        for exported in self.exported.values_mut() {
            exported.importers.retain(|(id, _)| *id != session);
        }
    }

    /// Ends exports: those that have imported them reach nothing there any more.
    fn end(&mut self, which: impl Fn(&Exported) -> bool, others: &Sessions) {
        let ended = self.exported.extract_if(.., |_, exported| which(exported));
        for (export, exported) in ended {
            for (id, at) in exported.importers {
                // Who imports is another session than who runs, and none of them is away.
                let importer = others.get(&id).and_then(|it| it.try_borrow_mut().ok());
                if let Some(mut importer) = importer {
                    importer.memory.drop_import(at);
                }
            }
            self.gone.push(export);
        }
    }
}

/// The memory of a session that is open and not here is with the mover, and will be here again.
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
            // What it shares with others it has for itself from now on: they are not to see its writes.
            let sharing = self.sharing.get_mut();
            if !sharing.keep_apart(&mut guest, address..address + bytes) {
                return Err(memory_failure(MemoryError::OutOfMemory(bytes)));
            }
        }
        let pages = owner.memory.export(address).map_err(memory_failure)?;
        let exported = Exported {
            session,
            address,
            pages,
            importers: Vec::new(),
        };
        self.exports.get_mut().exported.insert(export, exported);
        Ok(pages.place)
    }

    fn import(&mut self, session: SessionId, address: u64, export: u64) -> Result<(), Failure> {
        let exports = self.exports.get_mut();
        let exported = exports.exported.get(&export).ok_or_else(gone)?;
        let (owner, pages) = (exported.session, exported.pages);
        if owner == session {
            let why = "a session does not import what it exported itself";
            return Err(Failure::new(Code::BadAddress, why));
        }
        let importer = self.here(session)?;
        let imported = importer.memory.import(address, pages);
        imported.map_err(memory_failure)?;
        let exports = self.exports.get_mut();
        if let Some(exported) = exports.exported.get_mut(&export) {
            exported.importers.push((session, address));
        }
        Ok(())
    }

    fn drop_import(&mut self, session: SessionId, address: u64) -> Result<(), Failure> {
        let dropped = self.here(session)?.memory.drop_import(address);
        for exported in self.exports.get_mut().exported.values_mut() {
            exported.importers.retain(|it| *it != (session, address));
        }
        let nothing = || {
            Failure::new(
                Code::BadAddress,
                format!("nothing is imported at {address:#x}"),
            )
        };
        dropped.then_some(()).ok_or_else(nothing)
    }

    fn take_gone(&mut self, gone: &mut Vec<u64>) {
        gone.append(&mut self.exports.get_mut().gone);
    }
}
