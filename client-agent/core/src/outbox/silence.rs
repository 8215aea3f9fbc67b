//! The silence of broker, leader and worker while the session waits for an answer.

use crate::event::Nanos;

/// Silence of the peers that the session waits for.
#[derive(Debug, Default)]
pub(super) struct Silence {
    pub(super) looked: Nanos,
    pub(super) down: bool,
    pub(super) broker: Nanos,
    pub(super) leader: Nanos,
    pub(super) worker: Nanos,
    /// The silence of the leader after which it is asked next.
    pub(super) ask: Nanos,
}

impl Silence {
    pub(super) fn worker_heard(&mut self) {
        (self.worker, self.broker) = (0, 0);
    }

    pub(super) fn leader_heard(&mut self) {
        (self.leader, self.broker, self.ask) = (0, 0, 0);
    }

    /// Notes that the connection is up or down. Earlier silence still counts: otherwise a broker
    /// that comes and goes would block a program forever.
    pub(super) fn linked(&mut self, up: bool) {
        (self.down, self.ask) = (!up, 0);
    }

    /// Forgets all silence so far.
    pub(super) fn forgive(&mut self) {
        *self = Self {
            looked: self.looked,
            down: self.down,
            ..Self::default()
        };
    }
}
