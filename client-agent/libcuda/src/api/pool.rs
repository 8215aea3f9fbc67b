//! Memory pools and stream-ordered allocation.

use std::ffi::{c_int, c_uint, c_void};

use super::advice::{DEVICE, Location};
use super::device::device;
use crate::abi::{self, Count, Handle, In, InAny, List, Out, OutAny};
use crate::capture;
use crate::current_context::current_device;
use crate::device::Device;
use crate::guard::api;
use crate::pool::{self, Figure, MadePool};
use crate::pool_handle;
use crate::status::{Result, Status, note};
use crate::stream::Stream;

/// `CUmemPoolProps`, as far as it is used.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    kind: c_int,
    handles: c_int,
    location: Location,
    security: *const c_void,
    limit: usize,
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Access {
    location: Location,
    flags: c_int,
}

/// Memory that does not migrate, the only kind there is.
const PINNED: c_int = 1;
/// Read and write access.
const BOTH: c_int = 3;

/// Allocates from a pool. Zero bytes give address 0 without an error, as drivers do for
/// stream-ordered allocation.
fn alloc(
    address: Out<'_, u64>,
    bytes: usize,
    pool: Handle<MadePool>,
    stream: Handle<Stream>,
) -> Result {
    stream.op_number()?;
    capture::refuse(stream)?;
    let (device, pool) = pool_handle::find(pool)?;
    address.put_made(|| match bytes {
        0 => Ok(0),
        _ => device.alloc_from(&pool, bytes),
    })
}

/// The device of a location.
fn located(location: Location) -> Result<&'static Device> {
    match location.kind {
        DEVICE => device(location.id),
        // The host's locations. Other numbers are invalid.
        2..=4 => Err(Status::NOT_SUPPORTED),
        _ => Err(Status::INVALID_VALUE),
    }
}

api! {
    fn cuMemAllocAsync(address: Out<'_, u64>, bytes: usize, stream: Handle<Stream>) ptsz cuMemAllocAsync_ptsz
        => alloc(address, bytes, pool_handle::current(current_device()?), stream);
    fn cuMemAllocFromPoolAsync(
        address: Out<'_, u64>, bytes: usize, pool: Handle<MadePool>, stream: Handle<Stream>,
    ) ptsz cuMemAllocFromPoolAsync_ptsz => alloc(address, bytes, pool, stream);

    fn cuMemPoolCreate(pool: Out<'_, Handle<MadePool>>, properties: In<'_, Properties>) {
        let wanted = properties.take()?;
        if wanted.kind != PINNED {
            return Err(Status::INVALID_VALUE);
        }
        let device = located(wanted.location)?;
        if wanted.handles != 0 {
            let why = "pools have no handles for other processes: memory of cuMemCreate and cuMemAlloc has";
            note(Status::NOT_SUPPORTED, why.into());
            return Err(Status::NOT_SUPPORTED);
        }
        pool.put_made(|| Ok(pool_handle::make(device, wanted.limit as u64)))
    }

    fn cuMemPoolDestroy(pool: Handle<MadePool>) => pool_handle::destroy(pool);

    // The pool keeps nothing that could be released.
    fn cuMemPoolTrimTo(pool: Handle<MadePool>, _bytes: usize) => pool_handle::find(pool);

    fn cuMemPoolGetAttribute(pool: Handle<MadePool>, attribute: c_int, value: OutAny<'_>) {
        let figure = match pool_handle::find(pool)?.1.get(attribute)? {
            Figure::Switch(on) => abi::Figure::Int(on as u32),
            Figure::Bytes(bytes) => abi::Figure::Long(bytes),
        };
        // SAFETY: a pool answers a switch for what CUDA types as an int, and bytes for 64 bits.
        unsafe { value.put(figure) }
    }

    fn cuMemPoolSetAttribute(pool: Handle<MadePool>, attribute: c_int, value: InAny<'_>) {
        let (_, pool) = pool_handle::find(pool)?;
        // SAFETY: CUDA types switches as an int, and all else that a program may set as 64 bits.
        let figure = match unsafe { value.take(pool::is_switch(attribute)) }? {
            abi::Figure::Int(on) => Figure::Switch(on as c_int),
            abi::Figure::Long(bytes) => Figure::Bytes(bytes),
        };
        pool.set(attribute, figure)
    }

    fn cuMemPoolSetAccess<'c>(pool: Handle<MadePool>, access: List<'c, Access>, count: Count<'c>) {
        let (device, _) = pool_handle::find(pool)?;
        for access in access.items(count)? {
            let own = located(access.location)?.ordinal == device.ordinal;
            match (own, access.flags) {
                (true, BOTH) | (false, 0) => {}
                // A device can always access its own memory, and never that of another.
                (true, _) => return Err(Status::INVALID_VALUE),
                (false, _) => return Err(Status::NOT_SUPPORTED),
            }
        }
        Ok(())
    }

    fn cuMemPoolGetAccess(flags: Out<'_, c_int>, pool: Handle<MadePool>, location: In<'_, Location>) {
        let (device, _) = pool_handle::find(pool)?;
        let location = location.take()?;
        let own = location.kind == DEVICE && located(location)?.ordinal == device.ordinal;
        flags.put(if own { BOTH } else { 0 })
    }

    fn cuDeviceGetDefaultMemPool(pool: Out<'_, Handle<MadePool>>, number: c_int)
        => pool.put(pool_handle::own(device(number)?));
    fn cuDeviceGetMemPool(pool: Out<'_, Handle<MadePool>>, number: c_int)
        => pool.put(pool_handle::current(device(number)?));
    fn cuDeviceSetMemPool(number: c_int, pool: Handle<MadePool>)
        => pool_handle::set_current(device(number)?, pool);
    fn cuMemGetDefaultMemPool(pool: Out<'_, Handle<MadePool>>, location: In<'_, Location>, _kind: c_uint)
        => pool.put(pool_handle::own(located(location.take()?)?));
    fn cuMemGetMemPool(pool: Out<'_, Handle<MadePool>>, location: In<'_, Location>, _kind: c_uint)
        => pool.put(pool_handle::current(located(location.take()?)?));
    fn cuMemSetMemPool(location: In<'_, Location>, _kind: c_uint, pool: Handle<MadePool>)
        => pool_handle::set_current(located(location.take()?)?, pool);
}
