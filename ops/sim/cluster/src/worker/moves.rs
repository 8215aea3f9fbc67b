//! Moves of sessions' memory in progress, one after the other.

use bus_schemas::SessionId;

use crate::Nanos;

/// The move of a session's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Move {
    pub(super) session: SessionId,
    pub(super) out: bool,
    pub(super) began: Nanos,
    pub(super) ends: Nanos,
}

/// The moves of a worker.
#[derive(Debug, Default)]
pub(super) struct Moves(Vec<Move>);

impl Moves {
    /// Begins a move behind those before it. Returns the time at which it ends.
    pub(super) fn begin(
        &mut self,
        now: Nanos,
        session: SessionId,
        out: bool,
        took: Nanos,
    ) -> Nanos {
        let last = self.0.last().map_or(now, |last| last.ends);
        let ends = last.max(now) + took;
        self.0.push(Move {
            session,
            out,
            began: now,
            ends,
        });
        ends
    }

    /// Drops the moves of a session that has left the device.
    pub(super) fn drop_of(&mut self, session: SessionId) {
        self.0.retain(|it| it.session != session);
    }

    /// Takes the moves that are over by now.
    pub(super) fn take_ended(&mut self, now: Nanos) -> Vec<Move> {
        let moves = std::mem::take(&mut self.0).into_iter();
        let (ended, left) = moves.partition(|it| it.ends <= now);
        self.0 = left;
        ended
    }
}
