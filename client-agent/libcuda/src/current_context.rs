//! The current context of a thread, and with it the current device.

use std::cell::Cell;
use std::sync::Arc;

use crate::abi::Handle;
use crate::context::Context;
use crate::device::Device;
use crate::process::{Process, process};
use crate::stack::{Stack, stack, top};
use crate::status::{Result, Status};

/// Creates a context and makes it current.
pub(crate) fn create(device: usize, flags: u32) -> Result<Handle<Context>> {
    let (handle, _) = Context::add(device, flags, false);
    stack(|stack| stack.push(handle))?;
    Ok(handle)
}

/// A context that the program created; an error for a primary context.
pub(crate) fn made(context: Handle<Context>) -> Result<Arc<Context>> {
    let found = context.get()?;
    match found.primary {
        true => Err(Status::INVALID_CONTEXT),
        false => Ok(found),
    }
}

/// Destroys a context that the program created.
pub(crate) fn destroy(context: Handle<Context>) -> Result {
    made(context)?;
    context.remove()?;
    Context::note_ending();
    stack(|stack| {
        if stack.last() == Some(context) {
            stack.pop();
        }
    })
}

/// Makes a context current on top of the others.
pub(crate) fn push(context: Handle<Context>) -> Result {
    context.check()?;
    stack(|stack| stack.push(context))
}

/// Pops the current context; the one below becomes current.
pub(crate) fn pop() -> Result<Handle<Context>> {
    stack(Stack::pop)?.ok_or(Status::INVALID_CONTEXT)
}

/// Replaces the current context; null pops it.
pub(crate) fn set(context: Handle<Context>) -> Result {
    if !context.is_null() {
        context.check()?;
    }
    stack(|stack| {
        stack.pop();
        if !context.is_null() {
            stack.push(context);
        }
    })
}

impl Handle<Context> {
    /// Returns the context, or the current one for null.
    pub(crate) fn or_current(self) -> Result<Arc<Context>> {
        match self.is_null() {
            true => Ok(current()?.1),
            false => self.get(),
        }
    }
}

/// The process and the current context.
pub(crate) fn current() -> Result<(&'static Process, Arc<Context>)> {
    let process = process()?;
    let context = known()?.get().ok().filter(|it| it.is_active());
    let context = context.ok_or(Status::CONTEXT_IS_DESTROYED)?;
    if let Some(device) = process.devices.get(context.device) {
        device.alive()?;
    }
    Ok((process, context))
}

/// The device of a context that was active when the count of ended contexts was `endings`.
#[derive(Clone, Copy)]
struct Found {
    context: Handle<Context>,
    endings: usize,
    device: usize,
}

thread_local! {
    /// The result of the thread's last call: most threads stay with one context.
    static FOUND: Cell<Found> = const {
        Cell::new(Found { context: Handle::NULL, endings: 0, device: 0 })
    };
}

/// The device of the current context.
#[inline]
pub(crate) fn current_device() -> Result<&'static Device> {
    let process = process()?;
    let (context, found) = (known()?, FOUND.get());
    let device = match found.context == context && found.endings == Context::endings() {
        true => found.device,
        false => find_device(context)?,
    };
    process.devices.get(device).ok_or(Status::INVALID_DEVICE)
}

#[cold]
fn find_device(context: Handle<Context>) -> Result<usize> {
    // Loaded before the context is checked: a context that ends meanwhile is noticed by the next
    // call.
    let endings = Context::endings();
    let device = context.with(|context| context.is_active().then_some(context.device));
    let device = device.ok().flatten().ok_or(Status::CONTEXT_IS_DESTROYED)?;
    FOUND.set(Found {
        context,
        endings,
        device,
    });
    Ok(device)
}

/// The handle of the current context, which may have been destroyed or released.
#[inline]
fn known() -> Result<Handle<Context>> {
    let context = top();
    match context.is_null() {
        true => Err(Status::INVALID_CONTEXT),
        false => Ok(context),
    }
}
