//! Allocations that sessions let others use: who has imported which.

use std::collections::BTreeMap;

use bus_schemas::{Code, ExportPlace, Failure, SessionId};
use device::ExportMemory;

use crate::CudaDevice;
use crate::memory::ExportedExtents;
use crate::session::Session;

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
    importers: Vec<(SessionId, u64)>,
}

impl Exports {
    /// Ends the exports of a session, of one allocation or all: those that have imported them do with them
    /// what they have begun, and reach nothing there any more.
    pub(crate) fn end(
        &mut self,
        session: SessionId,
        address: Option<u64>,
        sessions: &mut BTreeMap<SessionId, Session>,
    ) {
        let ended = self.exported.extract_if(.., |_, it| {
            it.session == session && address.is_none_or(|address| it.address == address)
        });
        for (export, exported) in ended {
            for (id, at) in exported.importers {
                if let Some(importer) = sessions.get_mut(&id) {
                    // One that is not there any more, or whose context has ended, reaches nothing either.
                    let _ = importer.drop_import(at);
                }
            }
            self.gone.push(export);
        }
    }

    /// A session is closed: it uses nothing of others.
    pub(crate) fn closed(&mut self, session: SessionId) {
        for exported in self.exported.values_mut() {
            exported.importers.retain(|(id, _)| *id != session);
        }
    }
}

fn gone() -> Failure {
    Failure::new(Code::NotExported, "what was exported has been freed")
}

impl CudaDevice {
    fn here(&mut self, session: SessionId) -> Result<&mut Session, Failure> {
        if let Some(why) = &self.lost {
            return Err(why.clone());
        }
        let away = self.away.has(session);
        match self.sessions.get_mut(&session) {
            Some(here) => Ok(here),
            None if away => Err(Failure {
                retryable: true,
                ..Failure::new(Code::NotPinned, "the session's memory is being moved")
            }),
            None => Err(Failure::new(Code::SessionGone, "the session has ended")),
        }
    }
}

impl ExportMemory for CudaDevice {
    fn export(
        &mut self,
        session: SessionId,
        address: u64,
        export: u64,
    ) -> Result<ExportPlace, Failure> {
        let extents = self.here(session)?.export(address)?;
        let place = extents.place;
        let exported = Exported {
            session,
            address,
            extents,
            importers: Vec::new(),
        };
        self.exports.exported.insert(export, exported);
        Ok(place)
    }

    fn import(&mut self, session: SessionId, address: u64, export: u64) -> Result<(), Failure> {
        let context = self.context;
        let exported = self.exports.exported.get(&export).ok_or_else(gone)?;
        if exported.session == session {
            let why = "a session does not import what it exported itself";
            return Err(Failure::new(Code::BadAddress, why));
        }
        let extents = exported.extents.clone();
        context.enter()?;
        self.here(session)?.import(&context, address, &extents)?;
        if let Some(exported) = self.exports.exported.get_mut(&export) {
            exported.importers.push((session, address));
        }
        Ok(())
    }

    fn drop_import(&mut self, session: SessionId, address: u64) -> Result<(), Failure> {
        self.here(session)?.drop_import(address)?;
        for exported in self.exports.exported.values_mut() {
            exported.importers.retain(|it| *it != (session, address));
        }
        Ok(())
    }

    fn take_gone(&mut self, gone: &mut Vec<u64>) {
        gone.append(&mut self.exports.gone);
    }
}
