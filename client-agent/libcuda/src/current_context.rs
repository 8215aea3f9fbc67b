//! Which context a thread is in, and with it which device.

use std::sync::Arc;

use crate::context::Context;
use crate::device::Device;
use crate::process::{Process, process};
use crate::stack::{Stack, stack, top};
use crate::status::{Result, Status};

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
    if let Some(device) = process.devices.get(context.device) {
        device.alive()?;
    }
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
    let device = process.contexts.device(handle)?;
    process.devices.get(device).ok_or(Status::INVALID_DEVICE)
}
