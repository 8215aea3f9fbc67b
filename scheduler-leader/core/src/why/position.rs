//! One position: its times, and the causes of its wait.

use bus_schemas::{Compilation, DoneReport, GrantKind, OpNumber, ReportTimes};

use super::cause::Cause;
use super::device::{Days, Device, Stages, Whose};
use super::line::{Waited, is_full};
use super::sums::{Sums, Wait};
use crate::time::Nanos;

/// The times of a position, and the causes of its wait. Times are nanoseconds of its leader's
/// clock. Those of the worker are converted by the quickest messages in both directions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timing {
    /// Time at which the leader heard of its first op. For a standing grant that existed before any
    /// op, the time at which it was granted.
    pub announced: Nanos,
    /// Time at which it was granted.
    pub granted: Nanos,
    /// Time at which its worker had the grant.
    pub accepted: Nanos,
    /// Time at which it was handed to the device.
    pub begun: Nanos,
    /// Time at which its first op began.
    pub started: Nanos,
    /// Time at which its last op had ended.
    pub ended: Nanos,
    /// Nanoseconds from announced to started. For a standing grant, those from announced to
    /// granted, and those in which ops of it were on the worker and had not started.
    pub waited_ns: u64,
    /// The causes of its wait, the longest first; their sum is `waited_ns`.
    pub waits: Vec<Wait>,
    /// Compilations of modules that it was the first to load. They ended before it was handed to the
    /// device. A standing grant has them in its parts only.
    pub compiled: Vec<Compilation>,
}

/// Work that has ended: a position, or a part of a standing grant.
#[derive(Debug)]
pub(crate) struct Ran {
    /// The first op of a part; `None` for a position.
    pub(crate) part_from: Option<OpNumber>,
    /// Its times and its waits.
    pub(crate) timing: Box<Timing>,
}

/// A position that has not ended.
#[derive(Debug)]
pub(super) struct Granted {
    pub(super) whose: Whose,
    pub(super) kind: GrantKind,
    pub(super) ops: (OpNumber, OpNumber),
    pub(super) at: Nanos,
    pub(super) waited: Option<Waited>,
    /// For a standing grant, the waits of its ops: those before it and those of its parts.
    pub(super) parts: Sums,
    /// Stages of its first part, and of its last.
    pub(super) ran: Option<(Stages, Stages)>,
}

impl Granted {
    /// Time at which its first op was announced, if that is known and was before the grant.
    fn announced(&self) -> Nanos {
        match &self.waited {
            Some(waited) if waited.since > 0 => waited.since.min(self.at),
            _ => self.at,
        }
    }

    /// The causes of its wait until it was granted.
    fn until_granted(&self, device: &Device) -> Sums {
        let waited = self.waited.clone().unwrap_or_default();
        // While the window was full, it waited for the work that ran then.
        let mut sums = waited.sums.without(is_full);
        let mut free = waited.sums.total() - sums.total();
        for stretch in &waited.full {
            free = free.saturating_sub(stretch.1 - stretch.0);
            free += device.before(*stretch, (&self.whose, Cause::Window), &mut sums);
        }
        sums.add(&(Cause::Window, None), free);
        // It was between two leaders, was granted in vain, or was behind other ops of its session
        // under a standing grant that was closed.
        let rest = (self.at - self.announced()).saturating_sub(sums.total());
        let between = sums.waits().iter().any(|wait| wait.cause == Cause::Leader);
        let cause = match () {
            () if between => Cause::Leader,
            () if waited.voided => Cause::Program,
            () => Cause::Own,
        };
        sums.add(&(cause, None), rest);
        sums
    }
}

/// A worker's times: none is before the grant, and each is at or after the one before.
pub(super) fn stages_of(granted: Nanos, times: &ReportTimes) -> Stages {
    let accepted = times.accepted.max(granted);
    let begun = times.begun.max(accepted);
    let started = times.started.max(begun);
    Stages {
        granted,
        accepted,
        begun,
        lacked: times.lacked.min(begun - accepted),
        started,
        ended: times.ended.max(started),
    }
}

/// Adds the causes of its wait from the grant's arrival to the start.
fn on_worker(device: &Device, stages: &Stages, whose: &Whose, sums: &mut Sums) {
    let lacked = stages.begun.saturating_sub(stages.lacked);
    sums.add(&(Cause::Program, None), stages.begun - lacked);
    let mut free = 0;
    for stretch in [(stages.accepted, lacked), (stages.begun, stages.started)] {
        free += device.before(stretch, (whose, Cause::Device), sums);
    }
    sums.add(&(Cause::Worker, None), free);
}

/// Accounts for a part of a standing grant that has run.
pub(super) fn add_part(
    device: &mut Device,
    granted: &mut Granted,
    times: &ReportTimes,
    days: &mut Days,
) {
    let stages = stages_of(times.accepted.max(granted.at), times);
    if granted.ran.is_none() {
        granted.parts = granted.until_granted(device);
    }
    // Parts wait one behind the other: each moment counts once.
    let counted = granted.ran.map_or(granted.at, |(_, last)| last.started);
    let fresh = stages.from(counted);
    on_worker(device, &fresh, &granted.whose, &mut granted.parts);
    device.add_work(&stages, granted.whose.clone(), days);
    let (first, before) = granted.ran.unwrap_or((stages, stages));
    // A worker's clock is known better with each message: a later time may appear to be earlier.
    let last = Stages {
        started: stages.started.max(before.started),
        ended: stages.ended.max(before.ended),
        ..stages
    };
    granted.ran = Some((first, last));
}

/// The timing of the last part of a standing grant. `before` are the waits of its parts before this one.
pub(super) fn part_timing(granted: &Granted, before: &Sums, is_first: bool) -> Option<Box<Timing>> {
    let (_, last) = granted.ran?;
    let sums = granted.parts.since(before);
    // The leader hears of later ops when they have run.
    let announced = match &granted.waited {
        Some(_) if is_first => granted.announced(),
        _ => last.accepted,
    };
    Some(Box::new(Timing {
        announced,
        granted: granted.at.max(announced),
        accepted: last.accepted,
        begun: last.begun,
        started: last.started,
        ended: last.ended,
        waited_ns: sums.total(),
        waits: sums.waits(),
        compiled: Vec::new(),
    }))
}

/// Accounts for a position that was granted before the replay began: the device was busy with it.
pub(super) fn add_unknown(
    device: &mut Device,
    report: &DoneReport,
    times: &ReportTimes,
    days: &mut Days,
) {
    let whose = Whose {
        session: report.session,
        tenant: None,
        priority: u8::MAX,
    };
    device.add_work(&stages_of(times.accepted, times), whose, days);
}

/// The timing of a slice that has run.
pub(super) fn slice_timing(device: &Device, granted: &Granted, stages: &Stages) -> Box<Timing> {
    let announced = granted.announced();
    let mut sums = granted.until_granted(device);
    sums.add(&(Cause::Bus, None), stages.accepted - stages.granted);
    on_worker(device, stages, &granted.whose, &mut sums);
    Box::new(Timing {
        announced,
        granted: stages.granted,
        accepted: stages.accepted,
        begun: stages.begun,
        started: stages.started,
        ended: stages.ended,
        waited_ns: stages.started - announced,
        waits: sums.waits(),
        compiled: Vec::new(),
    })
}

/// The timing of a standing grant so far; `None` if no op of it has run.
pub(super) fn standing_timing(granted: &Granted) -> Option<Box<Timing>> {
    let (first, last) = granted.ran?;
    Some(Box::new(Timing {
        announced: granted.announced(),
        granted: granted.at,
        accepted: first.accepted,
        begun: first.begun,
        started: first.started,
        ended: last.ended,
        waited_ns: granted.parts.total(),
        waits: granted.parts.waits(),
        compiled: Vec::new(),
    }))
}

#[cfg(test)]
mod tests {
    use bus_schemas::SessionId;

    use super::super::device::ALWAYS;
    use super::*;

    #[test]
    fn a_standing_grants_stages_follow_one_another_where_its_workers_clock_is_set_right() {
        let (mut device, mut days) = (Device::new(0, 0, ALWAYS), Days::default());
        let mut granted = Granted {
            whose: Whose {
                session: SessionId(1),
                tenant: None,
                priority: 0,
            },
            kind: GrantKind::Standing,
            ops: (1, 0),
            at: 100,
            waited: None,
            parts: Sums::default(),
            ran: None,
        };
        let times = |accepted, ended| ReportTimes {
            accepted,
            begun: accepted + 10,
            lacked: 0,
            started: accepted + 10,
            ended,
        };
        for times in [times(500, 520), times(450, 470), times(460, 490)] {
            add_part(&mut device, &mut granted, &times, &mut days);
        }
        let timing = standing_timing(&granted).expect("it has run");
        assert_eq!((timing.accepted, timing.started), (500, 510));
        assert!(timing.ended >= timing.started, "{timing:?}");
        assert_eq!(timing.waited_ns, 10, "each moment counts once");
    }

    /// A worker may not listen to a tenant for a while. The record does not tell that from a program
    /// that is late.
    #[test]
    fn ops_that_come_late_to_the_worker_are_waited_for_as_the_programs() {
        let device = Device::new(0, 0, ALWAYS);
        let whose = Whose {
            session: SessionId(1),
            tenant: None,
            priority: 0,
        };
        let times = ReportTimes {
            accepted: 100,
            begun: 400,
            lacked: 250,
            started: 410,
            ended: 420,
        };
        let mut sums = Sums::default();
        on_worker(&device, &stages_of(90, &times), &whose, &mut sums);
        let waits = sums.waits();
        let waits: Vec<_> = waits.iter().map(|wait| (wait.cause, wait.ns)).collect();
        // The rest is the handover, from its acceptance to its start.
        assert_eq!(waits, [(Cause::Program, 250), (Cause::Worker, 60)]);
    }
}
