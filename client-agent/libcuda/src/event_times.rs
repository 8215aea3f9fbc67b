//! The times at which events were reached, as reported by answers.

use crate::lock::lock;
use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use bus_schemas::EventTime;

/// The time at which each existing event was last reached, nanoseconds of its device's clock; 0 if
/// not yet reached.
static TIMES: LazyLock<Mutex<HashMap<u32, u64>>> = LazyLock::new(Mutex::default);

/// Stores the event times of an answer.
pub(crate) fn keep(reached: &[EventTime]) {
    let mut times = lock(&TIMES);
    for event in reached {
        // An event that was destroyed meanwhile has no entry.
        if let Some(time) = times.get_mut(&event.event) {
            *time = event.ns;
        }
    }
}

/// Starts to keep the times of an event.
pub(crate) fn begin(event: u32) {
    lock(&TIMES).insert(event, 0);
}

/// Stops to keep the times of an event.
pub(crate) fn forget(event: u32) {
    lock(&TIMES).remove(&event);
}

/// The time at which an event was last reached, as reported by answers.
pub(crate) fn time(event: u32) -> Option<u64> {
    lock(&TIMES).get(&event).copied().filter(|time| *time > 0)
}
