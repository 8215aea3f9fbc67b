//! Events that the device's thread and the threads that prepare images send to the actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use actix::Recipient;
use bus_schemas::{ExportPlace, Failure, ModuleHash, SessionId, Tenant};
use device::{Completion, Moved, PreparedModule, Recharged, SwapUse};

/// An event of the device.
pub(super) enum DeviceEvent {
    Opened(SessionId, Option<Failure>),
    Closed(SessionId),
    Prepared(ModuleHash, Result<PreparedModule, Failure>),
    /// Processor time that preparing an image of a tenant took.
    Compiled(Tenant, Duration),
    Completed(Completion),
    /// Moves of sessions' memory that have ended, and the use of the swap space.
    Moved(Vec<Moved>, SwapUse),
    /// The result of an action on memory shared between sessions; an export has a place.
    Exchanged(SessionId, Result<Option<ExportPlace>, Failure>),
    /// Exported allocations that are gone, by the numbers of the exports.
    ExportsGone(Vec<u64>),
    /// The device serves no more, and its thread has ended. Events of pending work came before.
    Lost(Failure),
    /// Current charges of sessions, and the bytes saved by sharing.
    Recharged(Vec<Recharged>, u64),
}

/// Wakes the actor to take events.
pub(super) struct EventsReady;

impl actix::Message for EventsReady {
    type Result = ();
}

/// True while the actor polls for events itself and needs no wake-up.
pub(super) type Polling = Arc<AtomicBool>;

/// Sends events to the actor and wakes it.
#[derive(Clone)]
pub(super) struct EventSender {
    pub(super) events: Sender<DeviceEvent>,
    pub(super) polling: Polling,
    pub(super) actor: Recipient<EventsReady>,
}

impl EventSender {
    pub(super) fn send(&self, events: &mut Vec<DeviceEvent>) {
        for event in events.drain(..) {
            // This fails if the actor is gone; the end of the command channel follows.
            let _ = self.events.send(event);
        }
        if !self.polling.load(Ordering::SeqCst) {
            // This fails if the full mailbox already has such a message, or the actor is gone.
            let _ = self.actor.try_send(EventsReady);
        }
    }
}
