//! A program's requests, for its metrics: each lasts from the first op after the previous wait to the answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bus_schemas::{Failure, Op, OpNumber, Opened, Tenant};
use client_session::Observer;

use super::evidence::Evidence;

use telemetry::{Telemetry, TenantMeters};

/// One request.
#[derive(Debug, Clone, Copy)]
struct Request {
    began: Instant,
    last: OpNumber,
}

/// A session's requests. An op costs a branch; the clock is read once per request.
pub(super) struct Requests {
    meters: Arc<TenantMeters>,
    evidence: Option<Arc<Evidence>>,
    /// The request that has no wait yet.
    open: Option<Request>,
    /// Requests that the program waits for, in order.
    waited: VecDeque<Request>,
}

impl Requests {
    pub(super) fn new(
        telemetry: &Telemetry,
        tenant: &Tenant,
        evidence: Option<Arc<Evidence>>,
    ) -> Self {
        Self {
            meters: telemetry.meters().tenant(tenant),
            evidence,
            open: None,
            waited: VecDeque::new(),
        }
    }

    #[cold]
    fn begin(number: OpNumber) -> Request {
        Request {
            began: Instant::now(),
            last: number,
        }
    }
}

impl Observer for Requests {
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
            self.open = Some(Self::begin(number));
        }
        if let Some(open) = &mut self.open {
            open.last = number;
        }
        if waits {
            self.waited.extend(self.open.take());
        }
    }

    fn submitted(&mut self, opened: &Opened, first: OpNumber, last: OpNumber) {
        if let Some(evidence) = &self.evidence {
            evidence.submitted(opened.session, opened.ordinal, first, last);
        }
    }

    fn answered(&mut self, op: OpNumber, _: &Opened) {
        let end = Instant::now();
        while let Some(request) = self.waited.pop_front_if(|request| request.last <= op) {
            self.meters
                .request(end.saturating_duration_since(request.began));
        }
    }

    fn failed(&mut self, _: &Failure, _: &Opened) {
        self.waited.clear();
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
            traced: false,
        };
        let tenant = "a".parse().expect("a name");
        (Requests::new(&Telemetry::off(), &tenant, None), opened)
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
        assert_eq!(requests.open.map(|open| open.last), Some(8));
    }
}
