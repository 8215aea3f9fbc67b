//! Moves of sessions' memory: the real pager decides, and each move takes its time.

use std::time::Duration;

use bus_schemas::SessionId;
use device::Moved;
use gpu_worker_core::worker::Event;

use super::device::SimDevice;
use super::moves::Move;
use super::{MOVE, WorkerNode};
use crate::fact::WorkerFact;
use crate::node::Io;

const MIB: u64 = 1 << 20;

impl<D: SimDevice> WorkerNode<D> {
    /// Begins to move a session's memory, after the moves before it.
    pub(super) fn begin_move(&mut self, io: &mut Io, session: SessionId, out: bool) {
        let bytes = self.worker.resources().held(session);
        let took = self.options.swap_ns_per_mib.saturating_mul(bytes / MIB + 1);
        let ends = self.moves.begin(io.now, session, out, took);
        io.later(ends, MOVE);
    }

    /// Ends the moves that are over by now.
    pub(super) fn end_moves(&mut self, io: &mut Io) {
        let ended = self.moves.take_ended(io.now);
        let ended = ended.iter().filter_map(|ended| self.end_move(io, ended));
        let ended = ended.collect();
        self.event(io, None, Event::Moved(ended, None));
    }

    fn end_move(&self, io: &mut Io, ended: &Move) -> Option<Moved> {
        let (session, out) = (ended.session, ended.out);
        self.worker.tenant(session)?;
        let bytes = self.worker.resources().held(session);
        if out {
            self.fact(io, WorkerFact::Swapped { session, out });
        }
        let fact = WorkerFact::Moved {
            session,
            out,
            bytes,
        };
        self.fact(io, fact);
        Some(Moved {
            session,
            out,
            bytes,
            took: Duration::from_nanos(io.now - ended.began),
            resident: if out { 0 } else { bytes },
            failure: None,
        })
    }
}
