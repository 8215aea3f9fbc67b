//! I1 and I4, session by session: the ops that were submitted, granted and run.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    Code, Failure, Grant, GrantKind, Incarnation, OpNumber, OpenGrant, Outcome, SessionId, Tenant,
};

use super::{CheckResult, Violation};
use crate::hostile;
use sim_cluster::NodeId;

/// One session's history.
#[derive(Debug)]
struct Log {
    client: NodeId,
    tenant: Tenant,
    incarnation: Incarnation,
    doomed: bool,
    prints: Vec<u64>,
    granted: OpNumber,
    answered: OpNumber,
    // The last op with an answer that the client awaits.
    awaited: OpNumber,
    doubted: bool,
    closing: bool,
    failure: Option<Failure>,
    ended: bool,
}

impl Log {
    /// Its state, by its name in [`crate::coverage`], with ops run through `ran`; `None` once it is over.
    fn state(&self, ran: OpNumber) -> Option<&'static str> {
        let submitted = self.prints.len() as u64;
        Some(match () {
            () if self.ended => return None,
            () if self.failure.is_some() => "failed",
            () if self.closing => "closing",
            () if self.doubted => "doubted",
            () if self.granted < submitted => "queued",
            () if ran < submitted => "granted",
            () if self.answered < self.awaited => "waits for an answer",
            () => "idle",
        })
    }
}

/// All sessions' histories.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    logs: BTreeMap<SessionId, Log>,
    // Ops that ran, including those of sessions unknown to their clients.
    ran: BTreeMap<SessionId, (Incarnation, OpNumber)>,
    // Sessions of a hostile tenant: ops that run for it are no loss.
    hostile: BTreeSet<SessionId>,
    asking: BTreeSet<(NodeId, u64)>,
    on_device: BTreeSet<(Incarnation, SessionId)>,
    were_on_device: BTreeSet<SessionId>,
    /// True if honest sessions may fail, because something happened that can be a cause.
    pub troubled: bool,
    /// True if clients may time out, because a node may be silent.
    pub unheard: bool,
    /// Sessions with a client that timed out.
    pub gave_up: u64,
    /// Number of ops that ran.
    pub ops: u64,
    /// Numbers of sessions that ended in good order and of those that failed.
    pub ends: (u64, u64),
}

impl Sessions {
    /// Notes a client's request for a session.
    pub(crate) fn asked(&mut self, client: NodeId, nonce: u64) {
        self.asking.insert((client, nonce));
    }

    /// Notes a session that a leader gives to a tenant.
    pub(crate) fn given(&mut self, open: &OpenGrant) {
        if open.tenant == hostile::tenant() {
            self.hostile.insert(open.session);
        }
    }

    /// Notes that a client closes a session.
    pub(crate) fn closing(&mut self, session: SessionId) {
        if let Some(log) = self.logs.get_mut(&session) {
            log.closing = true;
        }
    }

    /// Notes the end of a session's position, void or not.
    pub(crate) fn settled(&mut self, session: SessionId, outcome: Outcome) {
        if let Some(log) = self.logs.get_mut(&session) {
            log.doubted = outcome == Outcome::Void;
        }
    }

    /// States of a client's sessions, of a worker's, or of all.
    pub(crate) fn states(
        &self,
        client: Option<NodeId>,
        worker: Option<Incarnation>,
    ) -> impl Iterator<Item = &'static str> {
        let asking = self.asking.iter().filter(move |(node, _)| {
            worker.is_none() && client.is_none_or(|client| client == *node)
        });
        let logs = self.logs.iter().filter(move |(_, log)| {
            client.is_none_or(|client| client == log.client)
                && worker.is_none_or(|worker| worker == log.incarnation)
        });
        let states = logs.filter_map(|(session, log)| {
            log.state(self.ran.get(session).map_or(0, |(_, last)| *last))
        });
        asking.map(|_| "opening").chain(states)
    }

    /// Checks a session that a client got.
    pub(crate) fn opened(
        &mut self,
        (client, nonce): (NodeId, u64),
        tenant: Tenant,
        session: SessionId,
        incarnation: Incarnation,
        doomed: bool,
    ) -> CheckResult {
        let log = Log {
            client,
            tenant,
            incarnation,
            doomed,
            prints: Vec::new(),
            granted: 0,
            answered: 0,
            awaited: 0,
            doubted: false,
            closing: false,
            failure: None,
            ended: false,
        };
        self.asking.remove(&(client, nonce));
        match self.logs.insert(session, log) {
            None => Ok(()),
            Some(_) => Err(Violation::new(
                "I1",
                format!("session {session} was given out twice"),
            )),
        }
    }

    /// Notes an op that a client pushed.
    pub(crate) fn submitted(
        &mut self,
        session: SessionId,
        op: OpNumber,
        print: u64,
        answered: bool,
    ) -> CheckResult {
        let log = self.log(session)?;
        if answered {
            log.awaited = op;
        }
        log.prints.push(print);
        if log.prints.len() as u64 == op {
            return Ok(());
        }
        let what = format!("session {session}: op {op} is its {}th", log.prints.len());
        Err(Violation::new("I1", what))
    }

    fn log(&mut self, session: SessionId) -> Result<&mut Log, Violation> {
        let unknown = || Violation::new("I4", format!("session {session} is no client's"));
        self.logs.get_mut(&session).ok_or_else(unknown)
    }

    /// Checks a grant that a leader published.
    pub(crate) fn granted(&mut self, grant: &Grant) -> CheckResult {
        if grant.kind != GrantKind::Run || self.hostile.contains(&grant.session) {
            return Ok(());
        }
        let session = grant.session;
        let log = self.log(session)?;
        log.granted = log.granted.max(grant.last);
        let submitted = log.prints.len() as u64;
        if grant.first == 0 || grant.first > grant.last || grant.last > submitted {
            let (first, last) = (grant.first, grant.last);
            let what = format!("session {session}: {first}..={last} granted of {submitted} ops");
            return Err(Violation::new("I4", what));
        }
        Ok(())
    }

    /// Checks an op that a device ran.
    pub(crate) fn ran(
        &mut self,
        incarnation: Incarnation,
        session: SessionId,
        op: OpNumber,
        print: u64,
    ) -> CheckResult {
        self.ops += 1;
        let (on, last) = self.ran.entry(session).or_insert((incarnation, 0));
        if *on != incarnation || op != *last + 1 {
            let what =
                format!("session {session}: op {op} ran on {incarnation} after {last} on {on}");
            return Err(Violation::new("I1", what));
        }
        *last = op;
        if self.hostile.contains(&session) {
            return Ok(());
        }
        let log = self.log(session)?;
        let submitted = log.prints.get(op as usize - 1);
        if submitted != Some(&print) {
            let what = format!("session {session}: op {op} ran as {print:x}, not {submitted:x?}");
            return Err(Violation::new("I1", what));
        }
        if !self.on_device.contains(&(incarnation, session)) {
            let what = format!("session {session}: op {op} ran while the session was not open");
            return Err(Violation::new("I1", what));
        }
        Ok(())
    }

    /// Checks that a device began or ended a session.
    pub(crate) fn device(
        &mut self,
        incarnation: Incarnation,
        session: SessionId,
        open: bool,
    ) -> CheckResult {
        let key = (incarnation, session);
        let fits = if open {
            self.were_on_device.insert(session) && self.on_device.insert(key)
        } else {
            self.on_device.remove(&key)
        };
        if fits {
            return Ok(());
        }
        let what = format!("session {session}: opened twice, or closed while not open");
        Err(Violation::new("I1", what))
    }

    /// Checks an answer to a client.
    pub(crate) fn answered(
        &mut self,
        session: SessionId,
        op: OpNumber,
        right: bool,
    ) -> CheckResult {
        let ran = self.ran.get(&session).map_or(0, |(_, last)| *last);
        let log = self.log(session)?;
        if !right || op <= log.answered || op > ran {
            let what = format!("session {session}: op {op} was answered wrongly (ran {ran})");
            return Err(Violation::new("I1", what));
        }
        log.answered = op;
        Ok(())
    }

    /// Checks the failure that a client was told of.
    pub(crate) fn failed(
        &mut self,
        session: SessionId,
        op: OpNumber,
        failure: &Failure,
        excused: bool,
    ) -> CheckResult {
        let (troubled, unheard) = (self.troubled, self.unheard);
        let silent = matches!(
            failure.code,
            Code::NoBroker | Code::NoLeader | Code::Unanswered
        );
        self.gave_up += u64::from(silent);
        let log = self.log(session)?;
        log.failure = Some(failure.clone());
        let expected = match failure.code {
            Code::DeviceLost | Code::Expired | Code::SessionGone => troubled,
            _ if silent => unheard,
            _ => excused,
        };
        if log.doomed || expected {
            self.ends.1 += 1;
            return Ok(());
        }
        let what = format!(
            "session {session} of {} failed at op {op}: {failure}",
            log.tenant
        );
        Err(Violation::new("honest", what))
    }

    /// Checks the end of a session that a client was told of.
    pub(crate) fn ended(&mut self, session: SessionId) -> CheckResult {
        let ran = self.ran.get(&session).map_or(0, |(_, last)| *last);
        let log = self.log(session)?;
        log.ended = true;
        let submitted = log.prints.len() as u64;
        if log.failure.is_none() {
            self.ends.0 += 1;
            if ran != submitted {
                let what = format!("session {session} ended well, but {ran} of {submitted} ran");
                return Err(Violation::new("I1", what));
            }
        }
        Ok(())
    }

    /// Removes a dead worker's sessions from their device.
    pub(crate) fn worker_died(&mut self, incarnation: Incarnation) {
        self.on_device.retain(|(on, _)| *on != incarnation);
    }

    /// Sessions that hold memory although their client is done with them. `alive` is true for a living
    /// client.
    #[must_use]
    pub(crate) fn leaked(&self, alive: &dyn Fn(NodeId) -> bool) -> Vec<SessionId> {
        self.on_device
            .iter()
            .map(|(_, session)| *session)
            .filter(|session| match self.logs.get(session) {
                // Opened, but never known to a client: it died or asked again.
                None => true,
                Some(log) => log.failure.is_some() || log.ended || !alive(log.client),
            })
            .collect()
    }

    /// Checks at the end that every op of a living session was granted and ran.
    pub(crate) fn finish(&self, alive: &dyn Fn(NodeId) -> bool) -> CheckResult {
        for (session, log) in &self.logs {
            let ran = self.ran.get(session).map_or(0, |(_, last)| *last);
            let submitted = log.prints.len() as u64;
            let live = alive(log.client) && log.failure.is_none();
            if live && ran < submitted {
                let granted = log.granted;
                let what = format!(
                    "session {session} of {} on {}: {submitted} ops, {granted} granted, {ran} ran",
                    log.tenant, log.incarnation
                );
                return Err(Violation::new("I4", what));
            }
        }
        Ok(())
    }
}
