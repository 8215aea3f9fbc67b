//! Contexts. All contexts of a device are views of its one session: memory of one can be used from
//! the others, as CUDA allows within a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use crate::abi::Handle;
use crate::handle::{Object, table};
use crate::status::{Result, Status};

/// Limits by their numbers: a thread's stack, what is kept of prints, the heap of kernels, bytes.
pub(crate) const LIMITS: [usize; 3] = [1024, 1 << 20, 8 << 20];

/// How often a context was destroyed, released or reset.
static ENDINGS: AtomicUsize = AtomicUsize::new(0);

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: Handle<Self>,
    pub(crate) device: usize,
    pub(crate) flags: AtomicU32,
    pub(crate) primary: bool,
    /// As the program set them, and what they are before. The device grows its stacks and what it keeps of
    /// prints as kernels need it, so that these are only reported.
    pub(crate) limits: [AtomicUsize; LIMITS.len()],
    /// How often it was retained: primary contexts only.
    retained: AtomicI32,
    /// Attachments, its making among them: contexts of the program's only.
    attached: AtomicU32,
}

table!(Context, INVALID_CONTEXT);

/// The primary context of each device.
pub(crate) struct PrimaryContexts(Vec<Arc<Context>>);

impl PrimaryContexts {
    /// Those of so many devices.
    pub(crate) fn new(devices: usize) -> Self {
        let primary = |device| Context::add(device, 0, true).1;
        Self((0..devices).map(primary).collect())
    }

    /// A device's.
    pub(crate) fn of(&self, device: usize) -> Result<&Arc<Context>> {
        self.0.get(device).ok_or(Status::INVALID_DEVICE)
    }
}

impl Context {
    /// A new context of a device.
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

    /// How often a context was destroyed, released or reset: while that stays, active ones are active still.
    #[inline]
    pub(crate) fn endings() -> usize {
        ENDINGS.load(Ordering::Acquire)
    }

    /// Notes that one was destroyed, released or reset.
    pub(crate) fn note_ending() {
        ENDINGS.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn retain(&self) {
        self.retained.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives one retain back.
    pub(crate) fn release(&self) -> Result {
        let fewer = |count: i32| (count > 0).then(|| count - 1);
        let updated = self
            .retained
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
        Self::note_ending();
        updated.map(|_| ()).map_err(|_| Status::INVALID_CONTEXT)
    }

    /// Attaches to it once more.
    ///
    /// # Errors
    /// `INVALID_CONTEXT` where it is a primary one, here and below.
    pub(crate) fn attach(&self) -> Result {
        match self.primary {
            true => Err(Status::INVALID_CONTEXT),
            false => {
                self.attached.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Detaches once; whether that was the last time.
    pub(crate) fn detach(&self) -> Result<bool> {
        match self.primary {
            true => Err(Status::INVALID_CONTEXT),
            false => Ok(self.attached.fetch_sub(1, Ordering::Relaxed) <= 1),
        }
    }

    /// As it was before anybody retained it.
    pub(crate) fn reset(&self) {
        self.retained.store(0, Ordering::Relaxed);
        self.flags.store(0, Ordering::Relaxed);
        for (limit, usual) in self.limits.iter().zip(LIMITS) {
            limit.store(usual, Ordering::Relaxed);
        }
        Self::note_ending();
    }

    /// Says whether work can be done in it: a primary context needs to be retained.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.primary || self.retained.load(Ordering::Relaxed) > 0
    }
}
