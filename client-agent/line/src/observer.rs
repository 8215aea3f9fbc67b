//! Who looks on while a line works.

use async_nats::HeaderMap;
use bus_schemas::{EventTime, Failure, Op, OpNumber, Opened};

/// Is told what a line does: for traces, metrics and logs. Called under the line's lock, on the
/// caller's thread.
pub trait Observer: Send {
    /// The W3C `traceparent` that what follows is part of; none ends that.
    fn set_trace(&mut self, traceparent: Option<&str>);

    /// An op was appended.
    fn pushed(&mut self, op: &Op, number: OpNumber);

    /// Whether [`Observer::headers`] may have any.
    fn traced(&self) -> bool;

    /// Headers of a message whose first op is `op`.
    fn headers(&self, op: OpNumber) -> Option<HeaderMap>;

    /// A batch of ops is sent for the first time.
    fn submitted(&mut self, opened: &Opened, first: OpNumber, last: OpNumber);

    /// Op `op` was answered.
    fn answered(&mut self, op: OpNumber, opened: &Opened);

    /// The answer that comes next told when timed events were reached: of each recorded since the
    /// answer before, its last time.
    fn timed(&mut self, _times: &[EventTime]) {}

    /// The session failed.
    fn failed(&mut self, failure: &Failure, opened: &Opened);
}

/// Nobody looks on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn set_trace(&mut self, _: Option<&str>) {}

    #[inline]
    fn pushed(&mut self, _: &Op, _: OpNumber) {}

    fn traced(&self) -> bool {
        false
    }

    fn headers(&self, _: OpNumber) -> Option<HeaderMap> {
        None
    }

    fn submitted(&mut self, _: &Opened, _: OpNumber, _: OpNumber) {}

    fn answered(&mut self, _: OpNumber, _: &Opened) {}

    fn failed(&mut self, _: &Failure, _: &Opened) {}
}
