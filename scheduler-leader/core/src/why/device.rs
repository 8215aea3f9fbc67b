//! A device's time: what ran when, and what kept it idle between.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{GpuId, SessionId, Tenant};

use super::cause::Cause;
use super::sums::{Key, Sums, Wait};
use crate::time::Nanos;

/// Nanoseconds of a day.
const DAY: Nanos = 86_400_000_000_000;
/// Stretches of work, and changes of what keeps it idle, that are kept at most.
const KEPT: usize = 16_384;

/// A device on one day of the leaders' clock, which is that of the calendar (UTC) where the leader's process
/// says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceDay {
    /// Days since 1970.
    pub day: u64,
    /// The device.
    pub gpu: GpuId,
    /// Nanoseconds for which something ran.
    pub busy_ns: u64,
    /// What kept it idle in the rest of the time that is known of, the longest first.
    pub idle: Vec<Wait>,
}

/// A device's day as it grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Day {
    pub(super) busy_ns: u64,
    pub(super) idle: Sums,
}

/// All devices' days.
pub(super) type Days = BTreeMap<(u64, GpuId), Day>;

/// When a position got how far, by the leader's clock.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stages {
    pub(super) granted: Nanos,
    pub(super) accepted: Nanos,
    pub(super) begun: Nanos,
    /// Of the time before, how long its ops lacked.
    pub(super) lacked: Nanos,
    pub(super) started: Nanos,
    pub(super) ended: Nanos,
}

impl Stages {
    /// The same of what is not before a moment.
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

    /// Since when it lacked its ops.
    fn lacked_since(&self) -> Nanos {
        self.begun.saturating_sub(self.lacked).max(self.accepted)
    }
}

/// A stretch for which something ran.
#[derive(Debug)]
struct Ran {
    start: Nanos,
    end: Nanos,
    whose: Whose,
}

/// Whose work it is.
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
    /// What would keep it idle, and since when.
    idle: VecDeque<(Nanos, Key)>,
    /// Up to when its time is accounted for.
    until: Nanos,
}

impl Device {
    /// A device that is known from now on.
    pub(super) fn new(gpu: GpuId, now: Nanos) -> Self {
        Self {
            gpu,
            ran: VecDeque::new(),
            idle: VecDeque::new(),
            until: now,
        }
    }

    /// From now on it would be idle because of this.
    pub(super) fn note(&mut self, now: Nanos, cause: Key) {
        if self.idle.back().is_some_and(|(_, last)| *last == cause) {
            return;
        }
        if self.idle.len() >= KEPT {
            // The time between goes to what came before it.
            self.idle.remove(1);
        }
        self.idle.push_back((now, cause));
    }

    /// A position ran: accounts for the time up to its end.
    pub(super) fn ran(&mut self, stages: &Stages, whose: Whose, days: &mut Days) {
        let mut start = stages.started;
        // It was told to have ended when the next had begun already: the worker learns of an end later.
        if let Some(last) = self.ran.back_mut().filter(|last| last.end > start) {
            let end = start.max(last.start);
            let over = (end, last.end);
            last.end = end;
            each_day(over, |day, ns| {
                let busy = &mut days.entry((day, self.gpu)).or_default().busy_ns;
                *busy = busy.saturating_sub(ns);
            });
            start = end;
            self.until = self.until.min(start);
        }
        let end = stages.ended.max(start);
        self.book_idle(start, Some(stages), days);
        let from = start.max(self.until);
        if end > from {
            each_day((from, end), |day, ns| {
                let day = days.entry((day, self.gpu)).or_default();
                day.busy_ns = day.busy_ns.saturating_add(ns);
            });
            self.until = end;
        }
        self.ran.push_back(Ran { start, end, whose });
        if self.ran.len() > KEPT {
            self.ran.pop_front();
        }
    }

    /// Nothing runs: accounts for the time until now.
    pub(super) fn rest(&mut self, now: Nanos, days: &mut Days) {
        self.book_idle(now, None, days);
    }

    /// What ran between these two moments while something waited, to the sums: its own session's work, that of a
    /// higher priority, or else `cause`. Gives how long nothing did.
    pub(super) fn before(
        &self,
        (from, to): (Nanos, Nanos),
        (waits, cause): (&Whose, Cause),
        sums: &mut Sums,
    ) -> u64 {
        let mut free = to.saturating_sub(from);
        for ran in self.ran.iter().rev() {
            if ran.end <= from {
                break;
            }
            let ns = overlap((ran.start, ran.end), (from, to));
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

    /// Accounts for idle time up to a moment, which was followed by this position if by any.
    fn book_idle(&mut self, to: Nanos, next: Option<&Stages>, days: &mut Days) {
        let (mut from, gpu) = (self.until, self.gpu);
        while from < to {
            // What has been so since before, and until when.
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
            let mut rest = stretch.1.saturating_sub(stretch.0);
            let mut book = |key: &Key, part: (Nanos, Nanos)| {
                each_day(part, |day, ns| {
                    days.entry((day, gpu)).or_default().idle.add(key, ns);
                });
            };
            // Something was granted: what it was doing is told by its times. Of a standing grant what came
            // before its ops was its program's.
            if let (Cause::Worker, Some(next)) = (cause.0, next) {
                let arrives = match next.granted == next.accepted {
                    true => (Cause::Program, (0, next.accepted)),
                    false => (Cause::Bus, (next.granted, next.accepted)),
                };
                for (key, part) in [arrives, (Cause::Program, (next.lacked_since(), next.begun))] {
                    let part = (part.0.max(stretch.0), part.1.min(stretch.1));
                    if part.1 > part.0 {
                        rest = rest.saturating_sub(part.1 - part.0);
                        book(&(key, None), part);
                    }
                }
            }
            book(&cause, (stretch.1.saturating_sub(rest), stretch.1));
            from = stretch.1;
        }
        self.until = self.until.max(to);
    }
}

/// Nanoseconds that two stretches have in common.
fn overlap(one: (Nanos, Nanos), other: (Nanos, Nanos)) -> u64 {
    one.1.min(other.1).saturating_sub(one.0.max(other.0))
}

/// The parts of a stretch by day.
fn each_day((mut from, to): (Nanos, Nanos), mut tell: impl FnMut(u64, u64)) {
    while from < to {
        let day = from / DAY;
        let end = (day + 1).saturating_mul(DAY).min(to);
        tell(day, end - from);
        from = end;
    }
}
