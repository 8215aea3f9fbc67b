//! The end of all that a primary context has. The context itself stays, for it may be retained again.

use crate::device::Device;
use crate::handle::Object;
use crate::process::process;
use crate::status::Result;
use crate::stream::Stream;
use crate::{array, module, tables, texture, work};

/// Resets the primary context of a device. Host memory stays as it is, pinned or not: a program that
/// still reads it goes on; the devices' twins of it are freed.
///
/// # Errors
/// Where the device answers no more: then what is on it ends with its session.
pub(crate) fn primary(device: &'static Device) -> Result {
    let process = process()?;
    let context = process.contexts.of(device.ordinal)?;
    let waited = work::sync(device);
    // Destructors of the program's: they may free something themselves.
    tables::end_context(context.handle);
    Stream::table().take(|stream| stream.context == context.handle);
    context.reset();
    waited?;
    module::reset(context.handle, device, &process.devices)?;
    let freed = device.free_all(context.handle)?;
    let is_freed = |address| freed.contains(&address);
    array::forget(is_freed);
    texture::forget(is_freed);
    Ok(())
}
