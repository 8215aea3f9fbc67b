//! Requests as programs report them, and the parts of the record that hold their ops.

use std::collections::VecDeque;
use std::rc::Rc;

use bus_schemas::{
    COMPILATIONS, ClientProcess, Code, CostClass, CostRun, Epoch, GpuId, GpuPosition, GrantKind,
    KernelKey, OpNumber, RequestReport, SessionId, Tenant,
};
use scheduler_leader_core::why::{Timing, Wait};

/// Maximum number of kinds of work of a part that are told apart.
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
    /// True if a later part can be added without loss of order: no op of the session is between the two, and the
    /// program did not wait there.
    fn can_add(&self, next: &Self) -> bool {
        let place = |it: &Self| (it.gpu, it.epoch, it.kind, it.priority);
        let waits = self.work.iter().any(|run| run.class == CostClass::Sync);
        place(self) == place(next) && self.last.checked_add(1) == Some(next.first) && !waits
    }

    /// Adds a later part to this one, which then stands for both.
    pub(crate) fn add(&mut self, next: &Self) {
        self.last = next.last;
        self.slices = self.slices.saturating_add(next.slices);
        let both = self.launches.zip(next.launches);
        self.launches = both.map(|(one, other)| one.saturating_add(other));
        self.device_ns = self.device_ns.saturating_add(next.device_ns);
        let mut work = std::mem::take(&mut self.work).into_vec();
        next.work.iter().for_each(|run| add_work(&mut work, run));
        self.work = work.into();
        let timing = &mut self.timing;
        timing.ended = timing.ended.max(next.timing.ended);
        timing.waited_ns = timing.waited_ns.saturating_add(next.timing.waited_ns);
        timing.compiled.extend_from_slice(&next.timing.compiled);
        timing.compiled.truncate(COMPILATIONS);
        let waits = next.timing.waits.iter();
        waits.for_each(|wait| add_wait(&mut timing.waits, wait));
    }
}

fn add_work(work: &mut Vec<Ran>, run: &Ran) {
    let full = work.len() >= KINDS;
    let kind = |it: &Ran| (it.class, it.key, it.bytes > 0);
    let same = |it: &Ran| kind(it) == kind(run);
    let at = work.iter().position(same);
    let at = at.or_else(|| work.iter().position(|it| full && it.class == run.class));
    match at.and_then(|at| work.get_mut(at)) {
        Some(known) => {
            known.ops = known.ops.saturating_add(run.ops);
            known.bytes = known.bytes.saturating_add(run.bytes);
        }
        None => work.push(*run),
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

/// Joins neighbours among parts in pairs, as far as they can be: about half remain of those of a long request. Parts
/// that were joined before are joined again, so the oldest are the coarsest.
pub(crate) fn join_pairs(parts: &mut VecDeque<Rc<Part>>) {
    let mut joined: VecDeque<Rc<Part>> = VecDeque::with_capacity(parts.len());
    let mut is_single = false;
    for part in parts.drain(..) {
        match joined.back_mut() {
            Some(last) if is_single && last.can_add(&part) => {
                Rc::make_mut(last).add(&part);
                is_single = false;
            }
            _ => {
                joined.push_back(part);
                is_single = true;
            }
        }
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

    /// True if a part holds ops of it.
    pub(crate) fn needs(&self, part: &Part) -> bool {
        let at = self.runs.partition_point(|(_, last)| *last < part.first);
        self.runs
            .get(at)
            .is_some_and(|(first, _)| *first <= part.last)
    }
}
