//! Durations, kept in process and exported if an exporter exists.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::metrics;

use crate::histogram::Histogram;

/// The exporter's instruments of times that are recorded one by one.
#[derive(Debug, Clone)]
pub(crate) struct Durations {
    pub(crate) request: metrics::Histogram<f64>,
    pub(crate) queue: metrics::Histogram<f64>,
    pub(crate) execute: metrics::Histogram<f64>,
    pub(crate) swap: metrics::Histogram<f64>,
    pub(crate) swapped: metrics::Counter<u64>,
    pub(crate) takeover: metrics::Histogram<f64>,
    pub(crate) answer: metrics::Histogram<f64>,
}

/// Durations of one kind, nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Times(Mutex<Histogram>);

impl Times {
    pub(super) fn record(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        lock(&self.0).record(nanos);
    }

    /// Returns all durations so far.
    pub(super) fn read(&self) -> Histogram {
        lock(&self.0).clone()
    }
}

/// The boundaries of all histograms, in seconds: 1, 2, 5 per power of ten, from 10 µs to 100 s.
pub(crate) fn boundaries() -> Vec<f64> {
    let decades = (-5..2).flat_map(|power| [1.0, 2.0, 5.0].map(|n| n * 10f64.powi(power)));
    decades.chain([100.0]).collect()
}

/// Locks. A counter is still usable if its writer panicked.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
