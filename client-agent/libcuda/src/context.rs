//! Contexts, and each thread's stack of them. All contexts of a device are views of its one
//! session: memory of one can be used from the others, as CUDA allows within a process.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

use crate::device::Device;
use crate::handle::Handles;
use crate::process::{Process, process};
use crate::status::{Result, Status};

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) handle: usize,
    pub(crate) device: usize,
    pub(crate) flags: AtomicU32,
    pub(crate) primary: bool,
    /// How often it was retained: primary contexts only.
    retained: AtomicI32,
}

/// All contexts.
pub(crate) struct Contexts {
    table: Handles<Context>,
    /// The primary context of each device.
    primary: Vec<Arc<Context>>,
}

/// Contexts of a thread that lie in the stack itself.
const NEAR: usize = 14;

/// A thread's contexts. Nothing of it is destroyed with the thread's other values: handlers of the
/// process's exit, such as destructors of the program's, run behind that and still have a context.
#[derive(Debug)]
struct Stack {
    near: [usize; NEAR],
    far: ManuallyDrop<Vec<usize>>,
    depth: usize,
}

impl Stack {
    const EMPTY: Self = Self {
        near: [0; NEAR],
        far: ManuallyDrop::new(Vec::new()),
        depth: 0,
    };

    fn last(&self) -> Option<usize> {
        let index = self.depth.checked_sub(1)?;
        self.near.get(index).or_else(|| self.far.last()).copied()
    }

    fn push(&mut self, handle: usize) {
        match self.near.get_mut(self.depth) {
            Some(place) => *place = handle,
            None => self.far.push(handle),
        }
        self.depth += 1;
    }

    fn pop(&mut self) -> Option<usize> {
        let last = self.last()?;
        self.depth -= 1;
        if self.depth >= NEAR {
            self.far.pop();
        } else {
            // Freed here, for nothing else does.
            *self.far = Vec::new();
        }
        Some(last)
    }
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack::EMPTY) };
}

fn stack<R>(body: impl FnOnce(&mut Stack) -> R) -> Result<R> {
    STACK
        .with(|stack| {
            let stack = stack.try_borrow_mut();
            stack.map(|mut stack| body(&mut stack))
        })
        .map_err(|_| Status::INVALID_CONTEXT)
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

    pub(crate) fn is_active(&self) -> bool {
        !self.primary || self.retained.load(Ordering::Relaxed) > 0
    }
}

/// The thread's current context: 0 if there is none.
pub(crate) fn top() -> usize {
    stack(|stack| stack.last()).ok().flatten().unwrap_or(0)
}

/// Makes a context current on top of the others.
pub(crate) fn push(handle: usize) -> Result {
    process()?.contexts.get(handle)?;
    stack(|stack| stack.push(handle))
}

/// Takes the current context off: the one below is current then.
pub(crate) fn pop() -> Result<usize> {
    process()?;
    stack(Stack::pop)?.ok_or(Status::INVALID_CONTEXT)
}

/// Replaces the current context; 0 takes it off.
pub(crate) fn set(handle: usize) -> Result {
    let process = process()?;
    if handle == 0 {
        return stack(|stack| {
            stack.pop();
        });
    }
    process.contexts.get(handle)?;
    stack(|stack| {
        stack.pop();
        stack.push(handle);
    })
}

/// The process and the current context.
pub(crate) fn current() -> Result<(&'static Process, Arc<Context>)> {
    let process = process()?;
    let handle = top();
    if handle == 0 {
        return Err(Status::INVALID_CONTEXT);
    }
    let context = process
        .contexts
        .get(handle)
        .map_err(|_| Status::CONTEXT_IS_DESTROYED)?;
    Ok((process, context))
}

/// The device of the current context.
#[inline]
pub(crate) fn current_device() -> Result<&'static Device> {
    let process = process()?;
    let handle = top();
    if handle == 0 {
        return Err(Status::INVALID_CONTEXT);
    }
    let device = process
        .contexts
        .table
        .with(handle, |context| context.device);
    let device = device.ok_or(Status::CONTEXT_IS_DESTROYED)?;
    process.devices.get(device).ok_or(Status::INVALID_DEVICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_as_deep_as_it_is_used() {
        let mut stack = Stack::EMPTY;
        assert_eq!(stack.pop(), None);
        for handle in 1..=40 {
            stack.push(handle);
            assert_eq!(stack.last(), Some(handle));
        }
        for handle in (1..=40).rev() {
            assert_eq!(stack.pop(), Some(handle));
        }
        assert_eq!((stack.last(), stack.far.capacity()), (None, 0));
    }

    #[test]
    fn a_stack_outlives_its_threads_other_values() {
        assert!(!std::mem::needs_drop::<RefCell<Stack>>());
    }
}
