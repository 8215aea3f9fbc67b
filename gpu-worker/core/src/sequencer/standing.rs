//! Standing grants: a session's ops started as they arrive, in parts, until the grant is closed.

use std::collections::VecDeque;

use bus_schemas::{
    DoneReport, GpuPosition, Grant, GrantKind, Outcome, ReportTimes, SessionId, Tenant, fold,
};

use super::course::Course;
use super::lanes::Lane;
use super::pending::{Accepted, Begun, Ending, Part, Standing};
use super::{Action, CompletedEvent, Sequencer};
use crate::Nanos;

impl Sequencer {
    /// Holds a standing grant open. A grant without a first op goes on from the session's last.
    pub(super) fn stand(&mut self, position: GpuPosition, grant: &Grant, owner: (Tenant, u64)) {
        let (unknown, mut grant) = (self.config.unknown_ns, *grant);
        if let Some(session) = self.sessions.get_mut(grant.session) {
            let course = &mut session.course;
            course.begin(unknown, grant.cost);
            if grant.first == 0 {
                grant.first = session.started + 1;
            } else {
                (course.through, course.declared) = (grant.first - 1, 0);
            }
        }
        if let Some(accepted) = self.pending.last_mut() {
            accepted.grant.first = grant.first;
        }
        let standing = Standing {
            grant,
            owner,
            started: grant.first.saturating_sub(1),
            failed: None,
            skipped: false,
            parts: VecDeque::new(),
            waits: None,
            arrived: None,
        };
        self.standings.open(position, standing);
        // The report tells the leader that it need not send the grant again.
        self.report(position, Outcome::Part, 0, ReportTimes::default());
    }

    /// Reports the progress of a standing grant.
    fn report(
        &mut self,
        position: GpuPosition,
        outcome: Outcome,
        measured: u64,
        times: ReportTimes,
    ) {
        let Some(standing) = self.standings.get(position) else {
            return;
        };
        let session = self.sessions.get(standing.grant.session);
        let course = session.map_or_else(Course::default, |session| session.course);
        let (measured, received, declared) = match outcome {
            Outcome::Closed => (standing.grant.first, standing.started, 0),
            _ => (measured, course.through, fold(course.declared)),
        };
        let report = DoneReport {
            position,
            session: standing.grant.session,
            measured,
            received,
            outcome,
            declared,
        };
        self.reports.push(report, times);
    }

    /// Starts ops that have come for the open standing grant, once everything before it has begun.
    pub(super) fn run_standing(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let open = self.standings.open_position();
        let Some(position) = open.filter(|position| *position <= self.begun) else {
            return;
        };
        self.note_arrival(now, position);
        while self.standing_depth(position) < self.config.depth_max
            && let Some(standing) = self.standings.get_mut(position)
            && let Some(session) = self.sessions.get_mut(standing.grant.session)
            && session.lives()
            // Otherwise an earlier slice was void, and its leader will close this grant.
            && session.started == standing.started
        {
            let room = session.course.room(standing.grant.cost);
            let last = session.part(room, &self.config);
            if last <= standing.started {
                let since = *standing.waits.get_or_insert(now);
                if !session.awaits_image() {
                    standing.waits = None;
                } else if now >= since + self.config.stall_ns {
                    session.load_anyway();
                    continue;
                }
                return;
            }
            standing.waits = None;
            let part = Part {
                first: standing.started + 1,
                last,
                cost: session.course.pace.saturating_mul(last - standing.started),
                times: Begun {
                    accepted: standing.arrived.take().unwrap_or(now),
                    at: now,
                    lacked: 0,
                },
            };
            if session.received > last {
                standing.arrived = Some(part.times.accepted);
            }
            session.course.held = session.course.held.saturating_add(part.cost);
            standing.parts.push_back(part);
            standing.started = last;
            let grant = Grant {
                first: part.first,
                last,
                cost: part.cost,
                ..standing.grant
            };
            self.start(position, &grant, None, actions);
        }
    }

    /// Notes the time since which there are ops to start.
    fn note_arrival(&mut self, now: Nanos, position: GpuPosition) {
        if let Some(standing) = self.standings.get_mut(position)
            && let Some(session) = self.sessions.get(standing.grant.session)
            && session.received > standing.started
        {
            standing.arrived.get_or_insert(now);
        }
    }

    /// Number of slices on the device beside which, or behind which, the standing grant's parts run.
    fn standing_depth(&self, position: GpuPosition) -> usize {
        let grant = self.standings.get(position).map(|it| &it.grant);
        let counted = match grant {
            Some(grant) if self.config.preemptive => Lane::of(grant),
            _ => Lane::LAST,
        };
        self.lanes.running(counted)
    }

    /// True if an open standing grant of a higher priority has ops to start behind this one.
    pub(super) fn is_urged_by_standing(&self, grant: &Grant) -> bool {
        self.standings.present().is_some_and(|standing| {
            let session = self.sessions.get(standing.grant.session);
            let waits = session.is_some_and(|session| session.received > session.started);
            Lane::of(&standing.grant) < Lane::of(grant) && waits
        })
    }

    /// Handles the end of a part of a standing grant, completed or failed.
    pub(super) fn part_ended(
        &mut self,
        now: Nanos,
        completed: &CompletedEvent<'_>,
        (part, begun, ending): (&Grant, Begun, Ending),
        actions: &mut Vec<Action>,
    ) {
        let position = completed.position;
        if let Some(session) = self.sessions.get_mut(part.session) {
            let course = &mut session.course;
            course.held = course.held.saturating_sub(part.cost);
            if ending.outcome == Outcome::Ran && !ending.failed {
                course.through = part.last;
                course.declared = course.declared.wrapping_add(completed.declared);
                course.learn(part.last + 1 - part.first, ending.measured);
            }
        }
        let Some(standing) = self.standings.get_mut(position) else {
            return;
        };
        if ending.failed {
            standing.failed = Some(ending.last);
        }
        standing.skipped |= ending.outcome == Outcome::Gone;
        let times = begun.until(ending.started, now);
        self.report(position, Outcome::Part, ending.measured, times);
        self.report_soon(now);
        self.end_standing(now, part.session, actions);
    }

    /// Closes the open standing grant, if there is one, so that its position is accepted.
    pub(super) fn close_standing(&mut self, now: Nanos, actions: &mut Vec<Action>) {
        let Some(position) = self.standings.close() else {
            return;
        };
        let Some(standing) = self.standings.get(position) else {
            return;
        };
        let grant = Grant {
            last: standing.started,
            ..standing.grant
        };
        let session = grant.session;
        let (tenant, ordinal) = standing.owner.clone();
        if let Some(accepted) = self.pending.last_mut() {
            accepted.grant.last = grant.last;
        }
        self.enter(position, &grant, (&tenant, ordinal));
        self.report(position, Outcome::Closed, 0, ReportTimes::default());
        self.standings.closed(position, self.reports.made());
        self.report_soon(now);
        self.times.urge();
        self.end_standing(now, session, actions);
    }

    /// Ends a session's closed standing grants that have begun, in order, as long as no part of them is on
    /// the device. A grant that goes on from another covers all that ran before it. If it ended first, the
    /// leader would take the other's work on the device for done, and would grant later ops anew.
    pub(super) fn end_standing(
        &mut self,
        now: Nanos,
        session: SessionId,
        actions: &mut Vec<Action>,
    ) {
        while let Some((position, standing)) = self.standings.first_of(session) {
            let open = self.standings.open_position() == Some(position);
            let closed = !open && position <= self.begun;
            if !closed || !standing.parts.is_empty() {
                return;
            }
            let ending = Ending {
                measured: 0,
                last: standing.failed.unwrap_or(standing.started),
                outcome: match standing.failed {
                    None if standing.skipped => Outcome::Gone,
                    _ => Outcome::Ran,
                },
                started: None,
                failed: standing.failed.is_some(),
            };
            self.standings.remove(position);
            self.settle(now, position, ending, actions);
        }
    }

    /// Returns a grant as a new leader must know it: of a standing grant, the ops on the device.
    pub(super) fn sealed_grant(&self, accepted: &Accepted) -> Grant {
        let standing = self.standings.get(accepted.position);
        Grant {
            cost: standing.map_or(accepted.grant.cost, Standing::cost),
            ..accepted.grant
        }
    }

    /// True if every accepted position has ended, except perhaps a standing grant without work.
    pub(super) fn is_idle(&self) -> bool {
        let idle = |accepted: &Accepted| {
            let standing = self.standings.get(accepted.position);
            let open = accepted.grant.kind == GrantKind::Standing;
            open && standing.is_some_and(|standing| standing.parts.is_empty())
        };
        self.pending.iter().all(idle)
    }
}
