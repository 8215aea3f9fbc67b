//! Moves of sessions' memory in progress, one after the other.

use std::collections::BTreeSet;

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
pub(super) struct Moves {
    moves: Vec<Move>,
    /// Sessions with memory that is not on the device, or not all of it.
    away: BTreeSet<SessionId>,
}

impl Moves {
    /// Begins a move behind those before it. Returns the time at which it ends.
    pub(super) fn begin(
        &mut self,
        now: Nanos,
        session: SessionId,
        out: bool,
        took: Nanos,
    ) -> Nanos {
        let last = self.moves.last().map_or(now, |last| last.ends);
        let ends = last.max(now) + took;
        self.away.insert(session);
        self.moves.push(Move {
            session,
            out,
            began: now,
            ends,
        });
        ends
    }

    /// Drops the moves of a session that has left the device.
    pub(super) fn drop_of(&mut self, session: SessionId) {
        self.moves.retain(|it| it.session != session);
        self.away.remove(&session);
    }

    /// True if the memory of a session is not on the device, or not all of it.
    pub(super) fn is_away(&self, session: SessionId) -> bool {
        self.away.contains(&session)
    }

    /// Takes the moves that are over by now.
    pub(super) fn take_ended(&mut self, now: Nanos) -> Vec<Move> {
        let moves = std::mem::take(&mut self.moves).into_iter();
        let (ended, left): (Vec<_>, Vec<_>) = moves.partition(|it| it.ends <= now);
        self.moves = left;
        for ended in ended.iter().filter(|it| !it.out) {
            self.away.remove(&ended.session);
        }
        ended
    }
}
