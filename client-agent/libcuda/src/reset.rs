//! The end of all that a context has. A primary one itself stays, for it may be retained again.

use crate::abi::Handle;
use crate::api::Link;
use crate::context::Context;
use crate::device::Device;
use crate::event::Event;
use crate::handle::Object;
use crate::held::Ends;
use crate::process::process;
use crate::status::Result;
use crate::stream::Stream;
use crate::{array, capture, current_context, module, tables, texture, work};

/// Resets the primary context of a device. Host memory stays as it is, pinned or not: a program that
/// still reads it goes on; the devices' twins of it are freed.
///
/// # Errors
/// Where the device answers no more: then what is on it ends with its session.
pub(crate) fn primary(device: &'static Device) -> Result {
    let context = process()?.contexts.of(device.ordinal)?;
    let waited = work::sync(device);
    end_handles(context.handle);
    context.reset();
    waited?;
    module::reset(device)?;
    end_memory(context.handle, device, Ends::AtReset)
}

/// Destroys a context that is no primary one, with its memory, modules, streams, events, arrays, textures and
/// links. What other contexts have stays, and so do libraries, memory of pools and host memory.
///
/// # Errors
/// `INVALID_CONTEXT` where there is no such context, or it is a primary one.
pub(crate) fn destroy(context: Handle<Context>) -> Result {
    let found = current_context::made(context)?;
    // A device that answers no more has nothing of it: that ends with its session.
    if let Some(device) = process()?.devices.get(found.device) {
        let _ = work::sync(device);
        end_handles(context);
        let _ = end_memory(context, device, Ends::WithContext);
    }
    current_context::destroy(context)
}

/// Ends what has a handle and no memory.
fn end_handles(context: Handle<Context>) {
    // Destructors of the program's: they may free something themselves, and the context is still there.
    tables::end_context(context);
    capture::forget_context(context);
    Stream::table().take(|stream| stream.context == context);
    Event::table().take(|event| event.context == context);
    Link::table().take(|link| link.context == context);
}

/// Unloads modules and frees memory, with what lies there.
fn end_memory(context: Handle<Context>, device: &Device, now: Ends) -> Result {
    module::unload_all(context, &process()?.devices)?;
    let freed = device.free_all(context, now)?;
    let is_freed = |address| freed.contains(&address);
    array::forget(is_freed);
    texture::forget(is_freed);
    Ok(())
}
