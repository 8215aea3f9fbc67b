//! A device's time: its work, and the causes of its idle time.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{Epoch, GpuId, SessionId, Tenant};

use super::cause::Cause;
use super::sums::{Key, Sums, Wait};
use crate::time::Nanos;

/// Nanoseconds of a day.
const DAY: Nanos = 86_400_000_000_000;
/// The stretch that has all times.
pub(super) const ALWAYS: (Nanos, Nanos) = (0, Nanos::MAX);
/// Maximum number of stretches of work, and of changes of the idle cause, that are kept.
const KEPT: usize = 16_384;
/// Number of idle stretches that may turn out to have been busy.
const BOOKED: usize = 64;
/// Maximum number of terms that a device's time is kept apart by.
const TERMS: usize = 64;

/// A device on one day of the leaders' clock. It is a calendar day (UTC) if the leader's process
/// provides the zero of its clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDay {
    /// Days since 1970.
    pub day: u64,
    /// The device.
    pub gpu: GpuId,
    /// Nanoseconds in which work ran.
    pub busy_ns: u64,
    /// The causes of its idle time, as far as known, the longest first.
    pub idle: Vec<Wait>,
}

/// A device's day while it is accounted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) busy_ns: u64,
    pub(super) idle: Sums,
}

impl Day {
    /// Adds another part of the same day.
    pub(super) fn add(&mut self, other: &Self) {
        self.busy_ns = self.busy_ns.saturating_add(other.busy_ns);
        self.idle.add_all(&other.idle);
    }

    /// Returns the day as it is told.
    pub(super) fn told(&self, (day, gpu): (u64, GpuId)) -> DeviceDay {
        DeviceDay {
            day,
            gpu,
            busy_ns: self.busy_ns,
            idle: self.idle.waits(),
        }
    }
}

/// Returns days as they are told.
pub(super) fn told(sums: &BTreeMap<(u64, GpuId), Day>) -> Vec<DeviceDay> {
    sums.iter().map(|(place, day)| day.told(*place)).collect()
}

/// All devices' days, apart by the epoch that served the device.
pub(super) type Days = BTreeMap<(Epoch, u64, GpuId), Day>;

/// Times at which a position reached each stage, by the leader's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages {
    pub(super) granted: Nanos,
    pub(super) accepted: Nanos,
    pub(super) begun: Nanos,
    /// Time before `begun` for which the worker lacked its ops.
    pub(super) lacked: Nanos,
    pub(super) started: Nanos,
    pub(super) ended: Nanos,
}

impl Stages {
    /// The stages with all times moved to at least `moment`.
    pub(super) fn from(self, moment: Nanos) -> Self {
        let begun = self.begun.max(moment);
        let accepted = self.accepted.max(moment);
        Self {
            granted: self.granted.max(moment),
            accepted,
            begun,
            lacked: self.lacked.min(begun - accepted),
            started: self.started.max(moment),
            ended: self.ended.max(moment),
        }
    }

    /// Time since which it lacked its ops.
    fn lacked_since(&self) -> Nanos {
        self.begun.saturating_sub(self.lacked).max(self.accepted)
    }
}

/// A stretch of work.
#[derive(Debug)]
struct Ran {
    start: Nanos,
    end: Nanos,
    whose: Whose,
}

/// The owner of work.
#[derive(Debug, Clone)]
pub(super) struct Whose {
    pub(super) session: SessionId,
    pub(super) tenant: Option<Tenant>,
    pub(super) priority: u8,
}

/// One worker's device.
#[derive(Debug)]
pub(super) struct Device {
    gpu: GpuId,
    ran: VecDeque<Ran>,
    /// The causes that would keep it idle, each with its start.
    idle: VecDeque<(Nanos, Key)>,
    /// Recently accounted idle time.
    booked: VecDeque<((Nanos, Nanos), Key)>,
    /// Time through which it is accounted.
    until: Nanos,
    /// The stretch of time that is accounted.
    within: (Nanos, Nanos),
    /// The epochs that served it, each with its start there. Time before the first is the first's.
    terms: VecDeque<(Nanos, Epoch)>,
}

impl Device {
    /// A device that is known from `now` on. Only time `within` this stretch is accounted.
    pub(super) fn new(gpu: GpuId, now: Nanos, within: (Nanos, Nanos)) -> Self {
        Self {
            gpu,
            ran: VecDeque::new(),
            idle: VecDeque::new(),
            booked: VecDeque::new(),
            until: now,
            within,
            terms: VecDeque::new(),
        }
    }

    /// Notes that an epoch's leader serves it from now on, unless it already did. A replay that
    /// begins with this epoch knows the device since the same moment.
    pub(super) fn serve(&mut self, now: Nanos, epoch: Epoch) {
        if self.terms.back().is_some_and(|(_, last)| *last == epoch) {
            return;
        }
        if self.terms.len() >= TERMS {
            self.terms.pop_front();
        }
        self.terms.push_back((now, epoch));
    }

    /// Sets the cause of idle time from now on.
    pub(super) fn set_cause(&mut self, now: Nanos, cause: Key) {
        if self.idle.back().is_some_and(|(_, last)| *last == cause) {
            return;
        }
        if self.idle.len() >= KEPT {
            // The time between goes to the earlier cause.
            self.idle.remove(1);
        }
        self.idle.push_back((now, cause));
    }

    /// Notes that a position ran: accounts for the time up to its end.
    pub(super) fn add_work(&mut self, stages: &Stages, whose: Whose, days: &mut Days) {
        let (start, end) = (stages.started, stages.ended);
        self.book_idle(start, Some(stages), days);
        self.unbook_idle((start, end), days);
        let from = start.max(self.until);
        if end > from {
            each_part((from, end), self.within, &self.terms, |epoch, day, ns| {
                let day = days.entry((epoch, day, self.gpu)).or_default();
                day.busy_ns = day.busy_ns.saturating_add(ns);
            });
            self.until = end;
        }
        self.ran.push_back(Ran { start, end, whose });
        if self.ran.len() > KEPT {
            self.ran.pop_front();
        }
    }

    /// Notes that nothing runs: accounts for the time until now.
    pub(super) fn rest(&mut self, now: Nanos, days: &mut Days) {
        self.book_idle(now, None, days);
    }

    /// Its number and the cause that keeps it idle, with the time up to which it is accounted; `None` if it has work.
    pub(super) fn open(&self) -> Option<(GpuId, (Nanos, Cause))> {
        let (since, (cause, _)) = self.idle.back()?;
        let open = (self.until.max(*since), *cause);
        (*cause != Cause::Worker).then_some((self.gpu, open))
    }

    /// Adds to the sums what ran between these two times while a session waited: its own work, work
    /// of a higher priority, or else `cause`. Returns the nanoseconds in which nothing ran.
    pub(super) fn before(
        &self,
        (from, to): (Nanos, Nanos),
        (waits, cause): (&Whose, Cause),
        sums: &mut Sums,
    ) -> u64 {
        let (mut free, mut to) = (to.saturating_sub(from), to);
        for ran in self.ran.iter().rev() {
            if ran.end <= from {
                break;
            }
            // If two ran at once, the one that ended last counts.
            let ns = overlap((ran.start, ran.end), (from, to));
            to = to.min(ran.start.max(from));
            let cause = match () {
                () if ran.whose.session == waits.session => (Cause::Own, None),
                () if ran.whose.priority < waits.priority => {
                    (Cause::Priority, ran.whose.tenant.clone())
                }
                () => (cause, ran.whose.tenant.clone()),
            };
            sums.add(&cause, ns);
            free = free.saturating_sub(ns);
        }
        free
    }

    /// Accounts for idle time up to `to`. `next` are the stages of the position that followed, if
    /// any.
    fn book_idle(&mut self, to: Nanos, next: Option<&Stages>, days: &mut Days) {
        let (mut from, gpu) = (self.until, self.gpu);
        while from < to {
            // Use the present cause, up to its end.
            while self.idle.get(1).is_some_and(|(since, _)| *since <= from) {
                self.idle.pop_front();
            }
            let until = self.idle.get(1).map_or(to, |(since, _)| *since);
            let (stretch, cause) = match self.idle.front() {
                Some((since, _)) if *since > from => ((from, to.min(*since)), None),
                Some((_, cause)) => ((from, to.min(until)), Some(cause.clone())),
                None => ((from, to), None),
            };
            let cause = cause.unwrap_or((Cause::Unknown, None));
            let mut start = stretch.0;
            let (booked, within, terms) = (&mut self.booked, self.within, &self.terms);
            let mut book = |key: &Key, part: (Nanos, Nanos)| {
                if part.1 <= part.0 {
                    return;
                }
                each_part(part, within, terms, |epoch, day, ns| {
                    let day = days.entry((epoch, day, gpu)).or_default();
                    day.idle.add(key, ns);
                });
                match booked.back_mut() {
                    Some((last, known)) if last.1 == part.0 && known == key => last.1 = part.1,
                    _ => booked.push_back((part, key.clone())),
                }
            };
            // A position was granted: its times give the causes. For a standing grant, the time
            // before its ops is its program's.
            if let (Cause::Worker, Some(next)) = (cause.0, next) {
                let arrives = match next.granted == next.accepted {
                    true => (Cause::Program, (0, next.accepted)),
                    false => (Cause::Bus, (next.granted, next.accepted)),
                };
                for (key, part) in [arrives, (Cause::Program, (next.lacked_since(), next.begun))] {
                    let part = (part.0.max(start), part.1.min(stretch.1));
                    if part.1 > part.0 {
                        book(&cause, (start, part.0));
                        book(&(key, None), part);
                        start = part.1;
                    }
                }
            }
            book(&cause, (start, stretch.1));
            from = stretch.1;
        }
        let surplus = self.booked.len().saturating_sub(BOOKED);
        self.booked.drain(..surplus);
        self.until = self.until.max(to);
    }

    /// Corrects idle time that was busy. A device that parks work reports a stretch around other
    /// work only when all of it has ended.
    fn unbook_idle(&mut self, (start, end): (Nanos, Nanos), days: &mut Days) {
        let mut kept = VecDeque::new();
        for ((from, to), key) in std::mem::take(&mut self.booked) {
            let wrong = (from.max(start), to.min(end));
            if wrong.1 <= wrong.0 {
                kept.push_back(((from, to), key));
                continue;
            }
            each_part(wrong, self.within, &self.terms, |epoch, day, ns| {
                let day = days.entry((epoch, day, self.gpu)).or_default();
                day.idle.take(&key, ns);
                day.busy_ns = day.busy_ns.saturating_add(ns);
            });
            for part in [(from, wrong.0), (wrong.1, to)] {
                if part.1 > part.0 {
                    kept.push_back((part, key.clone()));
                }
            }
        }
        self.booked = kept;
    }
}

/// Nanoseconds that two stretches have in common.
fn overlap(one: (Nanos, Nanos), other: (Nanos, Nanos)) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

/// Reports the parts of a stretch by epoch and day, as far as they are within another stretch.
fn each_part(
    (from, to): (Nanos, Nanos),
    within: (Nanos, Nanos),
    terms: &VecDeque<(Nanos, Epoch)>,
    mut tell: impl FnMut(Epoch, u64, u64),
) {
    let (mut from, to) = (from.max(within.0), to.min(within.1));
    while from < to {
        let day = from / DAY;
        let next = terms.partition_point(|(since, _)| *since <= from);
        let (_, epoch) = terms.get(next.saturating_sub(1)).unwrap_or(&(0, 0));
        let mut end = (day + 1).saturating_mul(DAY).min(to);
        if let Some((since, _)) = terms.get(next.max(1)) {
            end = end.min(*since);
        }
        tell(*epoch, day, end - from);
        from = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Key = (Cause::Program, None);
    const WORKER: Key = (Cause::Worker, None);

    fn whose(session: u64, priority: u8) -> Whose {
        Whose {
            session: SessionId(session),
            tenant: Some(format!("t{session}").parse().unwrap()),
            priority,
        }
    }

    /// The times: granted, accepted, begun, lacked, started, ended.
    fn stages([granted, accepted, begun, lacked, started, ended]: [u64; 6]) -> Stages {
        Stages {
            granted,
            accepted,
            begun,
            lacked,
            started,
            ended,
        }
    }

    /// Day, busy time, idle time by cause.
    type Told = (u64, u64, Vec<(Cause, u64)>);

    fn told(days: &Days) -> Vec<Told> {
        let day = |(place, day): (&(Epoch, u64, GpuId), &Day)| {
            let waits = day.idle.waits().into_iter();
            let waits = waits.map(|wait| (wait.cause, wait.ns)).collect();
            (place.1, day.busy_ns, waits)
        };
        days.iter().map(day).collect()
    }

    #[test]
    fn all_time_is_busy_or_idle_and_idle_by_what_kept_it_so() {
        let (mut device, mut days) = (Device::new(0, 1_000, ALWAYS), Days::new());
        device.set_cause(1_000, PROGRAM);
        device.set_cause(1_100, WORKER);
        // It was 40 on its way, lacked ops for 20, was handed over for 10, and ran for 30.
        let first = stages([1_100, 1_140, 1_160, 20, 1_170, 1_200]);
        device.add_work(&first, whose(1, 2), &mut days);
        device.set_cause(1_210, PROGRAM);
        device.rest(1_300, &mut days);
        let idle = vec![
            (Cause::Program, 100 + 20 + 90),
            (Cause::Bus, 40),
            (Cause::Worker, 10 + 10),
        ];
        assert_eq!(told(&days), [(0, 30, idle)]);
    }

    #[test]
    fn what_ran_at_once_is_busy_once() {
        let (mut device, mut days) = (Device::new(0, 0, ALWAYS), Days::new());
        device.set_cause(0, WORKER);
        device.add_work(&stages([0, 0, 0, 0, 0, 120]), whose(1, 2), &mut days);
        device.add_work(&stages([0, 0, 0, 0, 100, 200]), whose(2, 2), &mut days);
        assert_eq!(told(&days), [(0, 200, vec![])]);
        // Urgent work ran while other work was parked, which is reported last.
        device.set_cause(200, PROGRAM);
        device.add_work(&stages([0, 0, 0, 0, 320, 340]), whose(3, 0), &mut days);
        assert_eq!(told(&days), [(0, 220, vec![(Cause::Program, 120)])]);
        device.add_work(&stages([0, 0, 0, 0, 300, 400]), whose(1, 2), &mut days);
        assert_eq!(told(&days), [(0, 300, vec![(Cause::Program, 100)])]);
        let mut sums = Sums::default();
        let free = device.before((250, 400), (&whose(9, 9), Cause::Device), &mut sums);
        assert_eq!((free, sums.total()), (50, 100), "each moment once");
    }

    #[test]
    fn what_ran_before_is_its_own_a_higher_priority_s_or_another_s() {
        let (mut device, mut days) = (Device::new(0, 0, ALWAYS), Days::new());
        for (session, priority, from) in [(1, 2, 0), (2, 0, 100), (3, 2, 200), (4, 4, 300)] {
            let ran = stages([from, from, from, 0, from, from + 90]);
            device.add_work(&ran, whose(session, priority), &mut days);
        }
        let mut sums = Sums::default();
        let free = device.before((50, 350), (&whose(1, 2), Cause::Device), &mut sums);
        let waits = sums.waits().into_iter();
        let waits: Vec<_> = waits
            .map(|wait| (wait.cause, wait.of.map(|of| of.to_string()), wait.ns))
            .collect();
        let of = |name: &str| Some(name.to_owned());
        assert_eq!(
            waits,
            [
                (Cause::Priority, of("t2"), 90),
                (Cause::Device, of("t3"), 90),
                (Cause::Device, of("t4"), 50),
                (Cause::Own, None, 40),
            ]
        );
        assert_eq!(free, 30);
    }

    #[test]
    fn a_day_ends_at_midnight() {
        let (mut device, mut days) = (Device::new(0, DAY - 50, ALWAYS), Days::new());
        device.set_cause(DAY - 50, PROGRAM);
        let late = stages([DAY - 50, DAY - 50, DAY - 50, 0, DAY - 20, DAY + 30]);
        device.add_work(&late, whose(1, 2), &mut days);
        device.rest(DAY + 70, &mut days);
        let idle = |ns| vec![(Cause::Program, ns)];
        assert_eq!(told(&days), [(0, 20, idle(30)), (1, 30, idle(40))]);
    }

    #[test]
    fn a_device_that_two_epochs_served_has_the_time_of_each_as_a_replay_from_there_has() {
        let late = stages([90, 95, 95, 0, 100, 260]);
        let (mut device, mut days) = (Device::new(0, 0, ALWAYS), Days::new());
        device.serve(0, 4);
        device.set_cause(0, PROGRAM);
        // It rests until the first leader's last input. The next leader serves it from 200 on, and
        // hears only then that it was busy.
        device.rest(150, &mut days);
        device.serve(200, 5);
        device.add_work(&late, whose(1, 2), &mut days);
        device.rest(300, &mut days);
        let idle = |ns| vec![(Cause::Program, ns)];
        assert_eq!(told(&days), [(0, 100, idle(100)), (0, 60, idle(40))]);
        let (mut device, mut anchored) = (Device::new(0, 200, ALWAYS), Days::new());
        device.serve(200, 5);
        device.set_cause(200, PROGRAM);
        device.add_work(&late, whose(1, 2), &mut anchored);
        device.rest(300, &mut anchored);
        assert_eq!(anchored.get(&(5, 0, 0)), days.get(&(5, 0, 0)));
        assert_eq!(anchored.len(), 1);
    }
}
