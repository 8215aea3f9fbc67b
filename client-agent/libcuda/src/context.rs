//! Contexts. All contexts of a device are views of its one session: memory of one can be used from
//! the others, as CUDA allows within a process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

use crate::device::Device;
use crate::handle::Handles;
use crate::stack::stack;
use crate::status::{Result, Status};

/// Limits by their numbers: a thread's stack, what is kept of prints, the heap of kernels, bytes.
pub(crate) const LIMITS: [usize; 3] = [1024, 1 << 20, 8 << 20];

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: usize,
    pub(crate) device: usize,
    pub(crate) flags: AtomicU32,
    pub(crate) primary: bool,
    /// As the program set them, and what they are before. The device grows its stacks and what it keeps of
    /// prints as kernels need it, so that they only have to be told back.
    pub(crate) limits: [AtomicUsize; LIMITS.len()],
    /// How often it was retained: primary contexts only.
    retained: AtomicI32,
}

/// All contexts.
pub(crate) struct Contexts {
    table: Handles<Context>,
    /// The primary context of each device.
    primary: Vec<Arc<Context>>,
}

impl Contexts {
    pub(crate) fn new(devices: &[Device]) -> Self {
        let table = Handles::new();
        let primary = (0..devices.len())
            .map(|device| {
                table
                    .add_with(|handle| Context::new(handle, device, 0, true))
                    .1
            })
            .collect();
        Self { table, primary }
    }

    pub(crate) fn get(&self, handle: usize) -> Result<Arc<Context>> {
        self.table.get(handle).ok_or(Status::INVALID_CONTEXT)
    }

    /// The device of a context, if there still is one.
    #[inline]
    pub(crate) fn device(&self, handle: usize) -> Result<usize> {
        let device = self.table.with(handle, |context| context.device);
        device.ok_or(Status::CONTEXT_IS_DESTROYED)
    }

    /// The primary context of a device.
    pub(crate) fn primary(&self, device: usize) -> Result<&Arc<Context>> {
        self.primary.get(device).ok_or(Status::INVALID_DEVICE)
    }

    /// A new context, current from now on.
    pub(crate) fn create(&self, device: usize, flags: u32) -> Result<usize> {
        let (handle, _) = self
            .table
            .add_with(|handle| Context::new(handle, device, flags, false));
        stack(|stack| stack.push(handle))?;
        Ok(handle)
    }

    pub(crate) fn destroy(&self, handle: usize) -> Result {
        if self.get(handle)?.primary {
            return Err(Status::INVALID_CONTEXT);
        }
        self.table.remove(handle);
        stack(|stack| {
            if stack.last() == Some(handle) {
                stack.pop();
            }
        })
    }
}

impl Context {
    fn new(handle: usize, device: usize, flags: u32, primary: bool) -> Self {
        Self {
            handle,
            device,
            flags: AtomicU32::new(flags),
            primary,
            limits: LIMITS.map(AtomicUsize::new),
            retained: AtomicI32::new(0),
        }
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
        updated.map(|_| ()).map_err(|_| Status::INVALID_CONTEXT)
    }

    /// As it was before anybody retained it.
    pub(crate) fn reset(&self) {
        self.retained.store(0, Ordering::Relaxed);
        self.flags.store(0, Ordering::Relaxed);
        for (limit, usual) in self.limits.iter().zip(LIMITS) {
            limit.store(usual, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        !self.primary || self.retained.load(Ordering::Relaxed) > 0
    }
}
