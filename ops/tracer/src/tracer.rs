//! The tracer itself, without its surroundings: it takes in reports and the record, and decides what becomes a trace.
//! `T` marks the message of a request.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use bus_schemas::subject::Subjects;
use bus_schemas::{CostClass, GpuId, KernelKey, KernelRecord, Tenant, TraceContext};
use scheduler_leader_core::replay::ReplayedPosition;
use scheduler_leader_core::why::DeviceIdle;
use telemetry::{Exemplar, FinishedSpan, TracerMeters, Untraced};

use crate::destinations::Destinations;
use crate::idle::Idle;
use crate::ids::{Ids, root_of, trace_of};
use crate::join::{Join, Joined, Request};
use crate::kernels::Kernels;
use crate::links::Links;
use crate::sampling::Sampling;
use crate::trace::{Context, spans};
use crate::waits::Waits;

/// Time for which a joined request waits for the names of its kernels, nanoseconds. Workers record new kernels every
/// two seconds.
const NAMES: u64 = 3_000_000_000;
/// Maximum number of requests that are under way; above it no more reports are taken from the stream.
const UNDER_WAY: usize = 16_384;
/// Number of them from which on a tenant with more than its share gets no more.
const CROWDED: usize = UNDER_WAY / 2;
/// Share of a tenant in crowded times.
const SHARE: usize = UNDER_WAY / 4;
/// Maximum number of traces of one batch, and number of spans at which it is full.
const BATCH: (usize, usize) = (256, 4_096);

/// Time for which slices can be linked to, nanoseconds.
const LINKED: u64 = 60_000_000_000;
/// Time after the answer of a leader for which idle time that goes on is counted, nanoseconds.
const LED: u64 = 30_000_000_000;
/// Longest duration that is measured, nanoseconds: a day.
const LONGEST: u64 = 86_400_000_000_000;
/// Maximum number of failed requests of a tenant that are logged in a second.
const LOGGED: u32 = 4;

/// Numbers of failed requests that were logged in the present second.
#[derive(Debug, Default)]
struct Logged {
    second: u64,
    tenants: HashMap<Tenant, u32>,
}

impl Logged {
    /// True if one more of this tenant may be logged.
    fn admits(&mut self, tenant: &Tenant, now: u64) -> bool {
        let second = now / 1_000_000_000;
        if second != self.second {
            self.second = second;
            self.tenants.clear();
        }
        let count = self.tenants.entry(tenant.clone()).or_default();
        *count = count.saturating_add(1);
        *count <= LOGGED
    }
}

/// A request that ended with an error, for the log.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) request: Request,
    /// The span that stands for it.
    pub(crate) span: TraceContext,
}

/// The result of a look at the requests.
#[derive(Debug)]
pub(crate) struct Looked<T> {
    /// The marks of those that are not exported.
    pub(crate) dropped: Vec<T>,
    /// Those that ended with an error.
    pub(crate) failed: Vec<Failed>,
}

/// Reports, the record, and the requests between both and the collector. Times are nanoseconds since 1970.
#[derive(Debug)]
pub(crate) struct Tracer<T> {
    ids: Ids,
    destinations: Destinations,
    join: Join<T>,
    kernels: Kernels,
    sampling: Sampling,
    waits: Waits,
    idle: Idle,
    links: Links,
    /// True if there is a collector for spans.
    exports: bool,
    /// Kept requests with kernels that have no name yet, each with the time at which it goes all the same.
    unnamed: VecDeque<(u64, Joined<T>)>,
    named: VecDeque<Joined<T>>,
    /// Number of requests that are not traced, since the start.
    untold: u64,
    /// Time at which a leader answered last.
    led: u64,
    logged: Logged,
}

impl<T> Tracer<T> {
    /// Creates the tracer of a cluster. Without `exports` it measures only.
    pub(crate) fn new(subjects: &Subjects, sampling: Sampling, exports: bool, now: u64) -> Self {
        Self {
            ids: Ids::new(subjects.cluster()),
            destinations: Destinations::new(subjects),
            join: Join::new(),
            kernels: Kernels::default(),
            sampling,
            waits: Waits::new(now),
            idle: Idle::default(),
            links: Links::default(),
            exports,
            unnamed: VecDeque::new(),
            named: VecDeque::new(),
            untold: 0,
            led: 0,
            logged: Logged::default(),
        }
    }

    /// Notes that the record is read from its beginning, which tells everything again.
    pub(crate) fn begins(&mut self, now: u64) {
        self.join.begins(now);
        self.waits.begins();
        self.idle.begins();
    }

    /// Notes that the record is read up to now.
    pub(crate) fn is_read(&mut self, now: u64) {
        self.join.is_read(now);
        self.waits.is_read();
    }

    /// True if the record is to be read from its beginning.
    pub(crate) fn wants_again(&self, now: u64) -> bool {
        self.join.wants_again(now)
    }

    /// Takes in a position of the record.
    pub(crate) fn position(&mut self, position: &ReplayedPosition, meters: &TracerMeters) {
        for wait in self.waits.position(position) {
            meters.waited(
                &position.tenant,
                wait.cause.name(),
                wait.of.as_ref(),
                wait.ns,
            );
        }
        self.join.position(position);
    }

    /// Takes in the idle time of all devices.
    pub(crate) fn tell_idle(&mut self, devices: BTreeMap<GpuId, DeviceIdle>, now: u64) {
        self.idle.tell(devices, now);
    }

    /// Takes in the record of a kernel.
    pub(crate) fn learn(&mut self, key: KernelKey, record: &KernelRecord) {
        self.kernels.learn(key, record);
    }

    /// Sets the targets of all tenants, nanoseconds.
    pub(crate) fn set_targets(&mut self, targets: HashMap<Tenant, u64>) {
        self.sampling.set_targets(targets);
    }

    /// Notes that a leader answered. Idle time that goes on counts for a while from then.
    pub(crate) fn is_led(&mut self, now: u64) {
        self.led = now;
    }

    /// True if no more reports may be taken from the stream.
    pub(crate) fn is_full(&self) -> bool {
        self.join.waiting() + self.unnamed.len() + self.named.len() >= UNDER_WAY
    }

    /// Takes in a request. Returns the mark of one that is not to be told, with the reason; with none if it was told
    /// before.
    pub(crate) fn take(
        &mut self,
        request: Request,
        now: u64,
        mark: T,
    ) -> Option<(T, Option<Untraced>)> {
        let crowded = self.join.waiting() >= CROWDED && self.join.is_shared();
        if crowded && self.join.waiting_of(&request.tenant) >= SHARE {
            return Some((mark, Some(Untraced::Crowded)));
        }
        let (mark, was_told) = self.join.request(request, now, mark)?;
        Some((mark, (!was_told).then_some(Untraced::Unknown)))
    }

    /// Looks at the requests. A tenant may report anything, so only requests with ops in the record count.
    pub(crate) fn look(&mut self, now: u64, meters: &TracerMeters) -> Looked<T> {
        let idle_until = now.min(self.led.saturating_add(LED));
        for (gpu, cause, ns) in self.idle.look(idle_until) {
            meters.idle(gpu, cause.name(), ns);
        }
        let due = self.join.due(now);
        self.join.forget(now);
        self.links.forget(now.saturating_sub(LINKED));
        let (mut dropped, mut failed, mut untold) = (Vec::new(), Vec::new(), 0);
        for joined in due {
            if joined.parts.is_empty() && !joined.has_run {
                untold += 1;
                dropped.push(joined.mark);
                continue;
            }
            let is_error = joined.request.report.error.is_some();
            if is_error && self.logged.admits(&joined.request.tenant, now) {
                failed.push(self.failed(&joined.request));
            }
            match self.measure(&joined.request, now, meters) {
                true => self.unnamed.push_back((now.saturating_add(NAMES), joined)),
                false => dropped.push(joined.mark),
            }
        }
        self.note_untold(Untraced::Unknown, untold, meters);
        self.name(now);
        Looked { dropped, failed }
    }

    fn failed(&self, request: &Request) -> Failed {
        let trace = trace_of(request, &self.ids);
        Failed {
            request: request.clone(),
            span: TraceContext {
                trace,
                span: root_of(request, &self.ids),
                sampled: self.sampling.keeps(request, trace).is_some(),
            },
        }
    }

    /// Notes the duration of a request. Returns true if it is to be exported.
    fn measure(&self, request: &Request, now: u64, meters: &TracerMeters) -> bool {
        let report = &request.report;
        let trace = trace_of(request, &self.ids);
        let is_kept = self.exports && self.sampling.keeps(request, trace).is_some();
        let exemplar = is_kept.then(|| Exemplar {
            trace,
            span: root_of(request, &self.ids),
            at: report.ended.min(now),
        });
        // A tenant may report any time.
        let took = report.ended.saturating_sub(report.began).min(LONGEST);
        let took = Duration::from_nanos(took);
        meters.request(&request.tenant, took, exemplar);
        is_kept
    }

    /// Moves the requests on that have names for all kernels, or will get none.
    fn name(&mut self, now: u64) {
        for _ in 0..self.unnamed.len() {
            if let Some((named_by, joined)) = self.unnamed.pop_front() {
                match now >= named_by || self.is_named(&joined) {
                    true => {
                        self.links.add(&joined, &self.ids);
                        self.named.push_back(joined);
                    }
                    false => self.unnamed.push_back((named_by, joined)),
                }
            }
        }
    }

    fn is_named(&self, joined: &Joined<T>) -> bool {
        let mut work = joined.parts.iter().flat_map(|part| part.work.iter());
        work.all(|run| run.class != CostClass::Launch || self.kernels.knows(run.key))
    }

    /// Notes requests that are not traced. Warns at each power of two of their number.
    pub(crate) fn note_untold(&mut self, reason: Untraced, count: u64, meters: &TracerMeters) {
        meters.untraced(reason, count);
        let before = self.untold;
        self.untold = before.saturating_add(count);
        if before.checked_ilog2() != self.untold.checked_ilog2() {
            let (untold, reason) = (self.untold, reason.name());
            tracing::warn!(untold, reason, "requests are not traced");
        }
    }

    /// Makes the spans of the next batch. Returns them with the marks of their requests.
    pub(crate) fn batch(&mut self) -> (Vec<FinishedSpan>, Vec<T>) {
        let (mut batch, mut marks) = (Vec::new(), Vec::new());
        while marks.len() < BATCH.0 && batch.len() < BATCH.1 {
            let Some(joined) = self.named.pop_front() else {
                break;
            };
            batch.extend(self.spans(&joined));
            marks.push(joined.mark);
        }
        (batch, marks)
    }

    /// The spans of a request; none if it is not kept any more.
    fn spans(&self, joined: &Joined<T>) -> Vec<FinishedSpan> {
        let trace = trace_of(&joined.request, &self.ids);
        let kept = self.sampling.keeps(&joined.request, trace);
        let made = kept.map(|kept| {
            let context = Context {
                ids: &self.ids,
                destinations: &self.destinations,
                kernels: &self.kernels,
                target: self.sampling.target(&joined.request.tenant),
                kept,
                links: &self.links,
            };
            spans(joined, &context)
        });
        made.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
