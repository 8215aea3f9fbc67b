//! The shell of the dispatch: its view of a session, and the performance of its actions.

use std::sync::Arc;

use actix::{Context, Handler};
use bus_schemas::{Failure, Launch, ModuleHash, Op, OpRef, SessionId};
use device::{OpSpan, Slice};
use gpu_worker_core::dispatch::{
    Action, Event, ImageState, LaunchNeeds, ModuleBytes, SessionReader, StagedCopy, Submission,
    TransferState,
};
use gpu_worker_core::{ImageTable, Sequencer};

use super::actor::GpuWorker;
use super::device_command::Command;
use super::names::{Module, Names};
use super::pager::{Admitted, PagerMessage};
use super::session_buffers::{SessionBuffers, Staging};

/// Charged cost up to which a slice is small, nanoseconds.
const SMALL_NS: u64 = 40_000;

impl Handler<Admitted> for GpuWorker {
    type Result = ();

    fn handle(&mut self, admitted: Admitted, ctx: &mut Context<Self>) {
        self.handle_dispatch(Event::Admitted(admitted.0));
        self.settle(ctx);
    }
}

impl GpuWorker {
    /// Hands an event to the dispatch and performs its actions.
    pub(super) fn handle_dispatch(&mut self, event: Event<Vec<OpSpan>>) {
        self.dispatch.handle(event);
        while let Some(action) = self.next_action() {
            match action {
                Action::Ask(claim) => self.pager.do_send(PagerMessage::Admit(claim)),
                Action::Withdraw { session } => {
                    self.pager.do_send(PagerMessage::Withdraw { session })
                }
                Action::Submit(submission) => self.submit(submission),
                Action::SwapOut { session } => self.device.command(Command::SwapOut(session)),
                Action::Want { session, priority } => {
                    self.pager.do_send(PagerMessage::Want { session, priority });
                }
            }
        }
    }

    fn next_action(&mut self) -> Option<Action<Vec<OpSpan>>> {
        let (held, images) = (&self.held, &self.images);
        let (names, core) = (&self.names, &self.core);
        self.dispatch.next_action(|session| {
            Some(View {
                session,
                held: held.get(&session)?,
                images,
                names,
                core,
            })
        })
    }

    /// Moves the transfers that a slice uses into it, and submits it to the device.
    fn submit(&mut self, submission: Submission<Vec<OpSpan>>) {
        let start = submission.start;
        let mut transfers = Vec::new();
        let is_launch = |op: OpRef<'_>| matches!(op.op, Op::Launch(_));
        let launches = |span: &OpSpan| span.ops().iter().any(is_launch);
        let launches = submission.ops.iter().any(launches).then(|| self.now());
        if let Some(held) = self.held.get_mut(&start.session) {
            held.submitted(start.first, submission.declared, launches);
            for (_, touch) in submission.touched {
                self.weights.touch(start.session, &held.tenant, touch);
            }
            for StagedCopy { transfer, .. } in submission.copies {
                if let Some(Staging::Whole(staged)) = held.transfers.remove(&transfer) {
                    transfers.push((transfer, staged));
                }
            }
        }
        self.settle_slots(start.session, submission.loaded, submission.left);
        self.small = start.cost <= SMALL_NS;
        self.device.command(Command::Submit(Slice {
            position: start.position,
            session: start.session,
            priority: start.priority,
            first: start.first,
            spans: submission.ops,
            transfers,
            fail_at: submission.fail_at,
            launch_bytes: submission.launch_bytes,
        }));
    }
}

/// A session as seen by the dispatch.
struct View<'a> {
    session: SessionId,
    held: &'a SessionBuffers,
    images: &'a ImageTable<Arc<Module>>,
    names: &'a Names,
    core: &'a Sequencer,
}

impl SessionReader for View<'_> {
    type Ops = Vec<OpSpan>;
    type Module = Arc<Module>;

    fn ops(&self, ops: &Vec<OpSpan>) -> impl Iterator<Item = Op> {
        let ops = ops.iter().flat_map(|span| span.ops().iter());
        ops.map(|op| op.op)
    }

    fn transfer(&self, transfer: u64) -> TransferState {
        match self.held.transfers.get(&transfer) {
            Some(Staging::Whole(staged)) => TransferState::Whole(staged.len() as u64),
            Some(Staging::Filling(_) | Staging::Finishing(_) | Staging::Keeping) => {
                TransferState::Coming
            }
            None => TransferState::Gone,
        }
    }

    fn fingerprint(&self, transfer: u64) -> Option<u64> {
        match self.held.transfers.get(&transfer)? {
            Staging::Whole(staged) => Some(staged.fingerprint()),
            Staging::Filling(_) | Staging::Finishing(_) | Staging::Keeping => None,
        }
    }

    fn image(&self, hash: ModuleHash) -> ImageState<Arc<Module>> {
        match self.images.state(&self.held.tenant, hash) {
            // The worker acknowledged all of it, and the client went on.
            ImageState::Unknown if self.held.is_finishing(hash) => ImageState::Preparing,
            state => state,
        }
    }

    fn has_image(&self, hash: ModuleHash) -> bool {
        self.images.has(self.session, hash)
    }

    fn denied(&self, hash: ModuleHash, others: &[ModuleHash]) -> Option<Failure> {
        let most = self.core.modules_most(self.session);
        self.images.denied(&self.held.tenant, hash, others, most)
    }

    fn module_bytes(&self, module: &Arc<Module>) -> ModuleBytes {
        module.bytes()
    }

    fn kernel(&self, module: &Arc<Module>, launch: &Launch) -> Option<LaunchNeeds> {
        let kernel = module.kernel(launch)?;
        self.names
            .note(kernel.key, || module.name(kernel.key, launch));
        Some(kernel)
    }
}
