//! Events that the device's thread and the threads that prepare images send to the actor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use actix::Recipient;
use bus_schemas::{ExportPlace, Failure, ModuleHash, SessionId, Tenant};
use device::{Completion, Moved, PreparedModule, Recharged, SwapUse};

/// Something that the device has done.
pub(super) enum DeviceEvent {
    Opened(SessionId, Option<Failure>),
    Closed(SessionId),
    Prepared(ModuleHash, Result<PreparedModule, Failure>),
    /// Processor time that preparing an image of a tenant took.
    Compiled(Tenant, Duration),
    Completed(Completion),
    /// Moves of sessions' memory that have ended, and how full the swap space is.
    Moved(Vec<Moved>, SwapUse),
    /// What came of something about memory that sessions use of one another; an export has a place.
    Exchanged(SessionId, Result<Option<ExportPlace>, Failure>),
    /// Exported allocations are gone, by the numbers of the exports.
    ExportsGone(Vec<u64>),
    /// The device serves nobody any more, and its thread has ended. What was under way came before.
    Lost(Failure),
    /// What sessions are charged now, and the bytes saved by sharing.
    Recharged(Vec<Recharged>, u64),
}

/// Wakes the actor: there are events to take.
pub(super) struct EventsReady;

impl actix::Message for EventsReady {
    type Result = ();
}

/// Whether the actor polls for events by itself, so that nobody need wake it.
pub(super) type Polling = Arc<AtomicBool>;

/// The way of events to the actor, which it wakes.
#[derive(Clone)]
pub(super) struct EventSender {
    pub(super) events: Sender<DeviceEvent>,
    pub(super) polling: Polling,
    pub(super) actor: Recipient<EventsReady>,
}

impl EventSender {
    pub(super) fn send(&self, events: &mut Vec<DeviceEvent>) {
        for event in events.drain(..) {
            // The actor is gone; the command channel's end follows.
            let _ = self.events.send(event);
        }
        if !self.polling.load(Ordering::SeqCst) {
            // A full mailbox has such a message in it already, or the actor is gone.
            let _ = self.actor.try_send(EventsReady);
        }
    }
}
