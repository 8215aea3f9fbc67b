//! Pools by their handles: each device has a default pool, and programs create more.

use std::sync::Arc;

use crate::abi::Handle;
use crate::device::Device;
use crate::handle::Object;
use crate::pool::{MadePool, Pool};
use crate::process::process;
use crate::status::{Result, Status};

/// The handle of the first device's default pool; those of the other devices follow.
const OWN: usize = 0x100;

/// Creates a pool on a device and returns its handle.
pub(crate) fn make(device: &Device, limit: u64) -> Handle<MadePool> {
    MadePool::table().add(MadePool(device.ordinal, Arc::new(Pool::new(limit))))
}

/// Destroys a pool of the program. Its allocations stay until they are freed.
pub(crate) fn destroy(pool: Handle<MadePool>) -> Result {
    let made = pool.remove()?;
    let device = process()?.devices.get(made.0);
    let device = device.ok_or(Status::INVALID_VALUE)?;
    device.pools.current().take_if(|current| *current == pool);
    Ok(())
}

/// The pool of a handle, and its device.
pub(crate) fn find(pool: Handle<MadePool>) -> Result<(&'static Device, Arc<Pool>)> {
    let devices = &process()?.devices;
    if let Ok(made) = pool.get() {
        let device = devices.get(made.0).ok_or(Status::INVALID_VALUE)?;
        return Ok((device, Arc::clone(&made.1)));
    }
    let device = devices.get(pool.number().wrapping_sub(OWN));
    let device = device.ok_or(Status::INVALID_VALUE)?;
    Ok((device, Arc::clone(&device.pools.own)))
}

/// The handle of an allocation's pool; null if it has none, or if the pool is destroyed.
pub(crate) fn of(device: &Device, address: u64) -> Handle<MadePool> {
    let Some(pool) = device.pools.of(address) else {
        return Handle::NULL;
    };
    if Arc::ptr_eq(&pool, &device.pools.own) {
        return own(device);
    }
    let made = MadePool::table().which(|made| Arc::ptr_eq(&made.1, &pool));
    made.into_iter().next().unwrap_or(Handle::NULL)
}

/// The handle of a device's default pool.
pub(crate) fn own(device: &Device) -> Handle<MadePool> {
    Handle::new(OWN + device.ordinal)
}

/// The handle of the pool for a device's allocations that name none.
pub(crate) fn current(device: &Device) -> Handle<MadePool> {
    device.pools.current().unwrap_or_else(|| own(device))
}

/// Makes a pool the current pool of its device.
pub(crate) fn set_current(device: &Device, pool: Handle<MadePool>) -> Result {
    let (of, _) = find(pool)?;
    if of.ordinal != device.ordinal {
        return Err(Status::INVALID_VALUE);
    }
    *device.pools.current() = (pool != own(device)).then_some(pool);
    Ok(())
}
