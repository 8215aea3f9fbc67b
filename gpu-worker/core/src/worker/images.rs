//! Module images on their way: the decisions of the image table, carried out.

use bus_schemas::{Code, Compilation, Failure, ModuleHash, SessionId};

use super::sessions::Transfer;
use super::turn::{Current, Turn};
use super::{Action, Buffers, CheckedImage, Command, SentImage, Worker};
use crate::images::{Answered, Arrival, ImageState, Released};
use crate::sequencer::Event;

impl<B: Buffers> Worker<B> {
    /// Handles a complete transfer. A `known` image was not sent.
    pub(super) fn on_whole(
        &mut self,
        turn: &mut Turn<'_, B>,
        (session, transfer): (SessionId, u64),
        module: Option<ModuleHash>,
        known: bool,
    ) {
        let most = self.sequencer.modules_most(session);
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        if let Some(hash) = module {
            // The client is told that the image is here.
            match known {
                true => self.images.take_known(session, &entry.tenant, hash, most),
                false => self.images.take(session, &entry.tenant, hash, most),
            }
        }
        if known {
            self.copies.drop_transfer(session, transfer);
            return;
        }
        let Some(state) = entry.transfers.get_mut(&transfer) else {
            return;
        };
        let Transfer::Coming(total) = *state else {
            return;
        };
        if let Some(arrived) = self.copies.arrived(&entry.tenant, (session, transfer)) {
            if module.is_some() || arrived.chunks.bytes() != total {
                return self.fail_offered(turn, session, transfer);
            }
            *state = Transfer::Chunks(total);
            return turn.actions.push(Action::Check(Box::new(arrived)));
        }
        let Some(hash) = module else {
            *state = Transfer::Whole(total);
            return;
        };
        *state = Transfer::Image(hash);
        let sent = SentImage {
            session,
            transfer,
            hash,
        };
        if let Some(checked) = self.buffers.check(sent) {
            self.on_checked(turn, checked);
        }
    }

    /// Handles a checked image.
    pub(super) fn on_checked(&mut self, turn: &mut Turn<'_, B>, checked: CheckedImage<B::Image>) {
        let SentImage {
            session,
            transfer,
            hash,
        } = checked.sent;
        let Some(entry) = self.sessions.get_mut(session) else {
            return;
        };
        entry.transfers.remove(&transfer);
        let tenant = entry.tenant.clone();
        if !checked.is_genuine && self.images.has(session, hash) {
            let why = format!("transfer {transfer} is not the image of module {hash}");
            let failure = Failure::new(Code::Protocol, why);
            return self.fail(turn, session, &failure);
        }
        let state = match self.images.arrived(session, hash, checked.len) {
            Arrival::Stray => return,
            Arrival::Denied(failure) => ImageState::Refused(failure),
            Arrival::Prepare => {
                turn.command(Command::Prepare(tenant, hash, checked.bytes));
                ImageState::Preparing
            }
            Arrival::Known => self.images.state(&tenant, hash),
        };
        let event = Event::Image {
            session,
            transfer,
            hash,
            image: (&state).into(),
        };
        self.decide(turn, event, &mut Current::Nothing);
    }

    /// Handles the device's answer about an image.
    pub(super) fn on_prepared(
        &mut self,
        turn: &mut Turn<'_, B>,
        hash: ModuleHash,
        answer: Result<(B::Module, u64), Failure>,
        compilation: Option<Compilation>,
    ) {
        let Answered { refused, forget } = self.images.prepared(hash, answer);
        if let Some(compilation) = compilation {
            self.images.compiled(hash, compilation);
        }
        forget_images(turn, forget);
        let refused = refused.as_ref();
        let event = Event::Prepared { hash, refused };
        self.decide(turn, event, &mut Current::Nothing);
    }

    /// Applies the loads and unloads of a slice that goes to the device.
    pub(super) fn settle_slots(
        &mut self,
        session: SessionId,
        loaded: &[ModuleHash],
        unloaded: Vec<ModuleHash>,
    ) {
        if loaded.is_empty() && unloaded.is_empty() {
            return;
        }
        let most = self.sequencer.modules_most(session);
        if let Some(entry) = self.sessions.get(session) {
            self.images
                .take_loaded(session, &entry.tenant, loaded, most);
            self.images.unloaded(session, unloaded);
        }
    }

    /// Drops unused images after a slice of the session has completed.
    pub(super) fn settle_images(&mut self, turn: &mut Turn<'_, B>, session: SessionId) {
        let Some(entry) = self.sessions.get(session) else {
            return;
        };
        let idle = entry.started.is_empty();
        let loaded = |hash| self.dispatch.has_loaded(session, hash);
        forget_images(turn, self.images.settle(session, idle, loaded));
    }

    /// Releases the images of a session that loads no more.
    pub(super) fn release_images(&mut self, turn: &mut Turn<'_, B>, session: SessionId) {
        let Released { cancel, forget } = self.images.release(session);
        for hash in cancel {
            turn.command(Command::Cancel(hash));
        }
        forget_images(turn, forget);
    }

    /// Gives up images in preparation: the worker leaves, so no session will load them.
    pub(super) fn give_up_images(&mut self, turn: &mut Turn<'_, B>) {
        let why = "the worker leaves: it does not prepare the module";
        let why = Failure::new(Code::DeviceLost, why);
        for hash in self.images.refuse_unprepared(&why) {
            turn.command(Command::Cancel(hash));
            let refused = Some(&why);
            let event = Event::Prepared { hash, refused };
            self.decide(turn, event, &mut Current::Nothing);
        }
    }
}

fn forget_images<B: Buffers>(turn: &mut Turn<'_, B>, images: Vec<ModuleHash>) {
    for hash in images {
        turn.command(Command::Forget(hash));
    }
}
