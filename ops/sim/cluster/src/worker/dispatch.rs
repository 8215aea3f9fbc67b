//! The real dispatch and the real resources: the way of a started slice to the device.

use gpu_worker_core::dispatch::{
    Action, ClaimAnswer, Event, ImageState, LaunchNeeds, SessionReader, Submission, TransferState,
};

use super::*;

impl<D: SimDevice> WorkerNode<D> {
    /// Tells the dispatch and does what it says.
    pub(super) fn tell_dispatch(&mut self, io: &mut Io, event: Event<Vec<D::Op>>) {
        self.dispatch.handle(event);
        loop {
            let (sessions, images) = (&self.sessions, &self.images);
            let look = |session| {
                let place = sessions.get(&session)?;
                Some(View::<D> { place, images })
            };
            match self.dispatch.next_action(look) {
                Some(Action::Ask(mut claim)) => {
                    self.device.bend_claim(&mut claim);
                    let answer = self.resources.ask(claim);
                    self.admitted(io, answer);
                }
                Some(Action::Withdraw { session }) => self.resources.withdraw(session),
                Some(Action::Submit(submission)) => self.submit(io, submission),
                None => return,
            }
        }
    }

    /// Something has ended or become ready: what waits may go on.
    pub(super) fn hand_on(&mut self, io: &mut Io) {
        self.tell_dispatch(io, Event::Changed);
    }

    /// What the open claim was answered, if it was.
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

    /// The transfers that a slice uses move into it, and the device gets it.
    fn submit(&mut self, io: &mut Io, submission: Submission<Vec<D::Op>>) {
        let mut staged = BTreeMap::new();
        if let Some(place) = self.sessions.get_mut(&submission.start.session) {
            for copy in &submission.copies {
                let transfer = place.transfers.remove(&copy.transfer);
                staged.extend(transfer.map(|transfer| (copy.transfer, transfer.bytes)));
            }
        }
        self.device.submit(io, SimSlice { submission, staged });
    }
}

/// A session as the dispatch reads it. The modelled device has every image at once, its functions
/// are as many as one likes, and their blocks take no memory.
struct View<'a, D: SimDevice> {
    place: &'a Kept<D::Op>,
    images: &'a BTreeSet<(Tenant, ModuleHash)>,
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
        let given = (self.place.tenant.clone(), hash);
        match self.images.contains(&given) {
            true => ImageState::Ready(hash),
            false => ImageState::Unknown,
        }
    }

    fn has_image(&self, _: ModuleHash) -> bool {
        true
    }

    fn denied(&self, _: ModuleHash, _: &[ModuleHash]) -> Option<Failure> {
        None
    }

    fn kernel(&self, module: &ModuleHash, launch: &Launch) -> Option<LaunchNeeds> {
        Some(LaunchNeeds {
            key: D::key(module, launch),
            block: 0,
        })
    }
}
