//! Streams. A session runs its ops in one order. So a stream is a label on an op, and a wait for
//! one stream waits for all calls so far.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::abi::Handle;
use crate::context::Context;
use crate::current_context::{current, current_device};
use crate::device::Device;
use crate::handle::table;
use crate::lock::lock;
use crate::process::process;
use crate::status::{Result, Status};

/// The flag of a stream that the legacy stream does not wait for.
pub(crate) const NON_BLOCKING: u32 = 1;

/// `CUlaunchAttributeValue`.
pub(crate) type AttributeValue = [u64; 8];

/// A stream that a program created.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) number: u16,
    pub(crate) flags: u32,
    pub(crate) priority: i32,
    pub(crate) context: Handle<Context>,
    pub(crate) device: usize,
    /// Hints that were set, by their numbers.
    pub(crate) hints: Mutex<HashMap<i32, AttributeValue>>,
}

impl Stream {
    /// The hints that were set.
    pub(crate) fn hints(&self) -> MutexGuard<'_, HashMap<i32, AttributeValue>> {
        lock(&self.hints)
    }
}

table!(Stream, INVALID_HANDLE);
static NEXT: AtomicU16 = AtomicU16::new(1);
/// The number of the last thread that used its per-thread default stream.
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The thread's number; 0 until it has one.
    static THREAD: Cell<usize> = const { Cell::new(0) };
}

/// A new stream's number; 0 is that of the default stream. Numbers are labels for traces, and may
/// repeat.
pub(crate) fn number() -> u16 {
    NEXT.fetch_add(1, Ordering::Relaxed).max(1)
}

/// Low bits of the identities of per-thread default streams. Handles of objects end in four zero
/// bits.
const PER_THREAD_IDS: usize = 2;

/// The calling thread's number.
pub(crate) fn thread_number() -> usize {
    THREAD.with(|number| {
        if number.get() == 0 {
            number.set(THREADS.fetch_add(1, Ordering::Relaxed) + 1);
        }
        number.get()
    })
}

impl Handle<Stream> {
    /// `CU_STREAM_LEGACY`: the legacy default stream by its explicit name.
    const LEGACY: Self = Self::new(1);
    /// `CU_STREAM_PER_THREAD`: the default stream of the thread that names it.
    pub(crate) const PER_THREAD: Self = Self::new(2);

    /// The stream's unique identity. The program uses one name for the default streams of all
    /// threads, and two names for the legacy one.
    pub(crate) fn identity(self) -> Self {
        match self.number() {
            0 => Self::LEGACY,
            2 => Self::new(PER_THREAD_IDS | thread_number() << 4),
            _ => self,
        }
    }

    /// True if it names a default stream: the legacy one by either of its names, or the thread's.
    #[inline]
    pub(crate) fn is_default(self) -> bool {
        self.number() <= 2
    }

    /// True if it names the legacy default stream, which cannot be captured.
    pub(crate) fn is_legacy(self) -> bool {
        self.number() <= 1
    }

    /// The number that the stream's ops carry.
    ///
    /// # Errors
    /// `INVALID_HANDLE` if it names no stream, here and below.
    #[inline]
    pub(crate) fn op_number(self) -> Result<u16> {
        match self.is_default() {
            true => Ok(0),
            false => self.with(|stream| stream.number),
        }
    }

    /// The stream that the program created; `None` for a default one.
    pub(crate) fn made(self) -> Result<Option<Arc<Stream>>> {
        match self.is_default() {
            true => Ok(None),
            false => self.get().map(Some),
        }
    }

    /// The device of the stream's work.
    pub(crate) fn device(self) -> Result<&'static Device> {
        if self.is_default() {
            return current_device();
        }
        let device = self.with(|stream| stream.device)?;
        process()?.devices.get(device).ok_or(Status::INVALID_DEVICE)
    }

    /// The context in which it was created, or in which a default stream is used.
    pub(crate) fn context(self) -> Result<Handle<Context>> {
        match self.made()? {
            Some(stream) => Ok(stream.context),
            None => Ok(current()?.1.handle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_a_default_stream_of_its_own() {
        let own = Handle::<Stream>::PER_THREAD.identity();
        let other = std::thread::spawn(|| Handle::<Stream>::PER_THREAD.identity());
        let other = other.join().expect("the thread ends");
        assert_eq!(Handle::<Stream>::PER_THREAD.identity(), own);
        assert_ne!(own, other);
        let (null, legacy) = (Handle::<Stream>::NULL, Handle::<Stream>::LEGACY);
        assert_eq!(null.identity(), legacy.identity());
        assert_ne!(own, legacy);
        let made = Handle::<Stream>::new(0x1_0020);
        assert_eq!(made.identity(), made);
    }
}
