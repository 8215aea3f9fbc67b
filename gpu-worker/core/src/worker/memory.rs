//! Memory: claims of slices, moves of sessions, and requests of clients.

use bus_schemas::subject::ToClient;
use bus_schemas::{IpcAction, IpcRequest, MemoryRequest, Op, SessionId, Tenant, encode, invariant};
use device::{Moved, SwapUse};

use super::turn::{Current, Turn};
use super::{Action, Buffers, Command, SubmittedSlice, To, Worker};
use crate::dispatch::{self, ClaimAnswer, Submission};
use crate::exports::ExportAction;
use crate::pager::SwapAction;
use crate::sequencer::Event;

/// Maximum number of times that the pager decides anew within one event, and how many more for each session.
const SWAP_ROUNDS: (usize, usize) = (64, 8);

impl<B: Buffers> Worker<B> {
    /// Hands an event to the dispatch and carries out its actions. Slices of a session that leaves or ends wait for
    /// no memory, so its claim is withdrawn.
    pub(super) fn dispatch(&mut self, turn: &mut Turn<'_, B>, event: dispatch::Event<B::Ops>) {
        if let dispatch::Event::Stopped { session, .. }
        | dispatch::Event::Gone { session }
        | dispatch::Event::Leave { session, .. } = &event
        {
            self.changed |= self.resources.withdraw(*session);
        }
        self.dispatch.handle(event);
        while let Some(action) = self.next_dispatched() {
            match action {
                dispatch::Action::Ask(claim) => {
                    self.changed = true;
                    let answer = self.resources.ask(claim);
                    self.admit(turn, answer);
                }
                dispatch::Action::Submit(submission) => self.submit(turn, submission),
                dispatch::Action::SwapOut { session } => turn.command(Command::SwapOut(session)),
                dispatch::Action::Want { session, priority } => {
                    self.changed = true;
                    self.resources.want(turn.now, session, priority);
                }
            }
        }
    }

    fn next_dispatched(&mut self) -> Option<dispatch::Action<B::Ops>> {
        let (sessions, images) = (&self.sessions, &self.images);
        let (sequencer, buffers) = (&self.sequencer, &self.buffers);
        self.dispatch.next_action(|id| {
            Some(super::view::View {
                id,
                session: sessions.get(id)?,
                images,
                sequencer,
                buffers,
            })
        })
    }

    /// Passes on the answer to the open claim, if there is one.
    pub(super) fn admit(&mut self, turn: &mut Turn<'_, B>, answer: Option<ClaimAnswer>) {
        let Some(answer) = answer else {
            return;
        };
        if let Some((op, _)) = &answer.refused {
            turn.actions.push(Action::Denied(answer.session, *op));
        }
        self.dispatch.handle(dispatch::Event::Admitted(answer));
    }

    /// Hands a slice to the device, with the transfers that it uses.
    fn submit(&mut self, turn: &mut Turn<'_, B>, mut submission: Submission<B::Ops>) {
        let (id, first) = (submission.start.session, submission.start.first);
        let is_launch = |op: Op| matches!(op, Op::Launch(_));
        let launches = self.buffers.ops(&submission.ops).any(is_launch);
        let mut staged = Vec::new();
        if let Some(session) = self.sessions.get_mut(id) {
            let since = launches.then_some(turn.now);
            session.submitted(first, submission.declared, since);
            for (_, touch) in std::mem::take(&mut submission.touched) {
                self.weights.touch(id, &session.tenant, touch);
            }
            for copy in &submission.copies {
                session.transfers.remove(&copy.transfer);
                let bytes = self.buffers.take_staged(id, copy.transfer);
                staged.extend(bytes.map(|bytes| (copy.transfer, bytes)));
            }
            for hash in &submission.loaded {
                let compilation = self.images.take_compilation(&session.tenant, *hash);
                self.compiled.extend(compilation.map(|it| (id, first, it)));
            }
        }
        let unloaded = std::mem::take(&mut submission.left);
        self.settle_slots(id, &submission.loaded, unloaded);
        let slice = SubmittedSlice { submission, staged };
        turn.command(Command::Submit(Box::new(slice)));
    }

    /// Carries out the pager's decisions on sessions' memory, until there are no more. Each one lets a session
    /// leave, stay, come or ask, and within one event no session does so more than a few times. Decisions without
    /// an end would let none of the sessions run.
    pub(super) fn swap(&mut self, turn: &mut Turn<'_, B>) {
        let (sessions, (some, each)) = (self.resources.sessions(), SWAP_ROUNDS);
        for _ in 0..some + each * sessions {
            let actions = self.resources.swap_actions(turn.now);
            if actions.is_empty() {
                return;
            }
            for action in actions {
                self.on_swap(turn, action);
            }
        }
        invariant!(
            I1,
            false,
            "decisions on the memory of {sessions} sessions do not end"
        );
    }

    fn on_swap(&mut self, turn: &mut Turn<'_, B>, action: SwapAction) {
        match action {
            SwapAction::Out { session, busy_too } => {
                let running = self.sessions.running(session);
                if running > 0 && !busy_too {
                    return self.resources.kept(turn.now, session);
                }
                self.dispatch(turn, dispatch::Event::Leave { session, running });
            }
            SwapAction::In { session } => turn.command(Command::SwapIn(session)),
            SwapAction::Returned { session } => {
                let returned = Event::Returned { session };
                self.decide(turn, returned, &mut Current::Nothing);
                self.dispatch(turn, dispatch::Event::Returned { session });
            }
        }
    }

    /// Handles moves that have ended.
    pub(super) fn on_moved(
        &mut self,
        turn: &mut Turn<'_, B>,
        moves: Vec<Moved>,
        used: Option<SwapUse>,
    ) {
        if let Some(used) = used {
            self.resources.swap_used(used);
        }
        for ended in moves {
            if ended.out && ended.failure.is_some() {
                // The session's memory stays in place.
                let session = ended.session;
                self.dispatch.handle(dispatch::Event::Returned { session });
            }
            let answer = self.resources.moved(turn.now, &ended);
            self.admit(turn, answer);
        }
        self.changed = true;
    }

    /// Handles a client's request for memory. A session may ask as soon as its open grant is accepted. Behind
    /// a long kernel it would wait long for the device to reach that grant.
    pub(super) fn on_request(
        &mut self,
        turn: &mut Turn<'_, B>,
        (tenant, session): (&Tenant, SessionId),
        request: &MemoryRequest,
    ) {
        let Some(quota) = self.sequencer.quota(session, tenant) else {
            return;
        };
        self.resources.open(turn.now, session, tenant, quota);
        self.resources.request(turn.now, session, request);
        self.changed = true;
    }

    /// Publishes the available answers to clients' requests for memory.
    pub(super) fn answer_requests(&mut self, turn: &mut Turn<'_, B>) {
        for (tenant, session, answer) in self.resources.memory_answers(turn.now) {
            let to = To::Client(tenant, session, ToClient::Memory);
            turn.publish(to, encode(&answer));
        }
    }

    /// Handles a request about memory that sessions share. One that needs memory to stay on the device asks
    /// the pager first.
    pub(super) fn on_ipc(
        &mut self,
        turn: &mut Turn<'_, B>,
        (tenant, session): (&Tenant, SessionId),
        request: IpcRequest,
    ) {
        let Some(quota) = self.sequencer.quota(session, tenant) else {
            return;
        };
        let kept = match request.action {
            IpcAction::Export { .. } | IpcAction::Import { .. } => {
                self.resources.open(turn.now, session, tenant, quota);
                self.changed = true;
                self.resources.keep(turn.now, session)
            }
            IpcAction::Find { .. } | IpcAction::Drop { .. } => Ok(()),
        };
        let next = self.exports.asked((tenant, session), request, kept);
        Self::exchange(turn, next);
    }

    /// Carries out the next action of an exchange: a command to the device, or an answer to the client.
    pub(super) fn exchange(turn: &mut Turn<'_, B>, next: Option<ExportAction>) {
        match next {
            Some(ExportAction::Device(session, action)) => {
                turn.command(Command::Exchange(session, action));
            }
            Some(ExportAction::Answer(tenant, session, answer)) => {
                let to = To::Client(tenant, session, ToClient::Ipc);
                turn.publish(to, encode(&answer));
            }
            None => {}
        }
    }
}
