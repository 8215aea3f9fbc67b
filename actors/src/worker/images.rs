//! A session's module images on their way; performs the decisions of the image table.

use std::sync::Arc;

use actix::{Context, Handler};
use bus_schemas::{Code, Failure, ModuleHash, SessionId};
use device::PreparedModule;
use gpu_worker_core::images::{Answered, Arrival, ImageState, Released};
use gpu_worker_core::sequencer::Event;

use super::actor::{GpuWorker, Incoming};
use super::device_command::Command;
use super::names::Module;
use super::stager::Finished;

impl Handler<Finished> for GpuWorker {
    type Result = ();

    fn handle(&mut self, finished: Finished, ctx: &mut Context<Self>) {
        self.on_finished(finished);
        self.settle(ctx);
    }
}

impl GpuWorker {
    /// Notes that an image is in its final form.
    pub(super) fn on_finished(&mut self, finished: Finished) {
        let (session, transfer) = (finished.session, finished.transfer);
        let hash = finished.module;
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        held.transfers.remove(&transfer);
        let tenant = held.tenant.clone();
        if !finished.genuine && self.images.has(session, hash) {
            let why = format!("transfer {transfer} is not the image of module {hash}");
            let failure = Failure::new(Code::Protocol, why);
            let event = Event::Fault {
                session,
                op: 0,
                failure: &failure,
            };
            return self.handle_event(event, &mut Incoming::Nothing);
        }
        let bytes = finished.bytes.len() as u64;
        let state = match self.images.arrived(session, hash, bytes) {
            Arrival::Stray => return,
            Arrival::Denied(failure) => ImageState::Refused(failure),
            Arrival::Prepare => {
                let prepare = Command::Prepare(tenant.clone(), hash, finished.bytes);
                self.device.command(prepare);
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
        self.handle_event(event, &mut Incoming::Nothing);
    }

    /// Notes that the session has an image. Its client is told that the image is here.
    pub(super) fn take_image(&mut self, session: SessionId, module: Option<ModuleHash>) {
        let most = self.core.modules_most(session);
        if let (Some(hash), Some(held)) = (module, self.held.get(&session)) {
            self.images.take(session, &held.tenant, hash, most);
        }
    }

    /// The same for an image that the tenant sent earlier.
    pub(super) fn take_known(&mut self, session: SessionId, module: Option<ModuleHash>) {
        let most = self.core.modules_most(session);
        if let (Some(hash), Some(held)) = (module, self.held.get(&session)) {
            self.images.take_known(session, &held.tenant, hash, most);
        }
    }

    /// Applies the loads and unloads of a slice that goes to the device.
    pub(super) fn settle_slots(
        &mut self,
        session: SessionId,
        loaded: Vec<ModuleHash>,
        unloaded: Vec<ModuleHash>,
    ) {
        if loaded.is_empty() && unloaded.is_empty() {
            return;
        }
        let Some(held) = self.held.get(&session) else {
            return;
        };
        let most = self.core.modules_most(session);
        self.images
            .take_loaded(session, &held.tenant, &loaded, most);
        self.images.unloaded(session, unloaded);
    }

    /// Drops unused images after a slice of the session has completed.
    pub(super) fn settle_images(&mut self, session: SessionId) {
        let held = self.held.get(&session);
        let idle = held.is_some_and(|held| held.started.is_empty());
        let loaded = |hash| self.dispatch.has_loaded(session, hash);
        let forget = self.images.settle(session, idle, loaded);
        self.forget_images(forget);
    }

    /// Releases the images of a session that loads no more.
    pub(super) fn release_images(&mut self, session: SessionId) {
        let Released { cancel, forget } = self.images.release(session);
        for hash in cancel {
            self.device.command(Command::Cancel(hash));
        }
        self.forget_images(forget);
    }

    /// Handles the device's answer about an image.
    pub(super) fn on_prepared(
        &mut self,
        hash: ModuleHash,
        answer: Result<PreparedModule, Failure>,
    ) {
        let answer = answer.map(|info| {
            let bytes = info.bytes;
            (Arc::new(Module::new(hash, info)), bytes)
        });
        let Answered { refused, forget } = self.images.prepared(hash, answer);
        self.forget_images(forget);
        let refused = refused.as_ref();
        self.handle_event(Event::Prepared { hash, refused }, &mut Incoming::Nothing);
    }

    fn forget_images(&mut self, images: Vec<ModuleHash>) {
        for hash in images {
            self.device.command(Command::Forget(hash));
        }
    }
}
