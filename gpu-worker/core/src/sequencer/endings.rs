//! Ends of positions: completions on the device, and the state dropped with them.

use bus_schemas::{DoneReport, Failure, GpuPosition, Grant, GrantKind, Outcome, SessionId};

use super::pending::{Begun, Ending};
use super::session::Phase;
use super::{Action, CompletedEvent, Sequencer, Settled};
use crate::Nanos;

impl Sequencer {
    /// Handles the end of a position.
    pub(super) fn settle(
        &mut self,
        now: Nanos,
        position: GpuPosition,
        ending: Ending,
        actions: &mut Vec<Action>,
    ) {
        let Some((grant, begun)) = self.pending.end(position) else {
            return;
        };
        let session = self.sessions.get(grant.session);
        let report = DoneReport {
            position,
            session: grant.session,
            measured: ending.measured,
            received: session.map_or(0, |session| session.received),
            outcome: ending.outcome,
            declared: 0,
        };
        self.reports.push(report, begun.until(ending.started, now));
        let gone = self.former.name(grant.session);
        actions.push(Action::Settled(Settled {
            position,
            session: grant.session,
            tenant: session
                .map(|session| session.tenant.clone())
                .or_else(|| gone.map(|(tenant, _)| tenant.clone())),
            ordinal: session
                .map(|session| session.ordinal)
                .or_else(|| gone.map(|(_, ordinal)| *ordinal))
                .unwrap_or(0),
            kind: grant.kind,
            first: grant.first,
            last: ending.last,
            granted: grant.last,
            outcome: ending.outcome,
            failed: ending.failed,
        }));
        self.report_soon(now);
    }

    fn running_grant(&self, position: GpuPosition) -> Option<Grant> {
        let accepted = self.pending.get(position)?;
        let running = !accepted.ended && position <= self.begun;
        running.then_some(accepted.grant)
    }

    /// Returns the completed work as a grant of just that, and the times of its begin: a slice, or a part of
    /// a standing grant.
    fn completed_grant(&mut self, completed: &CompletedEvent<'_>) -> Option<(Grant, Begun)> {
        let grant = self
            .running_grant(completed.position)
            .filter(|grant| grant.session == completed.session)?;
        match grant.kind {
            GrantKind::Run => Some((grant, Begun::default())),
            GrantKind::Standing => {
                let standing = self.standings.get_mut(completed.position)?;
                standing.take_part(&grant)
            }
            GrantKind::Open | GrantKind::Close | GrantKind::Revoke | GrantKind::Return => None,
        }
    }

    pub(super) fn on_completed(
        &mut self,
        now: Nanos,
        completed: &CompletedEvent<'_>,
        actions: &mut Vec<Action>,
    ) {
        let Some((grant, begun)) = self.completed_grant(completed) else {
            return;
        };
        let Some(session) = self.sessions.get_mut(grant.session) else {
            return;
        };
        self.lanes.end(&grant);
        let skipped = session.broken && completed.fault.is_some();
        let (done, last, outcome) = match completed.fault {
            _ if skipped => (session.done, grant.last, Outcome::Gone),
            Some((op, _)) => {
                let op = op.clamp(grant.first, grant.last);
                (op - 1, op, Outcome::Ran)
            }
            None => (grant.last, grant.last, Outcome::Ran),
        };
        let before = session.pending_bytes;
        let first = session.results + 1;
        let results = if skipped { &[] } else { completed.results };
        session.complete(now, done, results);
        self.pending_bytes -= before - session.pending_bytes;
        session.broken |= completed.fault.is_some();
        if !results.is_empty() {
            // The results themselves say which ops are done, so the acknowledgement can wait.
            let session = grant.session;
            actions.push(Action::Results { session, first });
        }
        self.reports.compiled_for_next(completed.compiled);
        let ending = Ending {
            measured: completed.device_ns,
            last,
            outcome,
            failed: completed.fault.is_some() && !skipped,
            started: completed.began,
        };
        match grant.kind {
            GrantKind::Standing => {
                self.part_ended(now, completed, (&grant, begun, ending), actions)
            }
            _ => self.settle(now, completed.position, ending, actions),
        }
        if let (Some((op, failure)), false) = (completed.fault, skipped) {
            self.fail(now, grant.session, op, failure.clone(), actions);
        }
        self.want_ack(now, grant.session);
        self.close_if_idle(grant.session, actions);
    }

    pub(super) fn on_opened(
        &mut self,
        now: Nanos,
        session: SessionId,
        failure: Option<&Failure>,
        actions: &mut Vec<Action>,
    ) {
        let accepted = self.pending.iter().find(|accepted| {
            let open = accepted.grant.kind == GrantKind::Open && !accepted.ended;
            open && accepted.grant.session == session && accepted.position <= self.begun
        });
        let (Some(position), Some(entry)) = (
            accepted.map(|accepted| accepted.position),
            self.sessions.get_mut(session),
        ) else {
            return;
        };
        entry.running -= 1;
        let outcome = match failure {
            Some(_) => Outcome::Gone,
            None => Outcome::Ran,
        };
        self.settle(now, position, Ending::plain(0, outcome), actions);
        if let Some(failure) = failure {
            self.fail(now, session, 0, failure.clone(), actions);
        }
        self.want_ack(now, session);
        self.acks.urge();
        self.close_if_idle(session, actions);
    }

    /// Ends the return grants of a session: its memory is on the device, or the session can no longer use it.
    pub(super) fn on_returned(
        &mut self,
        now: Nanos,
        session: SessionId,
        actions: &mut Vec<Action>,
    ) {
        let begun = self.begun;
        let returns = self.pending.iter().filter(|accepted| {
            let kind = accepted.grant.kind == GrantKind::Return && !accepted.ended;
            kind && accepted.grant.session == session && accepted.position <= begun
        });
        let positions: Vec<GpuPosition> = returns.map(|accepted| accepted.position).collect();
        for position in positions {
            if let Some(entry) = self.sessions.get_mut(session) {
                entry.running -= 1;
            }
            self.settle(now, position, Ending::plain(0, Outcome::Ran), actions);
        }
        self.close_if_idle(session, actions);
    }

    /// Tells the device, once, to close a closing session that has nothing running.
    pub(super) fn close_if_idle(&mut self, session: SessionId, actions: &mut Vec<Action>) {
        if let Some(entry) = self.sessions.get_mut(session)
            && let Phase::Closing(position) = entry.phase
            && entry.running == 0
        {
            entry.phase = Phase::DeviceClosing(position);
            actions.push(Action::Close { session });
        }
    }

    pub(super) fn on_closed(&mut self, now: Nanos, session: SessionId, actions: &mut Vec<Action>) {
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        let Phase::DeviceClosing(position) = entry.phase else {
            return;
        };
        entry.phase = Phase::Closed(now);
        self.former.close(now, session);
        self.settle(now, position, Ending::plain(0, Outcome::Ran), actions);
    }

    /// Forgets closed sessions with results that are acknowledged or were kept long enough.
    pub(super) fn forget_closed(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let linger = self.config.linger_ns;
        let sessions = &self.sessions;
        let over = self.former.take(|at, session| {
            let entry = sessions.get(session);
            let clear = entry.is_none_or(|entry| entry.acknowledged == entry.results);
            clear || now >= at + linger
        });
        for session in over {
            if let Some(entry) = self.sessions.forget(session) {
                self.former.add(session, (entry.tenant, entry.ordinal));
                actions.push(Action::Ended { session });
            }
        }
    }
}
