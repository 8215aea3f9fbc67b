//! Done reports beyond the workers' usage blocks. For a killed worker, this is the use that is
//! known to be lost.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    DoneReport, GpuPosition, GrantKind, Incarnation, OpNumber, Outcome, SealAnswer, SessionId,
    Tenant,
};

use super::launches::Launches;
use super::replayed::ReplayedPosition;

/// The work that ran for a tenant, according to done reports and intents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedWork {
    /// Measured device nanoseconds.
    pub device_ns: u64,
    /// Launches that ran.
    pub launches: u64,
    /// Ops that ran and that the record does not show to be launches or not.
    pub unknown: u64,
}

impl ReportedWork {
    /// Adds other sums to these.
    pub fn add(&mut self, other: &Self) {
        self.device_ns = self.device_ns.saturating_add(other.device_ns);
        self.launches += other.launches;
        self.unknown += other.unknown;
    }

    /// Returns true if nothing ran.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// Use that a worker reported after a given done report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnrecordedUse {
    /// By tenant; `None` if the record does not name the owner.
    pub tenants: BTreeMap<Option<Tenant>, ReportedWork>,
    /// Number of reports that were lost with a leader. Their use is in no sum.
    pub unrecorded: u64,
}

/// Reports of the workers in question.
#[derive(Debug, Default)]
pub(super) struct Reports {
    workers: BTreeMap<Incarnation, Worker>,
}

#[derive(Debug, Default)]
struct Worker {
    /// Reports through this one are in its usage blocks.
    recorded: u64,
    /// The last recorded report.
    reports: u64,
    /// Number of reports after `recorded` that are not recorded.
    unrecorded: u64,
    /// Positions through this one were closed when the worker was sealed.
    sealed: GpuPosition,
    /// Later positions that are known to have a standing grant.
    standing: BTreeSet<GpuPosition>,
    /// Last op known to have run under standing grants.
    through: BTreeMap<SessionId, OpNumber>,
    sessions: BTreeMap<SessionId, Session>,
}

/// A session's use beyond the usage blocks.
#[derive(Debug, Default)]
struct Session {
    device_ns: u64,
    /// First and last op of each range that ran.
    ops: Vec<(OpNumber, OpNumber)>,
    /// The first op of a part that did not run to its end.
    stuck: Option<OpNumber>,
}

impl Session {
    fn ran(&mut self, first: OpNumber, last: OpNumber) {
        match self.ops.last_mut() {
            _ if first > last => {}
            Some((_, before)) if *before + 1 == first => *before = last,
            _ => self.ops.push((first, last)),
        }
    }

    /// Notes that an op failed: it and later ops did not run.
    fn failed(&mut self, op: OpNumber) {
        if let Some(first) = self.stuck.take() {
            self.ran(first, op - 1);
        }
        self.ops.retain_mut(|(first, last)| {
            *last = (*last).min(op - 1);
            first <= last
        });
    }
}

impl Reports {
    pub(super) fn new(recorded: &BTreeMap<Incarnation, u64>) -> Self {
        let worker = |(incarnation, recorded): (&Incarnation, &u64)| {
            let worker = Worker {
                recorded: *recorded,
                ..Worker::default()
            };
            (*incarnation, worker)
        };
        Self {
            workers: recorded.iter().map(worker).collect(),
        }
    }

    /// Notes that a worker was sealed: its new leader gets the reports after those already made.
    pub(super) fn sealed(&mut self, incarnation: Incarnation, answer: &SealAnswer) {
        let Some(worker) = self.workers.get_mut(&incarnation) else {
            return;
        };
        let known = worker.reports.max(worker.recorded);
        worker.unrecorded += answer.reports.saturating_sub(known);
        worker.reports = answer.reports;
        worker.sealed = answer.position;
        worker.standing.clear();
        let done = answer.sessions.iter().map(|it| (it.session, it.done));
        worker.through = done.collect();
    }

    /// Takes in a worker's next report, with the row of the position if that has ended.
    pub(super) fn report(
        &mut self,
        incarnation: Incarnation,
        report: &DoneReport,
        row: Option<&ReplayedPosition>,
    ) {
        let Some(worker) = self.workers.get_mut(&incarnation) else {
            return;
        };
        worker.reports += 1;
        let counts = worker.reports > worker.recorded;
        let ran = match report.outcome {
            Outcome::Closed => return,
            Outcome::Part => worker.part(report),
            // The parts of a standing grant reported its use.
            Outcome::Ran => row
                .filter(|row| row.kind == GrantKind::Run)
                .map(|row| (row.first, row.last)),
            Outcome::Void | Outcome::Gone => None,
        };
        if !counts {
            return;
        }
        let session = worker.sessions.entry(report.session).or_default();
        session.device_ns = session.device_ns.saturating_add(report.measured);
        match ran {
            Some((first, last)) if first <= last => session.ran(first, last),
            Some((first, _)) => session.stuck = Some(first),
            None => {}
        }
    }

    /// Notes that a session failed at an op.
    pub(super) fn failed(&mut self, session: SessionId, op: OpNumber) {
        let found = self.workers.values_mut();
        let found = found.filter_map(|worker| worker.sessions.get_mut(&session));
        found.filter(|_| op > 0).for_each(|it| it.failed(op));
    }

    /// The sums, by worker.
    pub(super) fn summed(
        &self,
        launches: &Launches,
        tenant: impl Fn(SessionId) -> Option<Tenant>,
    ) -> BTreeMap<Incarnation, UnrecordedUse> {
        let sum = |worker: &Worker| {
            let mut sum = UnrecordedUse {
                unrecorded: worker.unrecorded,
                ..UnrecordedUse::default()
            };
            for (id, session) in &worker.sessions {
                let mut work = ReportedWork {
                    device_ns: session.device_ns,
                    ..ReportedWork::default()
                };
                for (first, last) in &session.ops {
                    let (known, unknown) = launches.tally(*id, *first, *last);
                    work.launches += known;
                    work.unknown += unknown;
                }
                if !work.is_zero() {
                    sum.tenants.entry(tenant(*id)).or_default().add(&work);
                }
            }
            sum
        };
        let workers = self.workers.iter();
        workers.map(|(id, worker)| (*id, sum(worker))).collect()
    }
}

impl Worker {
    /// The ops of a standing grant that ran since the previous report: first and last. `None` if
    /// the report only says that the grant stands.
    fn part(&mut self, report: &DoneReport) -> Option<(OpNumber, OpNumber)> {
        let (position, session) = (report.position, report.session);
        if position > self.sealed && self.standing.insert(position) {
            self.through.insert(session, report.received);
            return None;
        }
        let through = self.through.entry(session).or_insert(report.received);
        let first = *through + 1;
        *through = report.received.max(*through);
        Some((first, report.received))
    }
}

#[cfg(test)]
mod tests;
