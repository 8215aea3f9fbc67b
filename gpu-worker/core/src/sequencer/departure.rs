//! The end of the worker.

use crate::Nanos;

/// The way of a worker from draining to its exit.
#[derive(Debug, Default)]
pub(super) struct Departure {
    /// Time since which it drains and has no work.
    since: Option<Nanos>,
    /// True if the current leader has noted that it leaves.
    noted: bool,
    exited: bool,
}

impl Departure {
    /// Begins to drain. Returns false if the worker drains already.
    pub(super) fn begin(&mut self, now: Nanos) -> bool {
        let begins = self.since.is_none();
        self.since.get_or_insert(now);
        begins
    }

    /// Time since which the worker drains and has no work.
    pub(super) fn since(&self) -> Option<Nanos> {
        self.since
    }

    /// True if the worker drains.
    pub(super) fn is_draining(&self) -> bool {
        self.since.is_some()
    }

    /// Notes that the worker has work. The wait for silent peers counts from its end.
    pub(super) fn note_work(&mut self, now: Nanos) {
        self.since = Some(now);
    }

    /// Notes that the current leader knows of it.
    pub(super) fn note(&mut self) {
        self.noted = true;
    }

    /// Begins an epoch: its leader does not know of it.
    pub(super) fn begin_epoch(&mut self) {
        self.noted = false;
    }

    /// True if the current leader knows of it.
    pub(super) fn is_noted(&self) -> bool {
        self.noted
    }

    /// Ends the worker.
    pub(super) fn exit(&mut self) {
        self.exited = true;
    }

    /// True if the worker has ended.
    pub(super) fn is_over(&self) -> bool {
        self.exited
    }
}
