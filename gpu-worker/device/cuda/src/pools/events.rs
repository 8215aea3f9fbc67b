//! Events that are kept for their next use: making one takes about as long as recording it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus_schemas::Failure;

use crate::driver::{Event, EventKind};

/// Maximum number of events of a kind that are kept.
const KEPT: usize = 1_024;

/// Free events of a device, by kind.
#[derive(Debug, Default)]
struct Idle {
    timed: Vec<Event>,
    plain: Vec<Event>,
}

impl Idle {
    fn of(&mut self, kind: EventKind) -> &mut Vec<Event> {
        match kind {
            EventKind::Timed => &mut self.timed,
            EventKind::Plain => &mut self.plain,
        }
    }
}

/// Events of a device.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventPool(Arc<Mutex<Idle>>);

impl EventPool {
    /// Takes or makes an event of this kind.
    pub(crate) fn take(&self, kind: EventKind) -> Result<Mark, Failure> {
        let kept = self.idle().of(kind).pop();
        let event = match kept {
            Some(event) => event,
            None => Event::new(kind)?,
        };
        Ok(Mark {
            event,
            pool: self.clone(),
        })
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An event that goes back to its pool when dropped, after the device has passed it or if its state is never
/// queried again.
#[derive(Debug)]
pub(crate) struct Mark {
    event: Event,
    pool: EventPool,
}

impl Deref for Mark {
    type Target = Event;

    fn deref(&self) -> &Event {
        &self.event
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let event = std::mem::replace(&mut self.event, Event::none());
        let mut idle = self.pool.idle();
        let kept = idle.of(event.kind());
        if kept.len() < KEPT {
            kept.push(event);
        }
    }
}
