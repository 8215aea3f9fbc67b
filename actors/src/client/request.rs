//! A program's requests, for the spans: each lasts from the first op after the previous wait to the
//! answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use async_nats::HeaderMap;
use bus_schemas::{Failure, Op, OpNumber, Opened, Tenant};
use client_session::Observer;

use super::evidence::Evidence;

use telemetry::{Span, SpanId, SpanName, Telemetry, TenantMeters, TraceContext};

/// One request.
#[derive(Debug, Clone, Copy)]
struct Request {
    context: Option<TraceContext>,
    /// The program's own span, if it has one.
    parent: Option<SpanId>,
    began: Instant,
    first: OpNumber,
    last: OpNumber,
    launches: u64,
}

/// A session's requests. An op costs a branch and a count; the clock is read once per request.
pub(super) struct Requests {
    telemetry: Telemetry,
    meters: Arc<TenantMeters>,
    evidence: Option<Arc<Evidence>>,
    tenant: Tenant,
    parent: Option<TraceContext>,
    /// The request that has no wait yet.
    open: Option<Request>,
    /// Requests that the program waits for, in order.
    waited: VecDeque<Request>,
}

impl Requests {
    pub(super) fn new(
        telemetry: Telemetry,
        tenant: &Tenant,
        evidence: Option<Arc<Evidence>>,
    ) -> Self {
        Self {
            meters: telemetry.meters().tenant(tenant),
            telemetry,
            evidence,
            tenant: tenant.clone(),
            parent: None,
            open: None,
            waited: VecDeque::new(),
        }
    }

    #[cold]
    fn begin(&self, first: OpNumber) -> Request {
        // A client that does not trace itself passes the program's own span on.
        let context = match self.telemetry.tracing() {
            true => self.telemetry.request(self.parent),
            false => self.parent,
        };
        Request {
            context,
            parent: self.parent.map(|parent| parent.span),
            began: Instant::now(),
            first,
            last: first,
            launches: 0,
        }
    }

    /// Returns the span of the message that begins with `op`.
    pub(super) fn context(&self, op: OpNumber) -> Option<TraceContext> {
        let mut requests = self.waited.iter().chain(&self.open);
        let holder = requests.rfind(|it| it.first <= op && op <= it.last);
        holder.and_then(|request| request.context)
    }

    fn finish(&self, request: &Request, end: Instant, opened: &Opened, error: Option<&str>) {
        if let Some(context) = request.context
            && self.telemetry.tracing()
        {
            self.telemetry.finish(&Span {
                name: SpanName::Request,
                context,
                parent: request.parent,
                start: request.began,
                end,
                tenant: self.tenant.as_str(),
                session: opened.session,
                gpu: Some(opened.gpu),
                epoch: 0,
                position: 0,
                ops: request.last - request.first + 1,
                launches: request.launches,
                device_ns: 0,
                error,
            });
        }
    }
}

impl Observer for Requests {
    fn set_trace(&mut self, traceparent: Option<&str>) {
        let parent = traceparent.and_then(|text| text.parse::<TraceContext>().ok());
        self.parent = parent.filter(|parent| parent.sampled);
    }

    #[inline]
    fn pushed(&mut self, op: &Op, number: OpNumber) {
        let waits = op.has_result();
        if self.open.is_none() {
            // A wait right after an unanswered one belongs to the same request, as for the pieces
            // of one copy.
            if waits && let Some(waited) = self.waited.back_mut() {
                waited.last = number;
                return;
            }
            self.open = Some(self.begin(number));
        }
        if let Some(open) = &mut self.open {
            open.last = number;
            open.launches += u64::from(matches!(op, Op::Launch(_)));
        }
        if waits {
            self.waited.extend(self.open.take());
        }
    }

    fn traced(&self) -> bool {
        self.parent.is_some() || self.telemetry.tracing()
    }

    fn headers(&self, op: OpNumber) -> Option<HeaderMap> {
        self.context(op).map(|context| context.headers())
    }

    fn submitted(&mut self, opened: &Opened, first: OpNumber, last: OpNumber) {
        if let Some(evidence) = &self.evidence {
            evidence.submitted(opened.session, opened.ordinal, first, last);
        }
    }

    fn answered(&mut self, op: OpNumber, opened: &Opened) {
        let end = Instant::now();
        while let Some(request) = self.waited.pop_front_if(|request| request.last <= op) {
            self.meters
                .request(end.saturating_duration_since(request.began));
            self.finish(&request, end, opened, None);
        }
    }

    fn failed(&mut self, failure: &Failure, opened: &Opened) {
        let end = Instant::now();
        for request in std::mem::take(&mut self.waited) {
            self.finish(&request, end, opened, Some(failure.code.name()));
        }
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::Window;

    use super::*;

    fn requests() -> (Requests, Opened) {
        let opened = Opened {
            session: Default::default(),
            ordinal: 1,
            incarnation: Default::default(),
            gpu: 0,
            window: Window { base: 0, size: 0 },
            quota: 0,
            epoch: 1,
            leader: Default::default(),
            properties: None,
        };
        let tenant = "a".parse().expect("a name");
        (Requests::new(Telemetry::off(), &tenant, None), opened)
    }

    const ALLOC: Op = Op::Free { address: 0 };
    const OUT: Op = Op::CopyOut {
        address: 0,
        bytes: 1,
    };

    #[test]
    fn a_request_ends_with_its_wait_and_pieces_of_a_copy_are_one() {
        let (mut requests, opened) = requests();
        let ops = [ALLOC, ALLOC, Op::Sync, ALLOC, OUT, OUT, OUT, ALLOC];
        for (number, op) in (1..).zip(&ops) {
            requests.pushed(op, number);
        }
        let count = |it: &Requests| it.meters.requests().count();
        requests.answered(2, &opened);
        assert_eq!(count(&requests), 0);
        requests.answered(3, &opened);
        assert_eq!(count(&requests), 1);
        requests.answered(6, &opened);
        assert_eq!(count(&requests), 1);
        requests.answered(7, &opened);
        assert_eq!((count(&requests), requests.waited.len()), (2, 0));
        assert_eq!(requests.open.map(|open| open.first), Some(8));
    }

    #[test]
    fn a_message_belongs_to_the_request_of_its_op() {
        let (mut requests, opened) = requests();
        let span = |n: u8| TraceContext {
            trace: telemetry::TraceId([n; 16]),
            span: SpanId([n; 8]),
            sampled: true,
        };
        assert!(!requests.traced());
        requests.set_trace(Some(&span(1).traceparent()));
        requests.pushed(&ALLOC, 1);
        requests.pushed(&Op::Sync, 2);
        requests.set_trace(Some(&span(2).traceparent()));
        requests.pushed(&ALLOC, 3);
        requests.set_trace(None);
        requests.pushed(&Op::Sync, 4);
        requests.pushed(&ALLOC, 5);
        let contexts = [0, 1, 2, 3, 4, 5, 6].map(|op| requests.context(op));
        let (one, two) = (Some(span(1)), Some(span(2)));
        assert_eq!(contexts, [None, one, one, two, two, None, None]);
        requests.failed(&Failure::new(bus_schemas::Code::Protocol, ""), &opened);
        assert_eq!(requests.context(1), None);
    }
}
