//! Positions: accepted without gaps, started in order, ended.

use bus_schemas::{
    ChainEntry, Code, Failure, GpuPosition, Grant, GrantKind, OpNumber, OpenGrant, Outcome,
    SealedGrant, Tenant, invariant, limits,
};

use super::lanes::Lane;
use super::pending::{Accepted, Begun, Ending, KeptGrant};
use super::session::{Phase, Session, Stall};
use super::{Action, OpenAction, Sequencer, StartAction};
use crate::Nanos;

/// The next step of the head.
enum Head {
    Wait,
    Start,
    End(Outcome),
    Fail(Failure),
}

impl Sequencer {
    /// Returns the position of the next grant to take.
    pub(super) fn next_position(&self) -> GpuPosition {
        self.chain_end.position() + 1 + u64::from(self.standings.open_position().is_some())
    }

    /// Takes the grant at the next position, which closes an open standing grant before it. Returns `false`
    /// if it names a session that was never opened. The grant is accepted, unless it is a standing grant
    /// itself.
    pub(super) fn accept(
        &mut self,
        now: Nanos,
        grant: Grant,
        open: Option<&OpenGrant>,
        actions: &mut Vec<Action>,
    ) -> bool {
        let obeyed = self.obeyed.epoch();
        invariant!(
            I3,
            grant.epoch == obeyed,
            "a grant of epoch {} is accepted while {obeyed} is obeyed",
            grant.epoch
        );
        self.close_standing(now, actions);
        let position = self.chain_end.position() + 1;
        if grant.kind == GrantKind::Open {
            let is_new = self.sessions.get(grant.session).is_none();
            let Some(open) = open.filter(|_| is_new) else {
                return false;
            };
            self.sessions.open(Session::new(open, &self.config));
        }
        let (tenant, ordinal) = match self.sessions.accept(&grant) {
            Some(session) => (session.tenant.clone(), session.ordinal),
            None => match self.former.name(grant.session) {
                Some(known) => known.clone(),
                None => return false,
            },
        };
        if grant.kind == GrantKind::Close
            && let Some(session) = self.sessions.get(grant.session)
            && session.phase == Phase::Open
            && session.running > 0
        {
            // The client that asked for the end has seen all results that it wanted, so the rest may fail.
            let session = session.id;
            actions.push(Action::Stop { session });
        }
        if grant.kind != GrantKind::Standing {
            self.lanes.wait(&grant);
        }
        self.chain_end.raise(grant.global);
        self.pending.push(Accepted {
            position,
            grant,
            ended: false,
            times: Begun {
                accepted: now,
                ..Begun::default()
            },
        });
        match grant.kind {
            GrantKind::Standing => self.stand(position, &grant, (tenant, ordinal)),
            _ => self.enter(position, &grant, (&tenant, ordinal)),
        }
        self.report_soon(now);
        true
    }

    /// Accepts a position: adds it to the chain, and keeps it for replay.
    pub(super) fn enter(
        &mut self,
        position: GpuPosition,
        grant: &Grant,
        (tenant, ordinal): (&Tenant, u64),
    ) {
        self.chain_end.enter(&ChainEntry {
            position,
            tenant,
            ordinal,
            kind: grant.kind,
            first: grant.first,
            last: grant.last,
        });
        let kept = KeptGrant {
            sealed: SealedGrant {
                position,
                grant: *grant,
            },
            tenant: tenant.clone(),
            ordinal,
        };
        self.tail.push(kept, self.config.tail);
    }

    /// Returns the time at which the head is given up, if it waits for its session.
    pub(super) fn head_timeout(&self) -> Option<Nanos> {
        let (position, since) = self.waiting?;
        let timeout = if self.is_urged() {
            self.config.urgent_patience_ns
        } else if self.chain_end.position() > position {
            self.config.patience_ns
        } else {
            self.config.idle_patience_ns
        };
        Some(since + timeout)
    }

    /// True if a position of a higher priority waits behind the head.
    fn is_urged(&self) -> bool {
        let Some((_, head)) = self.head() else {
            return false;
        };
        self.lanes.are_urged(&head) || self.is_urged_by_standing(&head)
    }

    /// True if the device can have another slice. Waiting here costs nothing: beyond the bound, a slice on
    /// the device would only block more urgent ones that come later.
    fn has_depth(&self, grant: &Grant) -> bool {
        // On a preemptive device, parked slices of a lower priority do not delay the slice.
        let counted = match self.config.preemptive {
            true => Lane::of(grant),
            false => Lane::LAST,
        };
        let running = self.lanes.running(counted);
        let cost = self.lanes.cost(counted).saturating_add(grant.cost);
        let small = running < self.config.depth_max && cost <= self.config.depth_ns;
        running < self.config.depth || small || self.config.preemptive && self.is_urged()
    }

    /// Begins positions in order, as far as possible.
    pub(super) fn advance(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        while let Some((position, grant)) = self.head() {
            match self.judge(now, position, &grant) {
                Head::Wait => break,
                Head::Fail(failure) => {
                    self.fail(now, grant.session, grant.first, failure, actions);
                }
                Head::Start => {
                    self.pass(now, position, &grant);
                    self.begin(now, position, &grant, actions);
                }
                Head::End(outcome) => {
                    self.pass(now, position, &grant);
                    if outcome == Outcome::Void {
                        self.doubt(now, &grant);
                    }
                    self.settle(now, position, Ending::plain(grant.last, outcome), actions);
                }
            }
        }
        self.run_standing(now, actions);
    }

    /// Notes that the head has begun, or ended without beginning.
    fn pass(&mut self, now: Nanos, position: GpuPosition, grant: &Grant) {
        self.waits_no_more(now, position);
        if let Some(accepted) = self.pending.get_mut(position) {
            accepted.times.at = now;
        }
        let begun = self.begun;
        invariant!(
            I2,
            position == begun + 1,
            "position {position} begins behind {begun}"
        );
        let (before, epoch) = (self.begun_epoch, grant.epoch);
        invariant!(
            I3,
            epoch >= before,
            "position {position} of epoch {epoch} begins behind one of {before}"
        );
        (self.begun, self.begun_epoch) = (position, epoch);
        if grant.kind != GrantKind::Standing {
            self.lanes.pass(grant);
        }
    }

    /// Ends the wait of the head: its ops have come, or it is given up.
    fn waits_no_more(&mut self, now: Nanos, position: GpuPosition) {
        if let Some((head, since)) = self.waiting.take()
            && head == position
            && let Some(accepted) = self.pending.get_mut(position)
        {
            let lacked = &mut accepted.times.lacked;
            *lacked = lacked.saturating_add(now.saturating_sub(since));
        }
    }

    fn head(&self) -> Option<(GpuPosition, Grant)> {
        let head = self.pending.get(self.begun + 1)?;
        Some((head.position, head.grant))
    }

    fn judge(&mut self, now: Nanos, position: GpuPosition, grant: &Grant) -> Head {
        match grant.kind {
            GrantKind::Standing => return Head::Start,
            GrantKind::Revoke => return Head::End(Outcome::Ran),
            GrantKind::Open | GrantKind::Close | GrantKind::Run | GrantKind::Return => {}
        }
        let Some(session) = self.sessions.get_mut(grant.session) else {
            return Head::End(Outcome::Gone);
        };
        match grant.kind {
            GrantKind::Open => return Head::Start,
            GrantKind::Close if session.phase == Phase::Open => return Head::Start,
            GrantKind::Return if session.lives() => return Head::Start,
            GrantKind::Run if session.lives() => {}
            _ => return Head::End(Outcome::Gone),
        }
        if grant.first != session.started + 1 || grant.last < grant.first {
            return Head::End(Outcome::Void);
        }
        let received = session.received >= grant.last;
        if received && session.has_room(grant.last, &self.config) {
            self.waits_no_more(now, position);
            return match self.has_depth(grant) {
                true => Head::Start,
                false => Head::Wait,
            };
        }
        if received {
            let stall = session.stall.get_or_insert(Stall {
                since: now,
                voided: false,
            });
            if now >= stall.since + self.config.stall_ns {
                let why = "results are not acknowledged, or a transfer never became whole";
                return Head::Fail(Failure::new(Code::Protocol, why));
            }
            if stall.voided {
                return Head::End(Outcome::Void);
            }
        }
        if self.waiting.is_none_or(|(head, _)| head != position) {
            self.waiting = Some((position, now));
        }
        if self.head_timeout().is_some_and(|at| now < at) {
            return Head::Wait;
        }
        if received && let Some(session) = self.sessions.get_mut(grant.session) {
            let stall = session.stall.as_mut();
            stall.into_iter().for_each(|stall| stall.voided = true);
        }
        Head::End(Outcome::Void)
    }

    fn begin(
        &mut self,
        now: Nanos,
        position: GpuPosition,
        grant: &Grant,
        actions: &mut Vec<Action>,
    ) {
        if grant.kind == GrantKind::Standing {
            // Its ops start behind the head as they come. If it was closed before, none will come.
            self.end_standing(now, grant.session, actions);
            return;
        }
        let Some(session) = self.sessions.get_mut(grant.session) else {
            return;
        };
        match grant.kind {
            GrantKind::Open => {
                session.running += 1;
                actions.push(Action::Open(OpenAction {
                    position,
                    session: session.id,
                    tenant: session.tenant.clone(),
                    window: session.window,
                    quota: session.quota,
                    priority: grant.priority,
                }));
            }
            GrantKind::Close => {
                session.phase = Phase::Closing(position);
                self.pending_bytes -= session.pending_bytes;
                self.staged
                    .change(&session.tenant, session.transfers.reserved, 0);
                session.drop_pending();
                // The session needs its transfers no more: their bytes are freed now, not when its results
                // are acknowledged.
                let (session, through) = (session.id, OpNumber::MAX);
                self.sessions.end_doubt(session);
                actions.push(Action::Forget { session, through });
                self.close_if_idle(session, actions);
            }
            GrantKind::Run => self.start(position, grant, Some(grant.declared), actions),
            GrantKind::Return => {
                session.running += 1;
                actions.push(Action::Return {
                    session: session.id,
                    priority: grant.priority,
                });
            }
            GrantKind::Standing | GrantKind::Revoke => {}
        }
    }

    /// Starts the ops of a grant, or of a part of a standing grant.
    pub(super) fn start(
        &mut self,
        position: GpuPosition,
        grant: &Grant,
        declared: Option<u64>,
        actions: &mut Vec<Action>,
    ) {
        let Some(session) = self.sessions.get_mut(grant.session) else {
            return;
        };
        let (id, started, received) = (session.id, session.started, session.received);
        let (first, last) = (grant.first, grant.last);
        invariant!(
            I1,
            first == started + 1 && first <= last,
            "{id} goes on with ops {first} to {last} behind op {started}"
        );
        invariant!(
            I4,
            last <= received,
            "{id} starts op {last} of {received} received"
        );
        let before = session.transfers.reserved;
        session.start(last);
        self.staged
            .change(&session.tenant, before, session.transfers.reserved);
        self.lanes.start(grant);
        actions.push(Action::Start(StartAction {
            position,
            session: grant.session,
            priority: grant.priority,
            first: grant.first,
            last: grant.last,
            declared,
            cost: grant.cost,
            epoch: grant.epoch,
        }));
        actions.push(Action::Forget {
            session: grant.session,
            through: grant.last,
        });
    }

    /// Notes that the leader doubts the session after a void.
    fn doubt(&mut self, now: Nanos, grant: &Grant) {
        if self.sessions.get(grant.session).is_none() {
            return;
        }
        let granted = grant.first.saturating_sub(1);
        self.sessions.doubt(grant.session, granted);
        self.report_soon(now);
    }

    /// Returns the last op of a session that is accepted and will not be void because it follows a void.
    pub(super) fn accepted_ops(&self, session: &Session) -> OpNumber {
        self.pending
            .iter()
            .filter(|accepted| {
                let run = accepted.grant.kind == GrantKind::Run;
                run && accepted.position > self.begun && accepted.grant.session == session.id
            })
            .fold(session.started, |through, accepted| {
                let grant = &accepted.grant;
                let follows = grant.first == through + 1 && grant.last >= grant.first;
                if follows { grant.last } else { through }
            })
    }

    /// True if the grant's range of ops is possible for its kind.
    pub(super) fn is_sane(grant: &Grant) -> bool {
        match grant.kind {
            GrantKind::Run => {
                let ops = grant.last.checked_sub(grant.first);
                grant.first > 0 && ops.is_some_and(|ops| ops < u64::from(limits::BATCH_OPS) * 4_096)
            }
            GrantKind::Standing => grant.last == 0,
            GrantKind::Open | GrantKind::Close | GrantKind::Revoke | GrantKind::Return => {
                grant.first == 0 && grant.last == 0
            }
        }
    }
}
