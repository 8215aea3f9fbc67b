//! The worker's `execute` spans and their times: one for every slice that ran.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bus_schemas::{GpuId, GpuPosition, OpNumber, SessionId, Tenant};
use device::{Completion, Moved};
use gpu_worker_core::sequencer::StartAction;

use telemetry::{Span, SpanName, Telemetry, TenantMeters, TraceContext, Trail};

/// Trace data of a session.
struct Traced {
    tenant: Tenant,
    meters: Arc<TenantMeters>,
    trail: Trail,
}

/// The spans of one worker.
pub(super) struct Spans {
    telemetry: Telemetry,
    gpu: GpuId,
    sessions: HashMap<SessionId, Traced>,
    /// Running slices, by position.
    running: VecDeque<(StartAction, Instant)>,
    /// The span to which the current message belongs.
    context: Option<TraceContext>,
}

impl Spans {
    pub(super) fn new(telemetry: Telemetry, gpu: GpuId) -> Self {
        Self {
            telemetry,
            gpu,
            sessions: HashMap::new(),
            running: VecDeque::new(),
            context: None,
        }
    }

    /// Notes the span of a received message.
    pub(super) fn received(&mut self, message: &async_nats::Message) {
        self.context = match self.telemetry.tracing() {
            true => TraceContext::extract(message.headers.as_ref()),
            false => None,
        };
    }

    pub(super) fn opened(&mut self, session: SessionId, tenant: &Tenant) {
        let traced = Traced {
            tenant: tenant.clone(),
            meters: self.telemetry.meters().tenant(tenant),
            trail: Trail::default(),
        };
        self.sessions.insert(session, traced);
    }

    pub(super) fn ended(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.running.retain(|(start, _)| start.session != session);
    }

    /// Notes ops that were kept of the current message.
    pub(super) fn kept(&mut self, session: SessionId, first: OpNumber, count: u32) {
        if self.context.is_some()
            && count > 0
            && let Some(traced) = self.sessions.get_mut(&session)
        {
            let last = first.saturating_add(u64::from(count) - 1);
            let context = self.context;
            traced.trail.received(first, last, context, Instant::now());
        }
    }

    pub(super) fn started(&mut self, start: StartAction) {
        self.running.push_back((start, Instant::now()));
    }

    /// Ends the span of a completed slice.
    pub(super) fn completed(&mut self, completion: &Completion) {
        let Some((start, started)) = self.take(completion.position) else {
            return;
        };
        let began = completion.began.unwrap_or(started);
        let Some(traced) = self.sessions.get_mut(&completion.session) else {
            return;
        };
        let end = Instant::now();
        let time = end.saturating_duration_since(began);
        traced.meters.execute(self.gpu, time);
        let context = traced.trail.of(start.first).and_then(|mark| mark.context);
        if let Some(parent) = context {
            let fault = completion.fault.as_ref();
            let last = fault.map_or(start.last, |(op, _)| (*op).clamp(start.first, start.last));
            let span = Span {
                name: SpanName::Execute,
                context: parent,
                parent: None,
                start: began,
                end,
                tenant: traced.tenant.as_str(),
                session: start.session,
                gpu: Some(self.gpu),
                epoch: start.epoch,
                position: start.position,
                ops: last - start.first + 1,
                launches: completion.launches,
                device_ns: completion.device_ns,
                error: fault.map(|(_, failure)| failure.code.name()),
            };
            self.telemetry.finish_child(parent, span);
        }
        traced.trail.through(start.last).for_each(drop);
    }

    /// Reports a move of a session's memory.
    pub(super) fn moved(&self, moved: &Moved) {
        let Some(traced) = self.sessions.get(&moved.session) else {
            return;
        };
        let (bytes, took) = (moved.bytes, moved.took);
        traced.meters.moved(self.gpu, moved.out, bytes, took);
        let waits = traced.trail.first().filter(|_| !moved.out);
        let Some(parent) = waits.and_then(|mark| mark.context) else {
            return;
        };
        let end = Instant::now();
        let span = Span {
            name: SpanName::Swap,
            context: parent,
            parent: None,
            start: end.checked_sub(took).unwrap_or(end),
            end,
            tenant: traced.tenant.as_str(),
            session: moved.session,
            gpu: Some(self.gpu),
            epoch: 0,
            position: 0,
            ops: 0,
            launches: 0,
            device_ns: 0,
            error: None,
        };
        self.telemetry.finish_child(parent, span);
    }

    fn take(&mut self, position: GpuPosition) -> Option<(StartAction, Instant)> {
        let mut slices = self.running.iter();
        let index = slices.position(|(start, _)| start.position == position)?;
        self.running.remove(index)
    }
}
