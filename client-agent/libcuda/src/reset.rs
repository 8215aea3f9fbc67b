//! The end of everything that a context owns. A primary context itself stays, because it may be
//! retained again.

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

/// Resets the primary context of a device. Host memory stays, pinned or not, so that a program can
/// go on reading it; its device twins are freed.
///
/// # Errors
/// If the device no longer answers; then everything on it ends with its session.
pub(crate) fn primary(device: &'static Device) -> Result {
    let context = process()?.contexts.of(device.ordinal)?;
    let waited = work::sync(device);
    end_handles(context.handle);
    context.reset();
    waited?;
    module::reset(device)?;
    end_memory(context.handle, device, Ends::AtReset)
}

/// Destroys a context that is not a primary one, with its memory, modules, streams, events, arrays,
/// textures and links. Objects of other contexts stay, and so do libraries, memory of pools and
/// host memory.
///
/// # Errors
/// `INVALID_CONTEXT` if there is no such context, or it is a primary one.
pub(crate) fn destroy(context: Handle<Context>) -> Result {
    let found = current_context::made(context)?;
    // A device that no longer answers needs no cleanup: everything on it ends with its session.
    if let Some(device) = process()?.devices.get(found.device) {
        let _ = work::sync(device);
        end_handles(context);
        let _ = end_memory(context, device, Ends::WithContext);
    }
    current_context::destroy(context)
}

/// Destroys the objects that have a handle and no memory.
fn end_handles(context: Handle<Context>) {
    // Destructors of the program: they may free something themselves, and the context still exists.
    tables::end_context(context);
    capture::forget_context(context);
    Stream::table().take(|stream| stream.context == context);
    Event::table().take(|event| event.context == context);
    Link::table().take(|link| link.context == context);
}

/// Unloads modules and frees memory, with the objects in it.
fn end_memory(context: Handle<Context>, device: &Device, now: Ends) -> Result {
    module::unload_all(context, &process()?.devices)?;
    let freed = device.free_all(context, now)?;
    let is_freed = |address| freed.contains(&address);
    array::forget(is_freed);
    texture::forget(is_freed);
    Ok(())
}
