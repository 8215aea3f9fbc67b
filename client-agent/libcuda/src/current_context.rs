//! The current context of a thread, and with it the current device.

use std::sync::Arc;

use crate::abi::Handle;
use crate::context::Context;
use crate::device::Device;
use crate::process::{Process, process};
use crate::stack::{Stack, stack, top};
use crate::status::{Result, Status};

/// Makes a context, current from now on.
pub(crate) fn create(device: usize, flags: u32) -> Result<Handle<Context>> {
    let (handle, _) = Context::add(device, flags, false);
    stack(|stack| stack.push(handle))?;
    Ok(handle)
}

/// A context that the program made.
pub(crate) fn made(context: Handle<Context>) -> Result<Arc<Context>> {
    let found = context.get()?;
    match found.primary {
        true => Err(Status::INVALID_CONTEXT),
        false => Ok(found),
    }
}

/// Forgets a context that the program made.
pub(crate) fn destroy(context: Handle<Context>) -> Result {
    made(context)?;
    context.remove()?;
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

/// Takes the current context off: the one below is current then.
pub(crate) fn pop() -> Result<Handle<Context>> {
    stack(Stack::pop)?.ok_or(Status::INVALID_CONTEXT)
}

/// Replaces the current context; null takes it off.
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
    /// The context, or the current one for null.
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

/// The device of the current context.
#[inline]
pub(crate) fn current_device() -> Result<&'static Device> {
    let process = process()?;
    let device = known()?.with(|context| context.is_active().then_some(context.device));
    let device = device.ok().flatten();
    let device = device.ok_or(Status::CONTEXT_IS_DESTROYED)?;
    process.devices.get(device).ok_or(Status::INVALID_DEVICE)
}

/// The handle of the current context, which may be of one that was destroyed or released.
#[inline]
fn known() -> Result<Handle<Context>> {
    let context = top();
    match context.is_null() {
        true => Err(Status::INVALID_CONTEXT),
        false => Ok(context),
    }
}
