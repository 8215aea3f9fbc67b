//! Requests as programs report them, and the parts of the record that hold their ops.

use std::collections::VecDeque;
use std::rc::Rc;

use bus_schemas::{
    COMPILATIONS, ClientProcess, Code, CostClass, CostRun, Epoch, GpuId, GpuPosition, GrantKind,
    KernelKey, OpNumber, RequestReport, SessionId, Tenant,
};
use scheduler_leader_core::why::{Cause, Timing, Wait};

/// Maximum number of spans of a request's slices; the later slices share the last one.
pub(crate) const SLICES: usize = 128;
/// Maximum number of kinds of work of a part that are told apart. Launches of further kernels are those of
/// [`KernelKey::OTHER`].
const KINDS: usize = 32;
/// Maximum number of kinds of waits of a part that are told apart by the tenant that caused them.
const WAITS: usize = 64;

/// A slice that ran, or a part of a standing grant, or several of these that follow one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) gpu: GpuId,
    pub(crate) epoch: Epoch,
    pub(crate) position: GpuPosition,
    pub(crate) priority: u8,
    pub(crate) kind: GrantKind,
    pub(crate) first: OpNumber,
    pub(crate) last: OpNumber,
    /// Number of slices.
    pub(crate) slices: u64,
    pub(crate) launches: Option<u64>,
    pub(crate) device_ns: u64,
    pub(crate) work: Box<[Ran]>,
    pub(crate) timing: Box<Timing>,
}

/// Ops of one kind in a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) class: CostClass,
    /// The kernel key of launches, else 0.
    pub(crate) key: KernelKey,
    pub(crate) ops: u64,
    /// Bytes that all of them move.
    pub(crate) bytes: u64,
}

impl From<&CostRun> for Ran {
    fn from(run: &CostRun) -> Self {
        let ops = u64::from(run.count);
        Self {
            class: run.class,
            key: run.key,
            ops,
            bytes: run.bytes.saturating_mul(ops),
        }
    }
}

impl Part {
    /// True if a program waits at its end.
    fn has_sync(&self) -> bool {
        self.work.iter().any(|run| run.class == CostClass::Sync)
    }

    /// Adds a later part to this one, which then stands for both.
    pub(crate) fn add(&mut self, next: &Self) {
        let is_single = self.slices == 1;
        self.last = next.last;
        self.slices = self.slices.saturating_add(next.slices);
        let both = self.launches.zip(next.launches);
        self.launches = both.map(|(one, other)| one.saturating_add(other));
        self.device_ns = self.device_ns.saturating_add(next.device_ns);
        let mut work = std::mem::take(&mut self.work).into_vec();
        next.work.iter().for_each(|run| add_work(&mut work, run));
        self.work = work.into();
        let mut later = next.timing.clone();
        if next.slices == 1 {
            fill_waits(&mut later);
        }
        let timing = &mut self.timing;
        if is_single {
            fill_waits(timing);
        }
        timing.ended = timing.ended.max(later.ended);
        timing.waited_ns = timing.waited_ns.saturating_add(later.waited_ns);
        timing.compiled.append(&mut later.compiled);
        timing.compiled.truncate(COMPILATIONS);
        let waits = later.waits.iter();
        waits.for_each(|wait| add_wait(&mut timing.waits, wait));
    }
}

/// Makes the waits of a slice as long as the time from announced to started. Under a standing grant, the rest of a
/// longer time is the program's: nothing of its session was there to run.
pub(crate) fn fill_waits(timing: &mut Timing) {
    let whole = timing.started.saturating_sub(timing.announced);
    let waits = timing.waits.iter();
    let sum = waits.fold(0, |sum: u64, wait| sum.saturating_add(wait.ns));
    if sum < whole {
        let rest = Wait {
            cause: Cause::Program,
            of: None,
            ns: whole - sum,
        };
        add_wait(&mut timing.waits, &rest);
    }
    shorten_waits(timing, whole);
}

/// Makes the waits of a part add up to the time that it waited, at most `most`, each by the same factor.
pub(crate) fn shorten_waits(timing: &mut Timing, most: u64) {
    let waits = timing.waits.iter();
    let sum = waits.fold(0, |sum: u64, wait| sum.saturating_add(wait.ns));
    if sum > most {
        let (mut before, mut seen) = (0, 0_u128);
        for wait in &mut timing.waits {
            seen += u128::from(wait.ns);
            let share = u64::try_from(seen * u128::from(most) / u128::from(sum));
            let share = share.unwrap_or(most).min(most);
            (wait.ns, before) = (share - before, share);
        }
        timing.waits.retain(|wait| wait.ns > 0);
    }
    timing.waited_ns = sum.min(most);
}

fn add_work(work: &mut Vec<Ran>, run: &Ran) {
    let kind = |it: &Ran| (it.class, it.key, it.bytes > 0);
    let find = |work: &[Ran], run: &Ran| work.iter().position(|it| kind(it) == kind(run));
    let mut run = *run;
    let mut known = find(work, &run);
    if known.is_none() && work.len() >= KINDS && run.class == CostClass::Launch {
        run.key = KernelKey::OTHER;
        known = find(work, &run);
    }
    match known.and_then(|at| work.get_mut(at)) {
        Some(known) => {
            known.ops = known.ops.saturating_add(run.ops);
            known.bytes = known.bytes.saturating_add(run.bytes);
        }
        // Other classes have two kinds at most, with bytes and without.
        None => work.push(run),
    }
}

fn add_wait(waits: &mut Vec<Wait>, wait: &Wait) {
    let of = wait.of.as_ref().filter(|_| waits.len() < WAITS);
    let same = |it: &Wait| it.cause == wait.cause && it.of == wait.of;
    let known = waits.iter().position(same);
    let known = known.or_else(|| {
        let nameless = |it: &Wait| it.cause == wait.cause && it.of.as_ref() == of;
        waits.iter().position(nameless)
    });
    match known.and_then(|at| waits.get_mut(at)) {
        Some(known) => known.ns = known.ns.saturating_add(wait.ns),
        None => waits.push(Wait {
            cause: wait.cause,
            of: of.cloned(),
            ns: wait.ns,
        }),
    }
}

/// Joins parts that have no span of their own whatever request they are of. A request begins after a wait of its
/// thread. So from the first of these parts, and after each wait, [`SLICES`] less one stay single, and the later ones
/// become one up to the next wait. A request that is joined later has the same spans with them as with single parts.
pub(crate) fn join_tails(parts: &mut VecDeque<Rc<Part>>) {
    let mut joined: VecDeque<Rc<Part>> = VecDeque::with_capacity(parts.len());
    let mut since_wait = 0_usize;
    for part in parts.drain(..) {
        let waits = part.has_sync();
        match joined.back_mut() {
            Some(tail) if since_wait >= SLICES && tail.last.checked_add(1) == Some(part.first) => {
                Rc::make_mut(tail).add(&part);
            }
            _ => joined.push_back(part),
        }
        since_wait = if waits { 0 } else { since_wait + 1 };
    }
    *parts = joined;
}

/// An error that a request met and that did not end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Met {
    /// Time of the call, nanoseconds since 1970.
    pub(crate) at: u64,
    /// Number of failed calls.
    pub(crate) count: u32,
    pub(crate) code: Code,
    pub(crate) words: Box<str>,
}

/// A request as its program reported it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) tenant: Tenant,
    pub(crate) session: SessionId,
    pub(crate) process: Option<ClientProcess>,
    pub(crate) report: RequestReport,
    /// The detail of the failure that ended it; empty if the program did not tell it.
    pub(crate) failure: Option<Rc<str>>,
    /// Its ops, in order.
    pub(crate) runs: Box<[(OpNumber, OpNumber)]>,
    /// Its loads of modules, in order.
    pub(crate) loads: Box<[(OpNumber, OpNumber)]>,
    /// The errors that it met and that did not end it.
    pub(crate) errors: Vec<Met>,
}

impl Request {
    /// Number of its loads of modules in a part.
    pub(crate) fn loads_in(&self, part: &Part) -> u64 {
        let within = |(first, last): &(OpNumber, OpNumber)| {
            let (first, last) = ((*first).max(part.first), (*last).min(part.last));
            last.saturating_add(1).saturating_sub(first)
        };
        let loads = self.loads.iter().map(within);
        loads.fold(0, u64::saturating_add)
    }

    /// True if parts, in the order of their ops, hold all its ops.
    pub(crate) fn is_held(&self, parts: &VecDeque<Rc<Part>>) -> bool {
        self.runs.iter().all(|(first, last)| {
            let mut next = *first;
            let at = parts.partition_point(|part| part.last < next);
            for part in parts.iter().skip(at) {
                if part.first > next || next > *last {
                    break;
                }
                next = next.max(part.last.saturating_add(1));
            }
            next > *last
        })
    }

    /// True if a joined part has ops of other requests too, so that its times are not this one's.
    pub(crate) fn is_blurred(&self, part: &Part) -> bool {
        part.slices > 1 && (part.first < self.report.first || part.last > self.report.last)
    }

    /// True if no op of it is between two parts.
    pub(crate) fn is_joint(&self, part: &Part, next: &Part) -> bool {
        let gap = (part.last.saturating_add(1), next.first.saturating_sub(1));
        let mut runs = self.runs.iter();
        gap.0 > gap.1 || runs.all(|(first, last)| *last < gap.0 || *first > gap.1)
    }

    /// True if a part holds ops of it.
    pub(crate) fn needs(&self, part: &Part) -> bool {
        let at = self.runs.partition_point(|(_, last)| *last < part.first);
        self.runs
            .get(at)
            .is_some_and(|(first, _)| *first <= part.last)
    }
}
