//! Follows a replay, and accounts for the waits of each position and the time of each device.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    Compilation, CostRun, DoneReport, DoneTimes, Epoch, GpuId, GpuPosition, Grant, GrantKind,
    Incarnation, OpNumber, Outcome, ReportTimes, SessionId,
};

use super::cause::{Cause, ORDER, rank};
use super::clock::WorkerClock;
use super::device::{ALWAYS, Day, Days, Device, DeviceDay, Whose, told};
use super::idle::{DeviceIdle, idle};
use super::line::{Line, Waited};
use super::position::{
    Granted, Ran, Timing, add_part, add_unknown, part_timing, slice_timing, stages_of,
    standing_timing,
};
use super::sums::{Key, Sums};
use crate::leader::InputTimes;
use crate::scheduler::{Scheduler, WorkerMoment};
use crate::time::Nanos;

/// Maximum number of epochs by which the days are kept apart.
const EPOCHS: usize = 4_096;

/// A worker.
#[derive(Debug)]
struct Worker {
    device: Device,
    clock: WorkerClock,
    granted: BTreeMap<GpuPosition, Granted>,
    /// Sessions with waiting work.
    waiting: BTreeSet<SessionId>,
}

impl Worker {
    fn new(gpu: GpuId, now: Nanos, within: (Nanos, Nanos)) -> Self {
        Self {
            device: Device::new(gpu, now, within),
            clock: WorkerClock::default(),
            granted: BTreeMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    /// Returns true if no slice is granted. Work under a standing grant is reported part by part.
    fn has_no_slice(&self) -> bool {
        let mut granted = self.granted.values();
        granted.all(|granted| granted.kind == GrantKind::Standing)
    }

    /// Notes the present causes of its sessions' waits, and of idle time of its device.
    fn look(
        &mut self,
        at: &WorkerMoment,
        now: Nanos,
        lines: &mut BTreeMap<SessionId, Line>,
        scheduler: &Scheduler,
    ) {
        let mut keeps: Option<Key> = None;
        self.waiting.retain(|session| {
            let Some(line) = lines.get_mut(session) else {
                return false;
            };
            let cause = scheduler.cause(*session, at);
            let before = |cause: &Key| keeps.as_ref().is_none_or(|it| rank(cause.0) < rank(it.0));
            if cause.as_ref().is_some_and(before) {
                keeps.clone_from(&cause);
            }
            line.set_cause(now, cause);
            !line.is_idle()
        });
        let idle = match keeps {
            _ if at.has_work => (Cause::Worker, None),
            Some(keeps) if rank(keeps.0) < ORDER => keeps,
            Some(_) => (Cause::Worker, None),
            None if at.has_sessions => (Cause::Program, None),
            None => (Cause::Empty, None),
        };
        self.device.set_cause(now, idle);
    }
}

/// The follower of a replay.
#[derive(Debug)]
pub(crate) struct Explainer {
    /// The stretch of time for which devices are accounted.
    within: (Nanos, Nanos),
    /// True if the parts of a standing grant are reported one by one.
    in_parts: bool,
    /// True if it reports the times of returns of memory.
    tells_returns: bool,
    /// Time of the first input that has times.
    first: Option<Nanos>,
    now: Nanos,
    /// True if the present input has times.
    timed: bool,
    workers: BTreeMap<Incarnation, Worker>,
    lines: BTreeMap<SessionId, Line>,
    /// The session with ops announced by the present input.
    announced: Option<SessionId>,
    /// Grants of an earlier leader that had not ended, by session. If a grant does not stand, its
    /// ops are announced again.
    stale: BTreeMap<SessionId, Vec<(OpNumber, OpNumber, Waited)>>,
    days: Days,
    /// The epochs by which the days are apart; the last one is being replayed.
    epochs: BTreeSet<Epoch>,
}

impl Default for Explainer {
    fn default() -> Self {
        Self::new(ALWAYS, false)
    }
}

impl Explainer {
    /// A follower that accounts for the devices `within` a stretch of time. It reports standing grants `in_parts`
    /// or as one position.
    pub(crate) fn new(within: (Nanos, Nanos), in_parts: bool) -> Self {
        Self {
            within,
            in_parts,
            tells_returns: false,
            first: None,
            now: 0,
            timed: false,
            workers: BTreeMap::new(),
            lines: BTreeMap::new(),
            announced: None,
            stale: BTreeMap::new(),
            days: Days::new(),
            epochs: BTreeSet::new(),
        }
    }

    /// Reports the times of returns of memory too.
    pub(crate) fn tell_returns(&mut self) {
        self.tells_returns = true;
    }

    /// Starts a term.
    pub(crate) fn begin_term(&mut self, epoch: Epoch) {
        self.epochs.insert(epoch);
        if self.epochs.len() > EPOCHS
            && let Some(second) = self.epochs.iter().nth(1).copied()
        {
            self.merge_days(second);
        }
        self.stale.clear();
        for worker in self.workers.values_mut() {
            worker.clock = WorkerClock::default();
            if worker.has_no_slice() {
                worker.device.rest(self.now, &mut self.days);
            }
            // A standing grant goes on without a leader.
            if worker.granted.is_empty() {
                worker.device.set_cause(self.now, (Cause::Leader, None));
            }
            for granted in worker.granted.values() {
                if let Some(waited) = &granted.waited {
                    let stale = self.stale.entry(granted.whose.session).or_default();
                    stale.push((granted.ops.0, granted.ops.1, waited.clone()));
                }
            }
        }
        for line in self.lines.values_mut() {
            line.lose_leader(self.now);
        }
    }

    /// Notes that an input is about to be applied.
    pub(crate) fn input(&mut self, times: Option<&InputTimes>) {
        self.timed = times.is_some();
        if let Some(times) = times {
            self.first.get_or_insert(times.at);
            self.now = self.now.max(times.at);
        }
    }

    /// Time of the first input that had times.
    pub(crate) fn first(&self) -> Option<Nanos> {
        self.first
    }

    /// Notes that the input announces ops.
    pub(crate) fn announce(&mut self, session: SessionId, first: OpNumber, runs: &[CostRun]) {
        if !self.timed {
            return;
        }
        let ops: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
        let last = first.saturating_add(ops).saturating_sub(1);
        let line = self.lines.entry(session).or_default();
        let stale = self.stale.get_mut(&session);
        let before = stale.and_then(|stale| {
            let at = stale.iter().position(|it| (it.0..=it.1).contains(&first));
            at.map(|at| stale.swap_remove(at).2)
        });
        line.announce(self.now, last, before);
        self.announced = Some(session);
    }

    /// Notes a grant that the input led to.
    pub(crate) fn granted(
        &mut self,
        incarnation: Incarnation,
        position: GpuPosition,
        grant: &Grant,
        scheduler: &Scheduler,
    ) {
        let Some(worker) = self.workers.get_mut(&incarnation).filter(|_| self.timed) else {
            return;
        };
        let line = self.lines.get_mut(&grant.session);
        let waited = match grant.kind {
            GrantKind::Run => line.and_then(|it| it.grant(self.now, grant.first, grant.last)),
            // A standing grant that continues another has no first op: its ops waited under the
            // other.
            GrantKind::Standing if grant.first > 0 => {
                line.and_then(|it| it.stand(self.now, grant.first))
            }
            _ => None,
        };
        let owner = scheduler.owner(grant.session);
        let granted = Granted {
            whose: Whose {
                session: grant.session,
                tenant: owner.map(|(tenant, _)| tenant),
                priority: grant.priority,
            },
            kind: grant.kind,
            ops: (grant.first, grant.last),
            at: self.now,
            waited,
            parts: Sums::default(),
            ran: None,
        };
        worker.granted.insert(position, granted);
    }

    /// Forgets a session that has ended.
    pub(crate) fn gone(&mut self, session: SessionId) {
        self.lines.remove(&session);
        self.stale.remove(&session);
    }

    /// Forgets a lost worker.
    pub(crate) fn lost(&mut self, incarnation: Incarnation) {
        if let Some(mut worker) = self.workers.remove(&incarnation)
            && worker.has_no_slice()
        {
            worker.device.rest(self.now, &mut self.days);
        }
    }

    /// Notes the waits after the input was applied.
    pub(crate) fn look(&mut self, scheduler: &Scheduler) {
        if !self.timed {
            return;
        }
        let announced = self.announced.take();
        let owner = announced.and_then(|session| Some((session, scheduler.owner(session)?.1)));
        if let (Some(session), None) = (announced, owner) {
            // The session had ended by then.
            self.lines.remove(&session);
        }
        let epoch = self.epochs.last().copied().unwrap_or(0);
        for at in scheduler.served() {
            let worker = self.workers.entry(at.incarnation);
            let worker = worker.or_insert_with(|| Worker::new(at.gpu, self.now, self.within));
            let here = owner.filter(|(_, incarnation)| *incarnation == at.incarnation);
            worker.waiting.extend(here.map(|(session, _)| session));
            worker.device.serve(self.now, epoch);
            worker.look(&at, self.now, &mut self.lines, scheduler);
        }
    }

    /// The times of a done message by the leader's clock, if they are of its reports.
    pub(crate) fn times_of(
        &mut self,
        incarnation: Incarnation,
        times: Option<&InputTimes>,
        reports: &[DoneReport],
    ) -> Option<DoneTimes> {
        let (at, said) = times.and_then(|times| Some((times.at, times.done()?)))?;
        let worker = self.workers.get_mut(&incarnation)?;
        if said.rows.len() != reports.len() {
            return None;
        }
        worker.clock.heard(at, said.clock);
        for (report, row) in reports.iter().zip(&said.rows) {
            let granted = worker.granted.get(&report.position);
            if let Some(granted) = granted.filter(|it| it.kind == GrantKind::Run) {
                worker.clock.sent(granted.at, row.accepted);
            }
        }
        let there = |moment| worker.clock.leaders(moment, at);
        let row = |row: ReportTimes| ReportTimes {
            accepted: there(row.accepted),
            begun: there(row.begun),
            lacked: row.lacked,
            started: there(row.started),
            ended: there(row.ended),
        };
        let compilation = |(report, it): (usize, Compilation)| {
            let (began, ended) = (there(it.began), there(it.ended));
            (report, Compilation { began, ended })
        };
        Some(DoneTimes {
            clock: at,
            rows: said.rows.into_iter().map(row).collect(),
            compiled: said.compiled.into_iter().map(compilation).collect(),
        })
    }

    /// Notes the end of a position, or of a part. Returns its timing if it has run and the times
    /// are known. A standing grant is reported in its parts, or at its end.
    pub(crate) fn report(
        &mut self,
        incarnation: Incarnation,
        report: &DoneReport,
        times: Option<&ReportTimes>,
    ) -> Option<Ran> {
        let worker = self.workers.get_mut(&incarnation)?;
        match report.outcome {
            Outcome::Closed => None,
            // The first part says only that the grant stands.
            Outcome::Part => {
                let line = self.lines.get_mut(&report.session);
                let ran = line.map_or(0, |line| line.ran(report.received));
                let times = times.filter(|it| it.ended > it.accepted && report.measured > 0)?;
                let Some(granted) = worker.granted.get_mut(&report.position) else {
                    add_unknown(&mut worker.device, report, times, &mut self.days);
                    return None;
                };
                let before = self.in_parts.then(|| granted.parts.clone());
                let is_first = granted.ran.is_none();
                let from = match granted.ops {
                    (_, last) if !is_first => last.saturating_add(1),
                    // It continues another standing grant.
                    (0, _) => report.received.min(ran).saturating_add(1),
                    // Earlier ops run under it if their own grants did not stand.
                    (first, _) => first.min(report.received.saturating_add(1)),
                };
                granted.ops.1 = granted.ops.1.max(report.received);
                add_part(&mut worker.device, granted, times, &mut self.days);
                Some(Ran {
                    part_from: Some(from),
                    timing: part_timing(granted, &before?, is_first)?,
                })
            }
            Outcome::Void | Outcome::Gone => {
                let granted = worker.granted.remove(&report.position)?;
                let session = granted.whose.session;
                let line = self.lines.get_mut(&session);
                if let Some(line) = line.filter(|_| report.outcome == Outcome::Void) {
                    line.give_back(self.now, granted.ops.1, granted.waited);
                    worker.waiting.insert(session);
                }
                None
            }
            Outcome::Ran => match worker.granted.remove(&report.position) {
                Some(granted) if granted.kind == GrantKind::Standing => {
                    let timing = standing_timing(&granted).filter(|_| !self.in_parts)?;
                    Some(Ran {
                        part_from: None,
                        timing,
                    })
                }
                Some(granted) if granted.kind == GrantKind::Run => {
                    let stages = stages_of(granted.at, times?);
                    let timing = slice_timing(&worker.device, &granted, &stages);
                    worker
                        .device
                        .add_work(&stages, granted.whose, &mut self.days);
                    Some(Ran {
                        part_from: None,
                        timing,
                    })
                }
                Some(granted) if granted.kind == GrantKind::Return && self.tells_returns => {
                    let stages = stages_of(granted.at, times?);
                    Some(Ran {
                        part_from: None,
                        timing: slice_timing(&worker.device, &granted, &stages),
                    })
                }
                Some(_) => None,
                None => {
                    let times = times.filter(|_| report.measured > 0)?;
                    add_unknown(&mut worker.device, report, times, &mut self.days);
                    None
                }
            },
        }
    }

    /// The standing grants that have not ended and under which work ran. Each has its position, its
    /// last op that ran, and its timing.
    pub(crate) fn standing(
        &self,
    ) -> impl Iterator<Item = ((Incarnation, GpuPosition), OpNumber, Box<Timing>)> {
        self.workers.iter().flat_map(|(incarnation, worker)| {
            let granted = worker.granted.iter();
            let standing = granted.filter(|(_, it)| it.kind == GrantKind::Standing);
            standing.filter_map(|(position, it)| {
                let timing = standing_timing(it)?;
                Some(((*incarnation, *position), it.ops.1, timing))
            })
        })
    }

    /// The time of the devices so far, by day and device. If work is granted, the time since the
    /// last end is not included yet.
    pub(crate) fn days(&self) -> Vec<DeviceDay> {
        let mut sums = BTreeMap::<(u64, GpuId), Day>::new();
        for ((_, day, gpu), part) in &self.days {
            sums.entry((*day, *gpu)).or_default().add(part);
        }
        told(&sums)
    }

    /// The idle time of the devices. Work under a standing grant is told when it has ended, so a device with work is
    /// not accounted.
    pub(crate) fn idle(&mut self) -> BTreeMap<GpuId, DeviceIdle> {
        for worker in self.workers.values_mut() {
            if worker.has_no_slice() && worker.device.open().is_some() {
                worker.device.rest(self.now, &mut self.days);
            }
        }
        let resting = self.workers.values().filter(|it| it.has_no_slice());
        idle(&self.days, resting.filter_map(|it| it.device.open()))
    }

    /// The time of the devices before each epoch served them, as far as it is known now.
    pub(crate) fn days_before_epochs(&self) -> BTreeMap<Epoch, Vec<DeviceDay>> {
        let mut sums = BTreeMap::<(u64, GpuId), Day>::new();
        let mut parts = self.days.iter().peekable();
        let mut before = BTreeMap::new();
        for epoch in &self.epochs {
            while let Some(((_, day, gpu), part)) = parts.next_if(|((of, ..), _)| of < epoch) {
                sums.entry((*day, *gpu)).or_default().add(part);
            }
            before.insert(*epoch, told(&sums));
        }
        before
    }

    /// Merges the days of the epochs before this one.
    pub(crate) fn merge_days(&mut self, before: Epoch) {
        self.epochs = self.epochs.split_off(&before);
        let rest = self.days.split_off(&(before, 0, 0));
        for ((_, day, gpu), part) in std::mem::replace(&mut self.days, rest) {
            self.days.entry((0, day, gpu)).or_default().add(&part);
        }
    }

    /// Accounts for the time until now on workers without granted work.
    pub(crate) fn rest(&mut self) {
        let resting = self.workers.values_mut();
        for worker in resting.filter(|worker| worker.has_no_slice()) {
            worker.device.rest(self.now, &mut self.days);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_before_an_epoch_stay_when_earlier_ones_are_merged_and_epochs_are_bounded() {
        let mut explainer = Explainer::default();
        for epoch in 1..=EPOCHS as Epoch + 9 {
            explainer.begin_term(epoch);
            let day = explainer.days.entry((epoch, epoch % 3, 0)).or_default();
            day.busy_ns += epoch;
        }
        assert_eq!(explainer.epochs.len(), EPOCHS);
        let (before, all) = (explainer.days_before_epochs(), explainer.days());
        explainer.merge_days(100);
        let merged = explainer.days_before_epochs();
        assert_eq!(merged.keys().next(), Some(&100));
        assert!(
            merged
                .iter()
                .all(|(epoch, days)| before.get(epoch) == Some(days))
        );
        let sum = |days: &[DeviceDay]| days.iter().map(|day| day.busy_ns).sum::<u64>();
        assert_eq!(merged.get(&100).map(|days| sum(days)), Some(99 * 100 / 2));
        assert_eq!(explainer.days(), all);
    }
}
