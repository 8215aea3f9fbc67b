//! Allocations that sessions export to other sessions of their tenant, by name.
//!
//! The device carries out a request, and the answer is kept until the session's next request; a repeated
//! request gets it again. A name belongs to a tenant: another tenant that has learnt it finds nothing.

use std::collections::BTreeMap;

use bus_schemas::{
    Code, ExportKey, ExportPlace, Failure, IpcAction, IpcAnswer, IpcRequest, SessionId, Tenant,
    WIRE_VERSION, limits,
};

/// Exported allocations, and the request that each session made last.
#[derive(Debug, Default)]
pub struct Exports {
    /// Number of the newest export.
    last: u64,
    exported: BTreeMap<(Tenant, ExportKey), Exported>,
    sessions: BTreeMap<SessionId, Asking>,
}

#[derive(Debug)]
struct Exported {
    session: SessionId,
    address: u64,
    export: u64,
    /// Place of the export, known once the device has answered.
    place: Option<ExportPlace>,
}

/// A session's last request, its exports and its imports.
#[derive(Debug)]
struct Asking {
    tenant: Tenant,
    request: IpcRequest,
    answer: Option<IpcAnswer>,
    /// Number of allocations that it has exported.
    exports: usize,
    /// Numbers of the exports that it has imported, by their addresses in the session.
    imports: BTreeMap<u64, u64>,
    /// The export that the device is to import for it.
    importing: u64,
}

/// An action for the worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportAction {
    /// Have the device do this, then call [`Exports::done`] with the result.
    Device(SessionId, DeviceAction),
    /// Send the client this answer.
    Answer(Tenant, SessionId, IpcAnswer),
}

/// An action of the device for a session. The number of an export is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceAction {
    /// Let other sessions use the allocation that begins at `address`.
    Export {
        /// Number of the export.
        export: u64,
        /// Address of its first byte.
        address: u64,
    },
    /// Map the export at `address` as well.
    Import {
        /// Number of the export.
        export: u64,
        /// Address at which the session has kept room for it.
        address: u64,
    },
    /// Unmap the import at `address`.
    Drop {
        /// Address of the import.
        address: u64,
    },
}

fn unknown() -> Failure {
    let why = "no memory is exported by that name on this worker, or it was freed; the processes must be \
               one tenant's, on one worker";
    Failure::new(Code::NotExported, why)
}

fn too_many() -> Failure {
    let most = limits::EXPORTS;
    let why = format!(
        "a session exports {most} allocations at most, and a tenant's sessions on a worker import as many"
    );
    Failure::new(Code::OutOfMemory, why)
}

impl Exports {
    /// Handles a request of a tenant's session. `kept` says if the session's memory stays on the device from
    /// now on. Otherwise it can neither export nor import.
    pub fn asked(
        &mut self,
        (tenant, session): (&Tenant, SessionId),
        request: IpcRequest,
        kept: Result<(), Failure>,
    ) -> Option<ExportAction> {
        let asking = self.sessions.entry(session).or_insert_with(|| Asking {
            tenant: tenant.clone(),
            request: IpcRequest {
                number: 0,
                ..request
            },
            answer: None,
            exports: 0,
            imports: BTreeMap::new(),
            importing: 0,
        });
        if asking.request.number > 0 && asking.answer.is_none() {
            // The device still owes an answer; the client asks again.
            return None;
        }
        if request.number <= asking.request.number {
            let same = request.number == asking.request.number;
            let answer = asking.answer.clone().filter(|_| same)?;
            return Some(ExportAction::Answer(tenant.clone(), session, answer));
        }
        asking.request = request;
        asking.answer = None;
        let exports = asking.exports;
        let decided = match (request.action, kept) {
            (IpcAction::Find { key }, _) => self.find(tenant, key).map(Err),
            (IpcAction::Drop { address }, _) => Ok(Ok(DeviceAction::Drop { address })),
            (_, Err(failure)) => Err(failure),
            (IpcAction::Export { key, address }, Ok(())) => {
                self.export((tenant, session), (key, address), exports)
            }
            (IpcAction::Import { key, address }, Ok(())) => {
                let import = self.import(tenant, key);
                import.map(|export| {
                    if let Some(asking) = self.sessions.get_mut(&session) {
                        asking.importing = export;
                    }
                    Ok(DeviceAction::Import { export, address })
                })
            }
        };
        match decided {
            Ok(Ok(action)) => Some(ExportAction::Device(session, action)),
            Ok(Err(place)) => self.answer(session, Ok(Some(place))),
            Err(failure) => self.answer(session, Err(failure)),
        }
    }

    /// Returns the place of the tenant's export of this name.
    fn find(&self, tenant: &Tenant, key: ExportKey) -> Result<ExportPlace, Failure> {
        let found = self.exported.get(&(tenant.clone(), key));
        found.and_then(|it| it.place).ok_or_else(unknown)
    }

    /// Returns the action for the device, or the place if the session has exported the allocation by that
    /// name already.
    fn export(
        &mut self,
        (tenant, session): (&Tenant, SessionId),
        (key, address): (ExportKey, u64),
        exports: usize,
    ) -> Result<Result<DeviceAction, ExportPlace>, Failure> {
        let name = (tenant.clone(), key);
        if let Some(known) = self.exported.get(&name) {
            let own = (known.session, known.address) == (session, address);
            let place = known.place.filter(|_| own);
            let taken = || Failure::new(Code::Protocol, "the name of an export is taken");
            return place.map(Err).ok_or_else(taken);
        }
        if exports >= limits::EXPORTS {
            return Err(too_many());
        }
        self.last += 1;
        let export = self.last;
        let exported = Exported {
            session,
            address,
            export,
            place: None,
        };
        self.exported.insert(name, exported);
        Ok(Ok(DeviceAction::Export { export, address }))
    }

    /// Returns the export of this name, if the tenant's sessions may import one more.
    fn import(&self, tenant: &Tenant, key: ExportKey) -> Result<u64, Failure> {
        let found = self.exported.get(&(tenant.clone(), key));
        let found = found.filter(|it| it.place.is_some()).ok_or_else(unknown)?;
        let own = self.sessions.values().filter(|it| it.tenant == *tenant);
        match own.map(|it| it.imports.len()).sum::<usize>() < limits::EXPORTS {
            true => Ok(found.export),
            false => Err(too_many()),
        }
    }

    /// Handles the device's result of a session's request. A successful export has a place from then on.
    pub fn done(
        &mut self,
        session: SessionId,
        came: Result<Option<ExportPlace>, Failure>,
    ) -> Option<ExportAction> {
        let asking = self.sessions.get_mut(&session)?;
        let name = |key| (asking.tenant.clone(), key);
        match (asking.request.action, &came) {
            (IpcAction::Export { key, .. }, Ok(place)) => {
                asking.exports += 1;
                if let Some(exported) = self.exported.get_mut(&name(key)) {
                    exported.place = *place;
                }
            }
            (IpcAction::Export { key, .. }, Err(_)) => {
                self.exported.remove(&name(key));
            }
            (IpcAction::Import { address, .. }, Ok(_)) => {
                asking.imports.insert(address, asking.importing);
            }
            // The import is gone even if the drop fails.
            (IpcAction::Drop { address }, _) => {
                asking.imports.remove(&address);
            }
            _ => {}
        }
        self.answer(session, came)
    }

    fn answer(
        &mut self,
        session: SessionId,
        came: Result<Option<ExportPlace>, Failure>,
    ) -> Option<ExportAction> {
        let asking = self.sessions.get_mut(&session)?;
        let (place, failure) = match came {
            Ok(place) => (place, None),
            Err(failure) => (None, Some(failure)),
        };
        let answer = IpcAnswer {
            v: WIRE_VERSION,
            number: asking.request.number,
            place,
            failure,
        };
        asking.answer = Some(answer.clone());
        Some(ExportAction::Answer(asking.tenant.clone(), session, answer))
    }

    /// Forgets an exported allocation that is gone, freed or with its session.
    pub fn freed(&mut self, export: u64) {
        let mut gone = None;
        self.exported.retain(|_, it| {
            let stays = it.export != export;
            if !stays {
                gone = Some(it.session);
            }
            stays
        });
        if let Some(asking) = gone.and_then(|session| self.sessions.get_mut(&session)) {
            asking.exports = asking.exports.saturating_sub(1);
        }
        for asking in self.sessions.values_mut() {
            asking.imports.retain(|_, imported| *imported != export);
        }
    }

    /// Forgets a session that has ended. No session finds its exports any more.
    pub fn closed(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.exported.retain(|_, it| it.session != session);
    }
}
