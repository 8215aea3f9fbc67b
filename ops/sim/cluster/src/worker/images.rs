//! The real table of images; the modelled device prepares an image as soon as it is complete.

use bus_schemas::{Code, Failure, ModuleHash, SessionId};
use gpu_worker_core::images::{Answered, Arrival, ImageState};
use gpu_worker_core::sequencer::Event;

use super::device::SimDevice;
use super::{WorkerNode, broken};
use crate::node::Io;

impl<D: SimDevice> WorkerNode<D> {
    /// Notes that a transfer is complete. A `known` image was not sent.
    pub(super) fn whole(
        &mut self,
        io: &mut Io,
        session: SessionId,
        transfer: u64,
        module: Option<ModuleHash>,
        known: bool,
    ) {
        let most = self.core.modules_most(session);
        let Some(place) = self.sessions.get_mut(&session) else {
            return broken(io, "a transfer of no session is whole");
        };
        let Some(hash) = module else {
            if let Some(staged) = place.transfers.get_mut(&transfer) {
                staged.whole = true;
            }
            return;
        };
        if known {
            self.images.take_known(session, &place.tenant, hash, most);
            return;
        }
        self.images.take(session, &place.tenant, hash, most);
        let image = place.transfers.remove(&transfer).unwrap_or_default().bytes;
        if ModuleHash::of(&image) == hash {
            return self.arrived(io, session, transfer, hash, image.len() as u64);
        }
        let failure = Failure::new(Code::BadModule, "the image's hash is another");
        let event = Event::Fault {
            session,
            op: 0,
            failure: &failure,
        };
        self.event(io, None, event);
    }

    fn arrived(
        &mut self,
        io: &mut Io,
        session: SessionId,
        transfer: u64,
        hash: ModuleHash,
        bytes: u64,
    ) {
        let arrival = self.images.arrived(session, hash, bytes);
        let state = match &arrival {
            Arrival::Stray => return,
            Arrival::Denied(failure) => ImageState::Refused(failure.clone()),
            Arrival::Prepare => ImageState::Preparing,
            Arrival::Known => match self.sessions.get(&session) {
                Some(place) => self.images.state(&place.tenant, hash),
                None => ImageState::Unknown,
            },
        };
        let event = Event::Image {
            session,
            transfer,
            hash,
            image: (&state).into(),
        };
        self.event(io, None, event);
        if arrival == Arrival::Prepare {
            // The device keeps nothing of an image, so it has nothing to forget.
            let Answered { refused, .. } = self.images.prepared(hash, Ok((hash, bytes)));
            let refused = refused.as_ref();
            self.event(io, None, Event::Prepared { hash, refused });
        }
    }

    /// Loads and unloads the images of a slice that goes to the device.
    pub(super) fn settle_slots(
        &mut self,
        session: SessionId,
        loaded: &[ModuleHash],
        unloaded: &[ModuleHash],
    ) {
        let most = self.core.modules_most(session);
        if let Some(place) = self.sessions.get(&session) {
            let tenant = &place.tenant;
            self.images.take_loaded(session, tenant, loaded, most);
            self.images.unloaded(session, unloaded.to_vec());
        }
    }

    /// Notes that a slice of the session has completed: its unloaded images may be dropped.
    pub(super) fn settle_images(&mut self, session: SessionId) {
        let Some(place) = self.sessions.get_mut(&session) else {
            return;
        };
        place.started = place.started.saturating_sub(1);
        let idle = place.started == 0;
        let loaded = |hash| self.dispatch.has_loaded(session, hash);
        let _forgotten = self.images.settle(session, idle, loaded);
    }

    /// Notes that a session loads no more images.
    pub(super) fn release_images(&mut self, session: SessionId) {
        let _released = self.images.release(session);
    }
}
