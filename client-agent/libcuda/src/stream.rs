//! Streams. A session runs its ops in one order, so that a stream is a name on an op, and waiting
//! for one stream is waiting for what was called so far.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::abi::Handle;
use crate::context::Context;
use crate::current_context::{current, current_device};
use crate::device::Device;
use crate::handle::table;
use crate::lock::lock;
use crate::process::process;
use crate::status::{Result, Status};

/// A stream that a program made.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) number: u16,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) context: Handle<Context>,
    pub(crate) device: usize,
    /// Hints that were set, by their numbers.
    pub(crate) hints: Mutex<HashMap<i32, [u64; 8]>>,
}

impl Stream {
    /// The hints that were set.
    pub(crate) fn hints(&self) -> MutexGuard<'_, HashMap<i32, [u64; 8]>> {
        lock(&self.hints)
    }
}

table!(Stream, INVALID_HANDLE);
static NEXT: AtomicU16 = AtomicU16::new(1);

/// A new stream's number: 0 is the default's. Numbers are names for traces, and may come again.
pub(crate) fn number() -> u16 {
    NEXT.fetch_add(1, Ordering::Relaxed).max(1)
}

impl Handle<Stream> {
    /// Whether it names a default stream: the legacy one by either of its names, or the thread's.
    #[inline]
    pub(crate) fn is_default(self) -> bool {
        self.number() <= 2
    }

    /// Whether it names the legacy default stream, which cannot be captured.
    pub(crate) fn is_legacy(self) -> bool {
        self.number() <= 1
    }

    /// The number that its ops carry.
    ///
    /// # Errors
    /// `INVALID_HANDLE` where it names no stream, here and below.
    #[inline]
    pub(crate) fn op_number(self) -> Result<u16> {
        match self.is_default() {
            true => Ok(0),
            false => self.with(|stream| stream.number),
        }
    }

    /// The stream that the program made; none for a default one.
    pub(crate) fn made(self) -> Result<Option<Arc<Stream>>> {
        match self.is_default() {
            true => Ok(None),
            false => self.get().map(Some),
        }
    }

    /// The device that its work goes to.
    pub(crate) fn device(self) -> Result<&'static Device> {
        if self.is_default() {
            return current_device();
        }
        let device = self.with(|stream| stream.device)?;
        process()?.devices.get(device).ok_or(Status::INVALID_DEVICE)
    }

    /// The context that it was made in, or that a default one is used in.
    pub(crate) fn context(self) -> Result<Handle<Context>> {
        match self.made()? {
            Some(stream) => Ok(stream.context),
            None => Ok(current()?.1.handle),
        }
    }
}
