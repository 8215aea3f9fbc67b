//! The observer of a channel: traces, metrics and logs of what it does.

use async_nats::HeaderMap;
use bus_schemas::{EventTime, Failure, Op, OpNumber, Opened};

/// Called for what a channel does, under the channel's lock, on the
/// caller's thread. Who does not care about one of them leaves it out.
pub trait Observer: Send {
    /// The W3C `traceparent` that what follows is part of; none ends that.
    fn set_trace(&mut self, _traceparent: Option<&str>) {}

    /// An op was appended.
    #[inline]
    fn pushed(&mut self, _op: &Op, _number: OpNumber) {}

    /// Whether [`Observer::headers`] may have any.
    fn traced(&self) -> bool {
        false
    }

    /// Headers of a message whose first op is this.
    fn headers(&self, _op: OpNumber) -> Option<HeaderMap> {
        None
    }

    /// A batch of ops is sent for the first time.
    fn submitted(&mut self, _opened: &Opened, _first: OpNumber, _last: OpNumber) {}

    /// An op was answered.
    fn answered(&mut self, _op: OpNumber, _opened: &Opened) {}

    /// The answer that comes next says when timed events were reached: of each recorded since the
    /// answer before, its last time.
    fn timed(&mut self, _times: &[EventTime]) {}

    /// The session failed.
    fn failed(&mut self, _failure: &Failure, _opened: &Opened) {}
}

/// Nobody looks on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
