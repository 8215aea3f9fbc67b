//! Events: a place in a session's order, and when the device got there.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::handle::Handles;

/// The flag of an event that takes no time.
pub(crate) const DISABLE_TIMING: u32 = 2;

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// Its number in the session.
    pub(crate) number: u32,
    pub(crate) flags: u32,
    pub(crate) device: usize,
    /// The op that recorded it last; 0 if none did.
    pub(crate) op: AtomicU64,
}

pub(crate) static EVENTS: LazyLock<Handles<Event>> = LazyLock::new(Handles::new);
static NEXT: AtomicU32 = AtomicU32::new(1);

impl Event {
    pub(crate) fn new(flags: u32, device: usize) -> Self {
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            flags,
            device,
            op: AtomicU64::new(0),
        }
    }
}
