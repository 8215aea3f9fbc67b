//! Memory that sessions share: each request is carried out once, for its own tenant, and answered in one way.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    ExportKey, ExportPlace, Incarnation, IpcAction, IpcAnswer, IpcRequest, SessionId, Tenant,
};
use gpu_worker_core::exports::DeviceAction;

use super::{CheckResult, Violation};

/// A request.
#[derive(Debug)]
struct Asked {
    action: IpcAction,
    answer: Option<Answer>,
}

/// An answer, as far as it must stay the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Refused,
    Done(Option<ExportPlace>),
}

/// An export of a device.
#[derive(Debug)]
struct Export {
    tenant: Tenant,
    key: ExportKey,
    bytes: u64,
    /// True if its memory is gone.
    ended: bool,
    /// True if its worker knows that.
    forgotten: bool,
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
    /// Number of answered requests.
    pub answered: u64,
    /// Number of imports.
    pub imported: u64,
    /// Number of accesses to imports.
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
                    forgotten: false,
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
    }

    /// Notes that a worker knows of the end of an export. It must not find it from now on.
    pub(crate) fn forgotten(&mut self, worker: Incarnation, export: u64) {
        if let Some(ended) = self.exports.get_mut(&(worker, export)) {
            ended.forgotten = true;
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
        let told = match answer.failure {
            Some(_) => Answer::Refused,
            None => Answer::Done(answer.place),
        };
        match asked.answer.replace(told) {
            Some(before) if before != told => return wrong(session, "answered in two ways"),
            Some(_) => return Ok(()),
            None => self.answered += 1,
        }
        let Answer::Done(place) = told else {
            return Ok(());
        };
        let carried = self.carried.get(&session).copied();
        match asked.action {
            IpcAction::Find { key } | IpcAction::Export { key, .. } => {
                let place = place.unwrap_or_default();
                let mut exports = self.exports.range((worker, 0)..=(worker, u64::MAX));
                let known = exports.any(|(_, it)| {
                    let is_it = (&it.tenant, it.key, it.bytes) == (tenant, key, place.bytes);
                    is_it && !it.forgotten
                });
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
        let allowed = exported && address.saturating_add(bytes) <= start + length;
        self.peeked += u64::from(allowed);
        allowed
    }

    /// True if the session has an import that has ended: an access to it fails.
    pub(crate) fn is_bereft(&self, session: SessionId) -> bool {
        let imports = self.imports.get(&session).into_iter().flatten();
        let mut exports = imports.filter_map(|(_, (_, export))| self.exports.get(export));
        exports.any(|export| export.ended)
    }

    /// Checks a move of a session's memory off its device.
    pub(crate) fn swapped(&self, session: SessionId, out: bool) -> CheckResult {
        if out && self.shared.contains(&session) {
            return wrong(session, "its memory left the device although it is shared");
        }
        Ok(())
    }
}
