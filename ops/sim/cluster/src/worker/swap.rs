//! Swapping: the real pager decides, and moves take their time.

use bus_schemas::{Residency, SessionId};
use gpu_worker_core::dispatch;
use gpu_worker_core::pager::{MoveEnded, SwapAction};
use gpu_worker_core::sequencer::Event;

use super::device::SimDevice;
use super::moves::Move;
use super::{SWAP, WorkerNode};
use crate::fact::WorkerFact;
use crate::node::Io;
use crate::{MILLI, Nanos};

/// Interval between looks at the sessions that wait for memory, to see if one has waited long enough.
const LOOK: Nanos = 20 * MILLI;
const MIB: u64 = 1 << 20;

impl<D: SimDevice> WorkerNode<D> {
    /// Carries out the pager's actions on sessions' memory.
    pub(super) fn swap(&mut self, io: &mut Io) {
        loop {
            let actions = self.resources.swap_actions(io.now);
            if actions.is_empty() {
                break;
            }
            for action in actions {
                self.swap_action(io, action);
            }
        }
        if self.resources.has_wants() && !std::mem::replace(&mut self.moves.looks, true) {
            io.later(io.now + LOOK, SWAP);
        }
    }

    fn swap_action(&mut self, io: &mut Io, action: SwapAction) {
        match action {
            SwapAction::Out { session, busy_too } => {
                let running = self.sessions.get(&session).map_or(0, |it| it.started) as usize;
                if running > 0 && !busy_too {
                    self.resources.kept(io.now, session);
                } else {
                    self.tell_dispatch(io, dispatch::Event::Leave { session, running });
                }
            }
            SwapAction::In { session } => {
                let out = false;
                self.fact(io, WorkerFact::Swapped { session, out });
                self.begin_move(io, session, out);
            }
            SwapAction::Returned { session } => {
                self.event(io, None, Event::Returned { session });
                self.tell_dispatch(io, dispatch::Event::Returned { session });
            }
        }
    }

    /// Begins to move a session's memory, after the moves before it.
    pub(super) fn begin_move(&mut self, io: &mut Io, session: SessionId, out: bool) {
        let bytes = self.resources.held(session);
        let last = self.moves.moves.last().map_or(io.now, |last| last.ends);
        let took = self.moves.ns_per_mib.saturating_mul(bytes / MIB + 1);
        let ends = last.max(io.now) + took;
        self.moves.moves.push(Move {
            session,
            out,
            began: io.now,
            ends,
        });
        io.later(ends, SWAP);
    }

    /// Ends the moves that are over by now.
    pub(super) fn end_moves(&mut self, io: &mut Io) {
        self.moves.looks = false;
        let (ended, left) = std::mem::take(&mut self.moves.moves)
            .into_iter()
            .partition(|it| it.ends <= io.now);
        self.moves.moves = left;
        let ended: Vec<Move> = ended;
        for ended in ended {
            if !self.sessions.contains_key(&ended.session) {
                continue;
            }
            let bytes = self.resources.held(ended.session);
            let resident = if ended.out { 0 } else { bytes };
            let moved = MoveEnded {
                session: ended.session,
                out: ended.out,
                bytes,
                took_ns: io.now - ended.began,
                failed: false,
            };
            let session = ended.session;
            if ended.out {
                self.fact(io, WorkerFact::Swapped { session, out: true });
            }
            let out = ended.out;
            let fact = WorkerFact::Moved {
                session,
                out,
                bytes,
            };
            self.fact(io, fact);
            let answer = self.resources.moved(io.now, &moved, resident);
            self.admitted(io, answer);
        }
        self.work(io);
        self.set_wake(io);
    }

    /// The residency report for the next heartbeat.
    pub(super) fn residency(&mut self) -> Option<Residency> {
        let report = self.resources.residency_report()?;
        self.sent.2.next(report)
    }
}
