//! Contexts. All contexts of a device are views of its one session. Memory of one can be used from
//! the others, as CUDA allows within a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use crate::abi::Handle;
use crate::handle::{Object, table};
use crate::status::{Result, Status};

/// Limits by number, bytes: a thread's stack, the buffer of prints, the heap of kernels.
pub(crate) const LIMITS: [usize; 3] = [1024, 1 << 20, 8 << 20];

/// Number of times that a context was destroyed, released or reset.
static ENDINGS: AtomicUsize = AtomicUsize::new(0);

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: Handle<Self>,
    pub(crate) device: usize,
    pub(crate) flags: AtomicU32,
    pub(crate) primary: bool,
    /// The limits as set by the program, or their defaults. The device grows its stacks and its
    /// print buffer as kernels need them, so these values are only reported.
    pub(crate) limits: [AtomicUsize; LIMITS.len()],
    /// Number of retains; primary contexts only.
    retained: AtomicI32,
    /// Number of attachments, including its creation; contexts of the program only.
    attached: AtomicU32,
}

table!(Context, INVALID_CONTEXT);

/// The primary context of each device.
pub(crate) struct PrimaryContexts(Vec<Arc<Context>>);

impl PrimaryContexts {
    /// The primary contexts of `devices` devices.
    pub(crate) fn new(devices: usize) -> Self {
        let primary = |device| Context::add(device, 0, true).1;
        Self((0..devices).map(primary).collect())
    }

    /// The primary context of a device.
    pub(crate) fn of(&self, device: usize) -> Result<&Arc<Context>> {
        self.0.get(device).ok_or(Status::INVALID_DEVICE)
    }
}

impl Context {
    /// Creates a context of a device.
    pub(crate) fn add(device: usize, flags: u32, primary: bool) -> (Handle<Self>, Arc<Self>) {
        Self::table().add_with(|handle| Self {
            handle,
            device,
            flags: AtomicU32::new(flags),
            primary,
            limits: LIMITS.map(AtomicUsize::new),
            retained: AtomicI32::new(0),
            attached: AtomicU32::new(1),
        })
    }

    /// Number of times that a context was destroyed, released or reset. While it stays equal,
    /// active contexts stay active.
    #[inline]
    pub(crate) fn endings() -> usize {
        ENDINGS.load(Ordering::Acquire)
    }

    /// Notes that a context was destroyed, released or reset.
    pub(crate) fn note_ending() {
        ENDINGS.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn retain(&self) {
        self.retained.fetch_add(1, Ordering::Relaxed);
    }

    /// Releases one retain.
    pub(crate) fn release(&self) -> Result {
        let fewer = |count: i32| (count > 0).then(|| count - 1);
        let updated = self
            .retained
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        Self::note_ending();
        updated.map(|_| ()).map_err(|_| Status::INVALID_CONTEXT)
    }

    /// Attaches to the context once more.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` if it is a primary context, here and below.
    pub(crate) fn attach(&self) -> Result {
        match self.primary {
            true => Err(Status::INVALID_CONTEXT),
            false => {
                self.attached.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Detaches once. Returns true if that was the last attachment.
    pub(crate) fn detach(&self) -> Result<bool> {
        match self.primary {
            true => Err(Status::INVALID_CONTEXT),
            false => Ok(self.attached.fetch_sub(1, Ordering::Relaxed) <= 1),
        }
    }

    /// Resets the context to its state before any retain.
    pub(crate) fn reset(&self) {
        self.retained.store(0, Ordering::Relaxed);
        self.flags.store(0, Ordering::Relaxed);
        for (limit, usual) in self.limits.iter().zip(LIMITS) {
            limit.store(usual, Ordering::Relaxed);
        }
        Self::note_ending();
    }

    /// Says whether work can be done in the context: a primary context must be retained.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.primary || self.retained.load(Ordering::Relaxed) > 0
    }
}
