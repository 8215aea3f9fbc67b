//! Memory that sessions share: each request is carried out once, for its own tenant, and answered in one way.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    ExportKey, ExportPlace, Incarnation, IpcAction, IpcAnswer, IpcRequest, SessionId, Tenant,
};
use gpu_worker_core::exports::DeviceAction;

use super::{CheckResult, Violation};

/// A request, and the place in its answer; `None` in place of an error.
#[derive(Debug)]
struct Asked {
    action: IpcAction,
    answer: Option<Option<Option<ExportPlace>>>,
}

/// An export of a device.
#[derive(Debug)]
struct Export {
    tenant: Tenant,
    key: ExportKey,
    bytes: u64,
    ended: bool,
}

/// Imports of one session: first address, bytes and the export.
type Imports = BTreeMap<u64, (u64, (Incarnation, u64))>;

/// All requests, exports and imports.
#[derive(Debug, Default)]
pub(crate) struct Exports {
    asked: BTreeMap<SessionId, BTreeMap<u64, Asked>>,
    /// The last request of each session that its device carried out.
    carried: BTreeMap<SessionId, u64>,
    exports: BTreeMap<(Incarnation, u64), Export>,
    imports: BTreeMap<SessionId, Imports>,
    /// Sessions that share memory: it stays on the device.
    shared: BTreeSet<SessionId>,
    /// Sessions with an import that has ended under them.
    bereft: BTreeSet<SessionId>,
    /// Number of answered requests, of imports, and of accesses to imports.
    pub answered: u64,
    pub imported: u64,
    pub peeked: u64,
}

fn wrong(session: SessionId, what: impl std::fmt::Display) -> CheckResult {
    Err(Violation::new(
        "exports",
        format!("session {session}: {what}"),
    ))
}

impl Exports {
    /// Notes a request that a worker receives from the session's tenant.
    pub(crate) fn asked(&mut self, session: SessionId, request: &IpcRequest) {
        let asked = self.asked.entry(session).or_default();
        asked.entry(request.number).or_insert_with(|| Asked {
            action: request.action,
            answer: None,
        });
    }

    /// Checks that a device acts for a session as its newest request asks, and once.
    pub(crate) fn carried_out(
        &mut self,
        worker: Incarnation,
        (tenant, session): (&Tenant, SessionId),
        action: DeviceAction,
        bytes: Option<u64>,
    ) -> CheckResult {
        let newest = self.asked.get(&session).and_then(BTreeMap::last_key_value);
        let Some((number, asked)) = newest else {
            return wrong(session, "the device acted without a request");
        };
        if self
            .carried
            .insert(session, *number)
            .is_some_and(|last| last >= *number)
        {
            return wrong(session, format!("request {number} was carried out twice"));
        }
        let imports = self.imports.entry(session).or_default();
        match (action, asked.action) {
            (DeviceAction::Export { export, address }, IpcAction::Export { key, address: own })
                if address == own =>
            {
                let exported = bytes.map(|bytes| Export {
                    tenant: tenant.clone(),
                    key,
                    bytes,
                    ended: false,
                });
                self.exports
                    .extend(exported.map(|it| ((worker, export), it)));
            }
            (DeviceAction::Import { export, address }, IpcAction::Import { key, address: own })
                if address == own =>
            {
                let Some(from) = self.exports.get(&(worker, export)) else {
                    return wrong(session, "it imports memory that was not exported");
                };
                if (&from.tenant, from.key) != (tenant, key) {
                    return wrong(session, format!("it imports memory of {}", from.tenant));
                }
                if bytes.is_some() {
                    self.imported += 1;
                    imports.insert(address, (from.bytes, (worker, export)));
                }
            }
            (DeviceAction::Drop { address }, IpcAction::Drop { address: own })
                if address == own =>
            {
                imports.remove(&address);
            }
            (did, asked) => return wrong(session, format!("asked {asked:?}, did {did:?}")),
        }
        if bytes.is_some() && !matches!(action, DeviceAction::Drop { .. }) {
            self.shared.insert(session);
        }
        Ok(())
    }

    /// Notes that an export has ended.
    pub(crate) fn gone(&mut self, worker: Incarnation, export: u64) {
        if let Some(ended) = self.exports.get_mut(&(worker, export)) {
            ended.ended = true;
        }
        for (session, imports) in &self.imports {
            if imports.values().any(|(_, of)| *of == (worker, export)) {
                self.bereft.insert(*session);
            }
        }
    }

    /// Checks a worker's answer.
    pub(crate) fn answers(
        &mut self,
        worker: Incarnation,
        (tenant, session): (&Tenant, SessionId),
        answer: &IpcAnswer,
    ) -> CheckResult {
        let asked = self.asked.get_mut(&session);
        let asked = asked.and_then(|asked| asked.get_mut(&answer.number));
        let Some(asked) = asked else {
            return wrong(session, "an answer without a request");
        };
        let place = answer.failure.is_none().then_some(answer.place);
        match asked.answer.replace(place) {
            Some(before) if before != place => return wrong(session, "answered in two ways"),
            Some(_) => return Ok(()),
            None => self.answered += 1,
        }
        let Some(place) = place else {
            return Ok(());
        };
        let carried = self.carried.get(&session).copied();
        match asked.action {
            IpcAction::Find { key } | IpcAction::Export { key, .. } => {
                let place = place.unwrap_or_default();
                let mut exports = self.exports.range((worker, 0)..=(worker, u64::MAX));
                let known = exports
                    .any(|(_, it)| (&it.tenant, it.key, it.bytes) == (tenant, key, place.bytes));
                match known {
                    true => Ok(()),
                    false => wrong(session, format!("{place:?} was not exported by {tenant}")),
                }
            }
            IpcAction::Import { .. } | IpcAction::Drop { .. } => match carried {
                Some(carried) if carried >= answer.number => Ok(()),
                _ => wrong(session, "answered before the device acted"),
            },
        }
    }

    /// True if an access lies in memory that the session has imported and that is still exported.
    pub(crate) fn allows(&mut self, session: SessionId, (address, bytes): (u64, u64)) -> bool {
        let imports = self.imports.get(&session);
        let below = imports.and_then(|imports| imports.range(..=address).next_back());
        let Some((start, (length, export))) = below else {
            return false;
        };
        let lives = |it: &Export| !it.ended;
        let exported = self.exports.get(export).is_some_and(lives);
        let allowed = exported && address + bytes <= start + length;
        self.peeked += u64::from(allowed);
        allowed
    }

    /// True if an import of the session has ended under it: its accesses may fail.
    pub(crate) fn is_bereft(&self, session: SessionId) -> bool {
        self.bereft.contains(&session)
    }

    /// Checks a move of a session's memory off its device.
    pub(crate) fn swapped(&self, session: SessionId, out: bool) -> CheckResult {
        if out && self.shared.contains(&session) {
            return wrong(session, "its memory left the device although it is shared");
        }
        Ok(())
    }
}
