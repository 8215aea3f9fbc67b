//! The trace of one request: its spans, with their causes, kernels and times.
//!
//! The children of a request cover it. `submit` lasts until the leader hears of its first op. Each slice has a `queue`
//! and an execution. `program` fills the time in which nothing of it is queued or runs. `answer` begins at the end of
//! its last op. `swap`, `compile`, `transfer` and `load` are beside them.

use std::borrow::Cow;

use bus_schemas::{Compilation, SpanId, TraceId};
use scheduler_leader_core::why::{Cause, Timing};
use telemetry::catalogue::traces as names;
use telemetry::catalogue::traces::SpanKind;
use telemetry::{Attribute, Attributes, FinishedSpan, Role};

use crate::attribute::{number, text};
use crate::destinations::Destinations;
use crate::failed::{Failed, failed_calls, met};
use crate::fit::{distance, fit};
use crate::ids::{Ids, root_of, trace_of};
use crate::join::{Joined, Part, Request};
use crate::kernels::Kernels;
use crate::links::Links;
use crate::sampling::Kept;
use crate::slices::slices;
use crate::timeline::{Stretch, uncovered, within};
use crate::work::Work;

/// Name of the span of a request itself.
pub(crate) const REQUEST: &str = "request";

/// The things that a trace is made from, besides its request.
#[derive(Debug)]
pub(crate) struct Context<'c> {
    pub(crate) ids: &'c Ids,
    pub(crate) destinations: &'c Destinations,
    pub(crate) kernels: &'c Kernels,
    /// The target of the tenant, nanoseconds.
    pub(crate) target: Option<u64>,
    pub(crate) kept: Kept,
    /// The slices of other tenants that may be linked to.
    pub(crate) links: &'c Links,
}

/// Returns the spans of a request; the first is the request itself.
pub(crate) fn spans<T>(joined: &Joined<T>, context: &Context<'_>) -> Vec<FinishedSpan> {
    let report = &joined.request.report;
    let trace = Trace {
        request: &joined.request,
        context,
        id: trace_of(&joined.request, context.ids),
        root: root_of(&joined.request, context.ids),
        bounds: (report.began, report.ended),
    };
    let moved = distance(&joined.request, &joined.parts);
    let parts = slices(&joined.parts, moved, trace.bounds);
    let mut spans = vec![trace.whole(joined, &parts)];
    for (part, own) in parts.iter().zip(&joined.parts) {
        let links = || context.links.of(&joined.request.tenant, own);
        spans.extend(trace.queue(part).map(|queue| FinishedSpan {
            links: links(),
            ..queue
        }));
        spans.extend(trace.execution(part));
        spans.extend(trace.compilations(part));
    }
    let returns = joined.returns.iter();
    spans.extend(returns.map(|part| trace.swap(&fit(part, moved, trace.bounds))));
    spans.extend(trace.rest(&parts));
    spans
}

struct Trace<'t> {
    request: &'t Request,
    context: &'t Context<'t>,
    id: TraceId,
    root: SpanId,
    /// Begin and end of the request.
    bounds: Stretch,
}

impl Trace<'_> {
    /// The span of the request itself.
    fn whole<T>(&self, joined: &Joined<T>, slices: &[Part]) -> FinishedSpan {
        let report = &self.request.report;
        // A tenant may claim any number of ops.
        let runs = self.request.runs.iter();
        let ops = runs.fold(0, |sum: u64, (first, last)| {
            sum.saturating_add(last - first).saturating_add(1)
        });
        let mut attributes = self.common();
        attributes.extend([
            number(names::OPS, ops),
            number(names::LAUNCHES, u64::from(report.launches)),
            number(names::THREAD_ID, u64::from(report.thread)),
            text(names::KEPT, self.context.kept.name()),
        ]);
        if let Some(part) = joined.parts.first() {
            attributes.push(number(names::GPU, u64::from(part.gpu)));
            attributes.push(number(names::PRIORITY, u64::from(part.priority)));
        }
        if let Some(process) = &self.request.process {
            attributes.push(number(names::PROCESS_PID, u64::from(process.pid)));
            attributes.push(text(names::PROCESS_NAME, process.name.as_str()));
            attributes.push(text(names::HOST_NAME, process.host.as_str()));
        }
        if let Some(target) = self.context.target {
            attributes.push(number(names::TARGET_NS, target));
        }
        if !joined.is_whole {
            attributes.push((Cow::Borrowed(names::INCOMPLETE), Attribute::Flag(true)));
        }
        let timings = slices.iter().map(|slice| &*slice.timing);
        attributes.extend(waits(timings));
        let failed = report.error.map(|code| Failed::new(code, self.request));
        attributes.extend(failed.iter().flat_map(Failed::attributes));
        attributes.extend(failed_calls(self.request).map(|calls| number(names::ERRORS, calls)));
        let mut events = met(self.request, self.bounds);
        events.extend(failed.iter().map(|it| it.event(self.bounds.1)));
        FinishedSpan {
            parent: report.parent.map(|parent| parent.span),
            is_remote: report.parent.is_some(),
            span: self.root,
            attributes,
            events,
            error: failed.map(Failed::status),
            ..self.child(Role::Client, REQUEST, [0, 0], self.bounds)
        }
    }

    /// The wait of a slice: from the time at which the leader heard of its first op to its start.
    fn queue(&self, part: &Part) -> Option<FinishedSpan> {
        let stretch = within((part.timing.announced, part.timing.started), self.bounds);
        if part.slices > 1 || stretch.0 == stretch.1 {
            return None;
        }
        let mut span = self.of_part(Role::Leader, "queue", part, stretch);
        span.attributes
            .push(number(names::OPS, part.last - part.first + 1));
        span.attributes
            .push(number(names::PRIORITY, u64::from(part.priority)));
        let mut timing = (*part.timing).clone();
        // Before and between the ops of a standing grant its session had nothing to run.
        let idle = (stretch.1 - stretch.0).saturating_sub(timing.waited_ns);
        if idle > 0 {
            timing.waited_ns += idle;
            match timing
                .waits
                .iter_mut()
                .find(|it| it.cause == Cause::Program)
            {
                Some(wait) => wait.ns += idle,
                None => timing.waits.push(scheduler_leader_core::why::Wait {
                    cause: Cause::Program,
                    of: None,
                    ns: idle,
                }),
            }
        }
        span.attributes.extend(waits([&timing]));
        Some(span)
    }

    /// The execution of a slice, named by its kernel. Transfers and loads beside what names it have spans of their own.
    fn execution(&self, part: &Part) -> Vec<FinishedSpan> {
        // Slices that share a span have no `queue` of their own.
        let from = match part.slices {
            1 => part.timing.started,
            _ => part.timing.announced,
        };
        let stretch = within((from, part.timing.ended), self.bounds);
        let loads = self.request.loads_in(part);
        let work = Work::new(part, loads, stretch, self.context.kernels);
        let mut span = self.of_part(Role::Worker, "execute", part, stretch);
        span.name = work.name();
        span.attributes
            .push(number(names::OPS, part.last - part.first + 1));
        if let Some(launches) = part.launches {
            span.attributes.push(number(names::LAUNCHES, launches));
        }
        span.attributes
            .push(number(names::DEVICE_NS, part.device_ns));
        if part.slices > 1 {
            span.attributes.push(number(names::SLICES, part.slices));
            span.attributes.extend(waits([&*part.timing]));
        }
        span.events = work.events(part.device_ns);
        let beside = work.beside(&span.name).into_iter().map(|it| {
            let mut own = self.of_part(Role::Worker, it.name, part, it.stretch);
            own.attributes.extend(it.attributes());
            own
        });
        let mut spans: Vec<_> = beside.collect();
        spans.insert(0, span);
        spans
    }

    /// The compilations of modules that a slice of the request loads, as far as they are within the request.
    fn compilations(&self, part: &Part) -> Vec<FinishedSpan> {
        if self.request.loads_in(part) == 0 {
            return Vec::new();
        }
        let compilations = (0..).zip(&part.timing.compiled);
        let compilations = compilations.filter(|(_, it)| it.began < it.ended);
        let span = |(index, it): (u64, &Compilation)| {
            let mut span = self.of_part(Role::Worker, "compile", part, (it.began, it.ended));
            let (session, first) = (self.request.session, self.request.report.first);
            let kind = format!("compile {index}");
            let place = [part.position, part.first];
            span.span = self.context.ids.span(&kind, session, first, place);
            span
        };
        compilations.map(span).collect()
    }

    /// The return of the session's memory to the device.
    fn swap(&self, part: &Part) -> FinishedSpan {
        let stretch = within((part.timing.accepted, part.timing.ended), self.bounds);
        self.of_part(Role::Worker, "swap", part, stretch)
    }

    /// The rest of the request: on the way to the leader, in the program, and on the way back.
    fn rest(&self, slices: &[Part]) -> Vec<FinishedSpan> {
        let first = slices.iter().map(|slice| slice.timing.announced).min();
        let last = slices.iter().map(|slice| slice.timing.ended).max();
        let Some((first, last)) = first.zip(last) else {
            return Vec::new();
        };
        let (first, last) = within((first, last), self.bounds);
        let stretch =
            |slice: &Part| within((slice.timing.announced, slice.timing.ended), self.bounds);
        let busy = slices.iter().map(stretch).collect();
        let gaps = uncovered((first, last), busy);
        let mut stretches = vec![("submit", (self.bounds.0, first))];
        stretches.extend(gaps.into_iter().map(|gap| ("program", gap)));
        stretches.push(("answer", (last, self.bounds.1)));
        stretches.retain(|(_, stretch)| stretch.0 < stretch.1);
        let span = |(at, (name, stretch)): (usize, (&'static str, Stretch))| {
            let span = self.child(Role::Client, name, [at as u64, 0], stretch);
            let destinations = self.context.destinations;
            match name {
                "submit" => message(span, SpanKind::Producer, &destinations.submit),
                "answer" => message(span, SpanKind::Consumer, &destinations.answer),
                _ => span,
            }
        };
        stretches.into_iter().enumerate().map(span).collect()
    }

    /// A span of a slice.
    fn of_part(
        &self,
        role: Role,
        kind: &'static str,
        part: &Part,
        stretch: Stretch,
    ) -> FinishedSpan {
        let mut span = self.child(role, kind, [part.position, part.first], stretch);
        span.attributes.extend([
            number(names::GPU, u64::from(part.gpu)),
            number(names::EPOCH, part.epoch),
            number(names::POSITION, part.position),
            number(names::OP, part.first),
        ]);
        if role == Role::Worker {
            let device = part.gpu.to_string();
            span.attributes
                .extend([text(names::HW_ID, &device), text(names::HW_TYPE, "gpu")]);
        }
        span
    }

    fn child(
        &self,
        role: Role,
        kind: &'static str,
        part: [u64; 2],
        (start, end): Stretch,
    ) -> FinishedSpan {
        let (session, first) = (self.request.session, self.request.report.first);
        FinishedSpan {
            role,
            kind: SpanKind::of(role),
            name: kind.to_owned(),
            trace: self.id,
            span: self.context.ids.span(kind, session, first, part),
            parent: Some(self.root),
            is_remote: false,
            start,
            end,
            attributes: self.common(),
            events: Vec::new(),
            links: Vec::new(),
            error: None,
        }
    }

    fn common(&self) -> Attributes {
        vec![
            text(names::TENANT, self.request.tenant.as_str()),
            text(names::SESSION, &self.request.session.to_string()),
        ]
    }
}

/// Makes the span of a message from another one.
fn message(mut span: FinishedSpan, kind: SpanKind, destination: &str) -> FinishedSpan {
    let (operation, of_type) = match kind {
        SpanKind::Consumer => ("receive", "receive"),
        _ => ("publish", "send"),
    };
    span.kind = kind;
    span.attributes.extend([
        text(names::MESSAGING_SYSTEM, "nats"),
        text(names::MESSAGING_OPERATION, operation),
        text(names::MESSAGING_TYPE, of_type),
        text(names::MESSAGING_DESTINATION, destination),
    ]);
    span
}

/// The waits of slices, in nanoseconds by cause, and their sum.
fn waits<'a>(timings: impl IntoIterator<Item = &'a Timing>) -> Attributes {
    let (mut total, mut causes) = (0_u64, Vec::<(Cause, u64)>::new());
    for timing in timings {
        total = total.saturating_add(timing.waited_ns);
        for wait in &timing.waits {
            match causes.iter_mut().find(|(cause, _)| *cause == wait.cause) {
                Some((_, ns)) => *ns = ns.saturating_add(wait.ns),
                None => causes.push((wait.cause, wait.ns)),
            }
        }
    }
    let mut attributes = vec![number(names::WAIT_NS, total)];
    attributes.extend(causes.into_iter().map(|(cause, ns)| {
        let name = names::wait_cause_ns(cause.name());
        (Cow::Owned(name), Attribute::Number(ns))
    }));
    attributes
}

#[cfg(test)]
mod tests;
