//! The times at which events were reached, as answers bring them.

use crate::lock::lock;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use bus_schemas::EventTime;

/// When each event that a program has was reached last, nanoseconds of its device's clock; 0 is not
/// yet.
static TIMES: LazyLock<Mutex<HashMap<u32, u64>>> = LazyLock::new(Mutex::default);

/// Keeps the times of events that an answer brought.
pub(crate) fn keep(reached: &[EventTime]) {
    let mut times = lock(&TIMES);
    for event in reached {
        // One that was destroyed meanwhile is not kept.
        if let Some(time) = times.get_mut(&event.event) {
            *time = event.ns;
        }
    }
}

/// From now on the times of an event are kept.
pub(crate) fn begin(event: u32) {
    lock(&TIMES).insert(event, 0);
}

/// They are not any more.
pub(crate) fn forget(event: u32) {
    lock(&TIMES).remove(&event);
}

/// When an event was reached last, as far as answers say.
pub(crate) fn time(event: u32) -> Option<u64> {
    lock(&TIMES).get(&event).copied().filter(|time| *time > 0)
}
