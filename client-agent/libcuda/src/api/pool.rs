//! Pools of memory, and allocations in the order of a stream.

use std::ffi::{c_int, c_uint, c_void};

use super::advice::{DEVICE, Location};
use super::device::device;
use crate::abi::{self, In, InAny, Out, OutAny};
use crate::capture;
use crate::current_context::current_device;
use crate::guard::api;
use crate::pool::{self, Figure};
use crate::pool_handle;
use crate::process::process;
use crate::status::{Result, Status};
use crate::stream::number_of;

/// `CUmemPoolProps`, as far as it says something.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Properties {
    kind: c_int,
    handles: c_int,
    location: Location,
    security: *const c_void,
    limit: usize,
}

/// Allocates from a pool. No bytes are no address, and no error, as drivers have it in the order of a stream.
fn alloc(address: Out<'_, u64>, bytes: usize, handle: usize, stream: usize) -> Result {
    number_of(stream)?;
    capture::refuse(stream)?;
    let (device, pool) = pool_handle::find(handle)?;
    address.check()?;
    let made = match bytes {
        0 => 0,
        _ => device.alloc_from(&pool, bytes)?,
    };
    address.put(made)
}

/// The pool of a place, by what names it.
fn at(location: &In<'_, Location>, which: fn(&crate::device::Device) -> usize) -> Result<usize> {
    let location = location.take()?;
    match location.kind {
        DEVICE => Ok(which(device(location.id)?)),
        _ => Err(Status::NOT_SUPPORTED),
    }
}

api! {
    fn cuMemAllocAsync(address: Out<'_, u64>, bytes: usize, stream: usize) also cuMemAllocAsync_ptsz {
        alloc(address, bytes, pool_handle::current(current_device()?), stream)
    }

    fn cuMemAllocFromPoolAsync(address: Out<'_, u64>, bytes: usize, pool: usize, stream: usize)
        also cuMemAllocFromPoolAsync_ptsz
    {
        alloc(address, bytes, pool, stream)
    }

    fn cuMemPoolCreate(handle: Out<'_, usize>, properties: In<'_, Properties>) {
        let wanted = properties.take()?;
        let of = match wanted.location.kind {
            DEVICE => device(wanted.location.id)?,
            _ => return Err(Status::NOT_SUPPORTED),
        };
        handle.check()?;
        handle.put(pool_handle::make(of, wanted.limit as u64))
    }

    fn cuMemPoolDestroy(handle: usize) {
        process()?;
        pool_handle::destroy(handle)
    }

    fn cuMemPoolTrimTo(handle: usize, bytes: usize) {
        // It keeps nothing that could be given back.
        let _ = bytes;
        pool_handle::find(handle).map(|_| ())
    }

    fn cuMemPoolGetAttribute(handle: usize, attribute: c_int, value: OutAny<'_>) {
        let figure = match pool_handle::find(handle)?.1.get(attribute)? {
            Figure::Switch(on) => abi::Figure::Int(on as u32),
            Figure::Bytes(bytes) => abi::Figure::Long(bytes),
        };
        // SAFETY: a pool answers a switch for what CUDA types as an int, and bytes for 64 bits.
        unsafe { value.put(figure) }
    }

    fn cuMemPoolSetAttribute(handle: usize, attribute: c_int, value: InAny<'_>) {
        let (_, pool) = pool_handle::find(handle)?;
        let figure = match pool::is_switch(attribute) {
            // SAFETY: `is_switch` knows the attributes that CUDA types as an int.
            true => Figure::Switch(unsafe { value.typed::<c_int>() }.take()?),
            // SAFETY: CUDA types all other attributes that a program may set as 64 bits.
            false => Figure::Bytes(unsafe { value.typed::<u64>() }.take()?),
        };
        pool.set(attribute, figure)
    }

    fn cuMemPoolSetAccess(handle: usize, access: *const c_void, count: usize) {
        let _ = (access, count);
        pool_handle::find(handle).map(|_| ())
    }

    fn cuMemPoolGetAccess(flags: Out<'_, c_int>, handle: usize, location: *const c_void) {
        let _ = location;
        pool_handle::find(handle)?;
        // Reading and writing.
        flags.put(3)
    }

    fn cuDeviceGetDefaultMemPool(handle: Out<'_, usize>, number: c_int) {
        handle.put(pool_handle::own(device(number)?))
    }

    fn cuDeviceGetMemPool(handle: Out<'_, usize>, number: c_int) {
        handle.put(pool_handle::current(device(number)?))
    }

    fn cuDeviceSetMemPool(number: c_int, handle: usize) {
        pool_handle::set_current(device(number)?, handle)
    }

    fn cuMemGetDefaultMemPool(handle: Out<'_, usize>, location: In<'_, Location>, kind: c_uint) {
        let _ = kind;
        handle.put(at(&location, pool_handle::own)?)
    }

    fn cuMemGetMemPool(handle: Out<'_, usize>, location: In<'_, Location>, kind: c_uint) {
        let _ = kind;
        handle.put(at(&location, pool_handle::current)?)
    }

    fn cuMemSetMemPool(location: In<'_, Location>, kind: c_uint, handle: usize) {
        let _ = kind;
        let own = at(&location, pool_handle::own)?;
        pool_handle::set_current(pool_handle::find(own)?.0, handle)
    }
}
