//! The observer of a channel: metrics and logs of its work.

use bus_schemas::{EventTime, Failure, Op, OpNumber, Opened};

/// Called for the work of a channel, under the channel's lock, on the caller's thread. All methods
/// have default bodies, so an observer implements only those that it needs.
pub trait Observer: Send {
    /// An op was appended.
    #[inline]
    fn pushed(&mut self, _op: &Op, _number: OpNumber) {}

    /// A batch of ops is sent for the first time.
    fn submitted(&mut self, _opened: &Opened, _first: OpNumber, _last: OpNumber) {}

    /// An op was answered.
    fn answered(&mut self, _op: OpNumber, _opened: &Opened) {}

    /// Reports the times of timed events, before the answer that brought them: for each event
    /// recorded since the previous answer, its last time.
    fn timed(&mut self, _times: &[EventTime]) {}

    /// The session failed.
    fn failed(&mut self, _failure: &Failure, _opened: &Opened) {}
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}
