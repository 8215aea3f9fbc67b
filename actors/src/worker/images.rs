//! A session's module images: those that it loads and unloads, and those that nobody needs any more.

use std::collections::BTreeSet;

use actix::{Context, Handler};
use bus_schemas::{Code, Failure, ModuleHash, SessionId};
use gpu_worker_core::sequencer::{Event, ImageState};

use super::actor::{GpuWorker, Incoming};
use super::device_thread::Command;
use super::modules::image_state;
use super::stager::Finished;

impl Handler<Finished> for GpuWorker {
    type Result = ();

    fn handle(&mut self, finished: Finished, ctx: &mut Context<Self>) {
        self.on_finished(finished);
        self.settle(ctx);
    }
}

impl GpuWorker {
    /// An image is in its final form.
    pub(super) fn on_finished(&mut self, finished: Finished) {
        let (session, transfer) = (finished.session, finished.transfer);
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        let hash = finished.module;
        held.transfers.remove(&transfer);
        if !held.images.contains_key(&hash) {
            // The session has closed meanwhile.
            return;
        }
        if !finished.genuine {
            let why = format!("transfer {transfer} is not the image of module {hash}");
            let failure = Failure::new(Code::Protocol, why);
            let event = Event::Fault {
                session,
                op: 0,
                failure: &failure,
            };
            return self.handle_event(event, &mut Incoming::Nothing);
        }
        let tenant = held.tenant.clone();
        let bytes = finished.bytes.len() as u64;
        if let Err(failure) = self.modules.admit(&tenant, hash, bytes) {
            if held.leave_image(hash) {
                self.modules.release(&tenant, &[hash]);
            }
            let image = ImageState::Refused(&failure);
            let event = Event::Image {
                session,
                transfer,
                hash,
                image,
            };
            return self.handle_event(event, &mut Incoming::Nothing);
        }
        if self.modules.give(&tenant, hash) {
            let prepare = Command::Prepare(tenant.clone(), hash, finished.bytes);
            self.device.command(prepare);
        }
        let state = self.modules.state(&tenant, hash);
        let event = Event::Image {
            session,
            transfer,
            hash,
            image: image_state(state.as_ref()),
        };
        self.handle_event(event, &mut Incoming::Nothing);
    }

    /// The session's client gets word that an image is here: it stays while the session has it.
    pub(super) fn hold_image(&mut self, session: SessionId, module: Option<ModuleHash>) {
        let most = self.core.modules_most(session);
        let held = self.held.get_mut(&session);
        if let (Some(hash), Some(held)) = (module, held)
            && held.take_image(hash)
        {
            self.modules.hold(&held.tenant, hash, most);
        }
    }

    /// The same of an image that the tenant gave before, unless it may not have it.
    pub(super) fn hold_known(&mut self, session: SessionId, module: Option<ModuleHash>) {
        let most = self.core.modules_most(session);
        let tenant = self.held.get(&session).map(|held| &held.tenant);
        if let (Some(hash), Some(tenant)) = (module, tenant)
            && self.modules.denied(tenant, hash, &[], most).is_none()
        {
            self.hold_image(session, module);
        }
    }

    /// What a session loads it has from when the device gets the slice: its client may load what its tenant
    /// gave before without offering it.
    pub(super) fn hold_loaded(&mut self, session: SessionId, loaded: Vec<ModuleHash>) {
        if loaded.is_empty() {
            return;
        }
        let Some(held) = self.held.get(&session) else {
            return;
        };
        let fresh = |hash: &ModuleHash| !held.images.contains_key(hash);
        let fresh: BTreeSet<_> = loaded.into_iter().filter(fresh).collect();
        for hash in fresh {
            self.hold_image(session, Some(hash));
        }
    }

    /// What a session has unloaded it has no more once nothing of it is on the device: its client offers it
    /// again before it loads it again. That offer may be here before the module is unloaded: it counts by
    /// itself.
    pub(super) fn settle_images(&mut self, session: SessionId) {
        let held = self.held.get(&session);
        if held.is_some_and(|held| held.started.is_empty() && !held.left.is_empty()) {
            self.leave_images(session);
        }
    }

    /// A session that has unloaded images has them no more, unless it offered them again since.
    fn leave_images(&mut self, session: SessionId) {
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        let mut gone = Vec::new();
        for hash in std::mem::take(&mut held.left) {
            let used = self.dispatch.has_loaded(session, hash);
            let last = held.images.get(&hash) == Some(&1);
            if !(used && last) && held.leave_image(hash) {
                gone.push(hash);
            }
        }
        if !gone.is_empty() {
            let tenant = held.tenant.clone();
            self.modules.release(&tenant, &gone);
            self.bound_modules();
        }
    }

    /// No session has this image any more: it was refused to all of them.
    pub(super) fn drop_image(&mut self, hash: ModuleHash) {
        for held in self.held.values_mut() {
            held.images.remove(&hash);
        }
        self.device.command(Command::Forget(hash));
    }

    /// A session loads no image any more: what nobody else wants is given up.
    pub(super) fn release_images(&mut self, session: SessionId) {
        let Some(held) = self.held.get_mut(&session) else {
            return;
        };
        let images: Vec<_> = std::mem::take(&mut held.images).into_keys().collect();
        if images.is_empty() {
            return;
        }
        let tenant = held.tenant.clone();
        self.modules.release(&tenant, &images);
        for hash in self.modules.give_up(&images) {
            self.device.command(Command::Cancel(hash));
        }
        self.bound_modules();
    }

    /// Has the device forget modules that nobody uses, where they take too much.
    pub(super) fn bound_modules(&mut self) {
        for hash in self.modules.surplus() {
            self.device.command(Command::Forget(hash));
        }
    }
}
