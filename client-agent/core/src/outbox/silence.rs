//! The silence of broker, leader and worker while something was waited for.

use crate::event::Nanos;

/// How long those that are waited for have been silent.
#[derive(Debug, Default)]
pub(super) struct Silence {
    pub(super) looked: Nanos,
    pub(super) down: bool,
    pub(super) broker: Nanos,
    pub(super) leader: Nanos,
    pub(super) worker: Nanos,
    /// The silence of the leader at which it is asked next.
    pub(super) ask: Nanos,
}

impl Silence {
    pub(super) fn worker_heard(&mut self) {
        (self.worker, self.broker) = (0, 0);
    }

    pub(super) fn leader_heard(&mut self) {
        (self.leader, self.broker, self.ask) = (0, 0, 0);
    }

    /// The connection is up or down. What was silent before is not excused by that: a broker that
    /// comes and goes would hold a program for ever.
    pub(super) fn linked(&mut self, up: bool) {
        (self.down, self.ask) = (!up, 0);
    }

    /// Nobody is blamed any more.
    pub(super) fn forgive(&mut self) {
        *self = Self {
            looked: self.looked,
            down: self.down,
            ..Self::default()
        };
    }
}
