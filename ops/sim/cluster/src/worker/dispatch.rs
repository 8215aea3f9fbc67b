//! The real dispatch and the real resources: the path of a started slice to the device.

use std::collections::BTreeMap;

use bus_schemas::{Failure, Launch, ModuleHash, Op, SessionId};
use gpu_worker_core::Sequencer;
use gpu_worker_core::dispatch::{
    Action, ClaimAnswer, Event, ImageState, LaunchNeeds, ModuleBytes, SessionReader, Submission,
    TransferState,
};
use gpu_worker_core::images::ImageTable;

use super::device::{SimDevice, SimSlice};
use super::{Kept, WorkerNode};
use crate::fact::WorkerFact;
use crate::node::Io;

impl<D: SimDevice> WorkerNode<D> {
    /// Passes an event to the dispatch, and carries out its actions.
    pub(super) fn tell_dispatch(&mut self, io: &mut Io, event: Event<Vec<D::Op>>) {
        self.dispatch.handle(event);
        loop {
            let (sessions, images) = (&self.sessions, &self.images);
            let core = &self.core;
            let look = |session| {
                let place = sessions.get(&session)?;
                Some(View::<D> {
                    session,
                    place,
                    images,
                    core,
                })
            };
            match self.dispatch.next_action(look) {
                Some(Action::Ask(mut claim)) => {
                    self.device.bend_claim(&mut claim);
                    let answer = self.resources.ask(claim);
                    self.admitted(io, answer);
                }
                Some(Action::Withdraw { session }) => self.resources.withdraw(session),
                Some(Action::Submit(submission)) => self.submit(io, submission),
                Some(Action::SwapOut { session }) => self.begin_move(io, session, true),
                Some(Action::Want { session, priority }) => {
                    self.resources.want(io.now, session, priority);
                }
                None => return,
            }
        }
    }

    /// Continues waiting work after something has ended or become ready.
    pub(super) fn hand_on(&mut self, io: &mut Io) {
        self.tell_dispatch(io, Event::Changed);
    }

    /// Passes on the answer to the open claim, if there is one.
    pub(super) fn admitted(&mut self, io: &mut Io, answer: Option<ClaimAnswer>) {
        let Some(answer) = answer else {
            return;
        };
        if let Some((op, _)) = &answer.refused {
            let (session, op) = (answer.session, *op);
            self.fact(io, WorkerFact::Denied { session, op });
        }
        self.dispatch.handle(Event::Admitted(answer));
    }

    /// Moves the transfers that a slice uses into it, and hands it to the device.
    fn submit(&mut self, io: &mut Io, submission: Submission<Vec<D::Op>>) {
        let mut staged = BTreeMap::new();
        if let Some(place) = self.sessions.get_mut(&submission.start.session) {
            for copy in &submission.copies {
                let transfer = place.transfers.remove(&copy.transfer);
                staged.extend(transfer.map(|transfer| (copy.transfer, transfer.bytes)));
            }
        }
        let session = submission.start.session;
        self.settle_slots(session, &submission.loaded, &submission.left);
        self.device.submit(io, SimSlice { submission, staged });
    }
}

/// A session as the dispatch sees it. On the modelled device a module has any number of functions, and
/// their blocks take no memory.
struct View<'a, D: SimDevice> {
    session: SessionId,
    place: &'a Kept<D::Op>,
    images: &'a ImageTable<ModuleHash>,
    core: &'a Sequencer,
}

impl<D: SimDevice> SessionReader for View<'_, D> {
    type Ops = Vec<D::Op>;
    type Module = ModuleHash;

    fn ops(&self, ops: &Vec<D::Op>) -> impl Iterator<Item = Op> {
        ops.iter().take_while(|_| D::LOOKS).map(D::op)
    }

    fn transfer(&self, transfer: u64) -> TransferState {
        match self.place.transfers.get(&transfer) {
            Some(staged) if staged.whole => TransferState::Whole(staged.bytes.len() as u64),
            Some(_) => TransferState::Coming,
            None => TransferState::Gone,
        }
    }

    fn fingerprint(&self, _: u64) -> Option<u64> {
        None
    }

    fn image(&self, hash: ModuleHash) -> ImageState<ModuleHash> {
        self.images.state(&self.place.tenant, hash)
    }

    fn has_image(&self, hash: ModuleHash) -> bool {
        self.images.has(self.session, hash)
    }

    fn denied(&self, hash: ModuleHash, others: &[ModuleHash]) -> Option<Failure> {
        let most = self.core.modules_most(self.session);
        self.images.denied(&self.place.tenant, hash, others, most)
    }

    fn module_bytes(&self, _: &ModuleHash) -> ModuleBytes {
        ModuleBytes::default()
    }

    fn kernel(&self, module: &ModuleHash, launch: &Launch) -> Option<LaunchNeeds> {
        Some(LaunchNeeds {
            key: D::key(module, launch),
            block: 0,
        })
    }
}
