//! The shell of swapping: passes the pager's orders to the dispatch and the device, and their
//! results back.

use actix::{Context, Handler};
use bus_schemas::SessionId;
use device::{Moved, SwapUse};
use gpu_worker_core::dispatch;
use gpu_worker_core::pager::{self, MoveEnded, SwapAction};
use gpu_worker_core::sequencer::Event;

use super::actor::{GpuWorker, Incoming};
use super::device_command::Command;
use super::pager::{PagerMessage, SwapOrder};

impl Handler<SwapOrder> for GpuWorker {
    type Result = ();

    fn handle(&mut self, order: SwapOrder, ctx: &mut Context<Self>) {
        match order.0 {
            SwapAction::Out { session, busy_too } => self.on_swap_out(session, busy_too),
            SwapAction::In { session } => self.device.command(Command::SwapIn(session)),
            SwapAction::Returned { session } => {
                let returned = Event::Returned { session };
                self.handle_event(returned, &mut Incoming::Nothing);
                self.handle_dispatch(dispatch::Event::Returned { session });
            }
        }
        self.settle(ctx);
    }
}

impl GpuWorker {
    fn on_swap_out(&mut self, session: SessionId, busy_too: bool) {
        let running = self.held.get(&session).map_or(0, |held| held.started.len());
        if running > 0 && !busy_too {
            return self.pager.do_send(PagerMessage::Kept { session });
        }
        tracing::debug!(%session, running, "a session leaves the device");
        self.handle_dispatch(dispatch::Event::Leave { session, running });
    }

    /// Handles moves that have ended.
    pub(super) fn on_moved(&mut self, moves: Vec<Moved>, used: SwapUse) {
        for moved in &moves {
            let session = moved.session;
            if let Some(failure) = &moved.failure {
                tracing::warn!(%session, out = moved.out, %failure, "its memory could not be moved");
            } else {
                let (out, bytes, took) = (moved.out, moved.bytes, moved.took);
                tracing::debug!(%session, out, bytes, ?took, "its memory has moved");
                self.spans.moved(moved);
            }
            if moved.out && moved.failure.is_some() {
                // The session's memory stays in place.
                self.handle_dispatch(dispatch::Event::Returned { session });
            }
        }
        let ended = moves.iter().map(|moved| (ended(moved), moved.resident));
        let used = pager::SwapUse {
            memory: used.memory,
            file: used.file,
            moving: used.moving,
        };
        self.pager
            .do_send(PagerMessage::Moved(ended.collect(), used));
    }
}

fn ended(moved: &Moved) -> MoveEnded {
    MoveEnded {
        session: moved.session,
        out: moved.out,
        bytes: moved.bytes,
        took_ns: u64::try_from(moved.took.as_nanos()).unwrap_or(u64::MAX),
        failed: moved.failure.is_some(),
    }
}
