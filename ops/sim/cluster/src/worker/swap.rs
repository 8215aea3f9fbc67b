//! Moves of sessions' memory: the real pager decides, and each move takes its time.

use std::time::Duration;

use bus_schemas::{Code, ExportPlace, Failure, SessionId};
use device::Moved;
use gpu_worker_core::exports::DeviceAction;
use gpu_worker_core::worker::Event;

use super::buffers::SimBuffers;
use super::device::SimDevice;
use super::moves::Move;
use super::{MOVE, WorkerNode};
use crate::fact::WorkerFact;
use crate::node::Io;

const MIB: u64 = 1 << 20;

impl<D: SimDevice> WorkerNode<D> {
    /// Begins to move a session's memory off the device. A device refuses this for a session that shares
    /// memory.
    pub(super) fn begin_leave(
        &mut self,
        io: &mut Io,
        session: SessionId,
    ) -> Option<Event<'static, SimBuffers<D>>> {
        if !self.device.shares(session) {
            self.begin_move(io, session, true);
            return None;
        }
        let resident = self.worker.resources().held(session);
        let why = "a session that shares memory with others stays on the device";
        let refused = Moved {
            session,
            out: true,
            bytes: 0,
            took: Duration::ZERO,
            resident,
            failure: Some(Failure::new(Code::NotPinned, why)),
        };
        Some(Event::Moved(vec![refused], None))
    }

    /// Acts on memory that sessions share. A device refuses this to a session with memory elsewhere.
    pub(super) fn exchange(
        &mut self,
        io: &mut Io,
        session: SessionId,
        action: DeviceAction,
    ) -> Result<Option<ExportPlace>, Failure> {
        if self.moves.is_away(session) {
            let why = "the session's memory is being moved";
            return Err(Failure {
                retryable: true,
                ..Failure::new(Code::NotPinned, why)
            });
        }
        self.device.exchange(io, session, action)
    }

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
