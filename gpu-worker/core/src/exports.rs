//! Allocations that sessions let others of their tenant use: who exported what, and by which name.
//!
//! A request comes, the device does what it asks, and the answer is kept until the next request: one that
//! is said again gets it again. A name is a tenant's own: another tenant that has learnt it finds nothing.

use std::collections::BTreeMap;

use bus_schemas::{
    Code, ExportKey, ExportPlace, Failure, IpcAction, IpcAnswer, IpcRequest, SessionId, Tenant,
    WIRE_VERSION, limits,
};

/// Exported allocations, and the request that each session made last.
#[derive(Debug, Default)]
pub struct Exports {
    /// The number of the allocation exported last.
    last: u64,
    exported: BTreeMap<(Tenant, ExportKey), Exported>,
    sessions: BTreeMap<SessionId, Asking>,
}

#[derive(Debug)]
struct Exported {
    session: SessionId,
    address: u64,
    export: u64,
    /// Known once the device has answered.
    place: Option<ExportPlace>,
}

/// A session's last request.
#[derive(Debug)]
struct Asking {
    tenant: Tenant,
    request: IpcRequest,
    answer: Option<IpcAnswer>,
    /// Allocations that it has exported.
    exports: usize,
    /// What it has imported: the export, by the address where it is.
    imports: BTreeMap<u64, u64>,
    /// The export that the device is to import for it.
    importing: u64,
}

/// What the shell does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportAction {
    /// The device is to do this, and [`Exports::done`] told what came of it.
    Device(SessionId, DeviceAction),
    /// The client is told this.
    Answer(Tenant, SessionId, IpcAnswer),
}

/// What the device is to do for a session. An export has a number that no other has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceAction {
    /// Others may use the allocation that begins at `address`.
    Export {
        /// Its number.
        export: u64,
        /// Where it begins.
        address: u64,
    },
    /// Have its first byte at `address` as well.
    Import {
        /// Its number.
        export: u64,
        /// Where the session has kept room for it.
        address: u64,
    },
    /// What was imported at `address` is not used any more.
    Drop {
        /// Where it was imported.
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
    /// A session of the tenant asks. `kept` says whether its memory stays on the device from now on; else
    /// nobody can use it, and it can use nobody's.
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
            // The device owes an answer; the client asks again.
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

    /// The place of what a tenant exported by this name.
    fn find(&self, tenant: &Tenant, key: ExportKey) -> Result<ExportPlace, Failure> {
        let found = self.exported.get(&(tenant.clone(), key));
        found.and_then(|it| it.place).ok_or_else(unknown)
    }

    /// Either something for the device, or the place of what is exported by that name already.
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

    /// The export of this name, if the tenant's sessions may import one more.
    fn import(&self, tenant: &Tenant, key: ExportKey) -> Result<u64, Failure> {
        let found = self.exported.get(&(tenant.clone(), key));
        let found = found.filter(|it| it.place.is_some()).ok_or_else(unknown)?;
        let own = self.sessions.values().filter(|it| it.tenant == *tenant);
        match own.map(|it| it.imports.len()).sum::<usize>() < limits::EXPORTS {
            true => Ok(found.export),
            false => Err(too_many()),
        }
    }

    /// The device has done what a session asked for, or not; an export has a place then.
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
            // Where it fails, nothing is there any more.
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

    /// An exported allocation is gone, freed or with its session.
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

    /// A session has ended: nobody finds what it exported.
    pub fn closed(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.exported.retain(|_, it| it.session != session);
    }
}
