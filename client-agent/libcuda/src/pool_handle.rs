//! Pools by their handles: each device has one of its own, and programs make more.

use std::sync::{Arc, LazyLock};

use crate::device::Device;
use crate::handle::Handles;
use crate::pool::Pool;
use crate::process::process;
use crate::status::{Result, Status};

/// The handle of the first device's own pool; the other devices' follow.
const OWN: usize = 0x100;

/// The pools that programs made, each with the number of its device.
static MADE: LazyLock<Handles<(usize, Arc<Pool>)>> = LazyLock::new(Handles::new);

/// Makes a pool on a device; its handle.
pub(crate) fn make(device: &Device, limit: u64) -> usize {
    MADE.add((device.ordinal, Arc::new(Pool::new(limit))))
}

/// Takes a pool of the program's out. Its allocations stay until they are freed.
pub(crate) fn destroy(handle: usize) -> Result {
    let made = MADE.remove(handle).ok_or(Status::INVALID_VALUE)?;
    let device = process()?.devices.get(made.0);
    let device = device.ok_or(Status::INVALID_VALUE)?;
    device.pools.current().take_if(|current| *current == handle);
    Ok(())
}

/// The pool of a handle, and its device.
pub(crate) fn find(handle: usize) -> Result<(&'static Device, Arc<Pool>)> {
    let devices = &process()?.devices;
    if let Some(made) = MADE.get(handle) {
        let device = devices.get(made.0).ok_or(Status::INVALID_VALUE)?;
        return Ok((device, Arc::clone(&made.1)));
    }
    let device = devices.get(handle.wrapping_sub(OWN));
    let device = device.ok_or(Status::INVALID_VALUE)?;
    Ok((device, Arc::clone(&device.pools.own)))
}

/// The handle of a device's own pool.
pub(crate) fn own(device: &Device) -> usize {
    OWN + device.ordinal
}

/// The handle of the pool that a device's allocations come from where they name none.
pub(crate) fn current(device: &Device) -> usize {
    device.pools.current().unwrap_or_else(|| own(device))
}

/// Makes a pool the one that its device's allocations come from.
pub(crate) fn set_current(device: &Device, handle: usize) -> Result {
    let (of, _) = find(handle)?;
    if of.ordinal != device.ordinal {
        return Err(Status::INVALID_VALUE);
    }
    *device.pools.current() = (handle != own(device)).then_some(handle);
    Ok(())
}
