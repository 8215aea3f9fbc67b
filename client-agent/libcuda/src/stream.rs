//! Streams. A session runs its ops in one order, so that a stream is a name on an op, and waiting
//! for one stream is waiting for what was called so far.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::handle::Handles;
use crate::status::{Result, Status};

/// The default streams: the legacy one by two names, and the thread's.
const DEFAULTS: std::ops::RangeInclusive<usize> = 0..=2;

/// A stream that a program made.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) number: u16,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) context: usize,
    pub(crate) device: usize,
    /// Hints that were set, by their numbers, to be told back.
    pub(crate) hints: Mutex<HashMap<i32, [u64; 8]>>,
}

impl Stream {
    /// The hints that were set.
    pub(crate) fn hints(&self) -> MutexGuard<'_, HashMap<i32, [u64; 8]>> {
        self.hints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) static STREAMS: LazyLock<Handles<Stream>> = LazyLock::new(Handles::new);
static NEXT: AtomicU16 = AtomicU16::new(1);

/// A new stream's number: 0 is the default's. Numbers are names for traces, and may come again.
pub(crate) fn number() -> u16 {
    NEXT.fetch_add(1, Ordering::Relaxed).max(1)
}

/// The number of a stream.
#[inline]
pub(crate) fn number_of(handle: usize) -> Result<u16> {
    if DEFAULTS.contains(&handle) {
        return Ok(0);
    }
    STREAMS
        .with(handle, |stream| stream.number)
        .ok_or(Status::INVALID_HANDLE)
}

/// The device of a stream, if it is not a default one.
pub(crate) fn device_of(handle: usize) -> Result<Option<usize>> {
    if DEFAULTS.contains(&handle) {
        return Ok(None);
    }
    let device = STREAMS.with(handle, |stream| stream.device);
    device.map(Some).ok_or(Status::INVALID_HANDLE)
}
