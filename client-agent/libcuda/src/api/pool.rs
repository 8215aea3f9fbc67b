//! Pools of memory, and allocations in the order of a stream.

use std::ffi::{c_int, c_uint, c_void};

use super::advice::{DEVICE, Location};
use super::device::device;
use super::put;
use crate::capture;
use crate::current::current_device;
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
fn alloc(address: *mut u64, bytes: usize, handle: usize, stream: usize) -> Result {
    number_of(stream)?;
    capture::refuse(stream)?;
    let (device, pool) = pool_handle::find(handle)?;
    if address.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let made = match bytes {
        0 => 0,
        _ => device.alloc_from(&pool, bytes)?,
    };
    // SAFETY: the caller's pointer.
    unsafe { put(address, made) }
}

/// The pool of a place, by what names it.
///
/// # Safety
/// The pointer is to a location, or null.
unsafe fn at(
    location: *const Location,
    which: fn(&crate::device::Device) -> usize,
) -> Result<usize> {
    if location.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    let location = unsafe { location.read() };
    match location.kind {
        DEVICE => Ok(which(device(location.id)?)),
        _ => Err(Status::NOT_SUPPORTED),
    }
}

api! {
    fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: usize) also cuMemAllocAsync_ptsz {
        alloc(address, bytes, pool_handle::current(current_device()?), stream)
    }

    fn cuMemAllocFromPoolAsync(address: *mut u64, bytes: usize, pool: usize, stream: usize)
        also cuMemAllocFromPoolAsync_ptsz
    {
        alloc(address, bytes, pool, stream)
    }

    fn cuMemPoolCreate(handle: *mut usize, properties: *const Properties) {
        if properties.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        let wanted = unsafe { properties.read_unaligned() };
        let of = match wanted.location.kind {
            DEVICE => device(wanted.location.id)?,
            _ => return Err(Status::NOT_SUPPORTED),
        };
        if handle.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { put(handle, pool_handle::make(of, wanted.limit as u64)) }
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

    fn cuMemPoolGetAttribute(handle: usize, attribute: c_int, value: *mut c_void) {
        match pool_handle::find(handle)?.1.get(attribute)? {
            // SAFETY: the caller's pointer, to an int for a switch.
            Figure::Switch(on) => unsafe { put(value.cast::<c_int>(), on) },
            // SAFETY: the caller's pointer, to 64 bits for a number of bytes.
            Figure::Bytes(bytes) => unsafe { put(value.cast::<u64>(), bytes) },
        }
    }

    fn cuMemPoolSetAttribute(handle: usize, attribute: c_int, value: *const c_void) {
        let (_, pool) = pool_handle::find(handle)?;
        if value.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let figure = match pool::is_switch(attribute) {
            // SAFETY: the caller's pointer, to an int for a switch.
            true => Figure::Switch(unsafe { value.cast::<c_int>().read_unaligned() }),
            // SAFETY: the caller's pointer, to 64 bits for a number of bytes.
            false => Figure::Bytes(unsafe { value.cast::<u64>().read_unaligned() }),
        };
        pool.set(attribute, figure)
    }

    fn cuMemPoolSetAccess(handle: usize, access: *const c_void, count: usize) {
        let _ = (access, count);
        pool_handle::find(handle).map(|_| ())
    }

    fn cuMemPoolGetAccess(flags: *mut c_int, handle: usize, location: *const c_void) {
        let _ = location;
        pool_handle::find(handle)?;
        // SAFETY: the caller's pointer. Reading and writing.
        unsafe { put(flags, 3) }
    }

    fn cuDeviceGetDefaultMemPool(handle: *mut usize, number: c_int) {
        // SAFETY: the caller's pointer.
        unsafe { put(handle, pool_handle::own(device(number)?)) }
    }

    fn cuDeviceGetMemPool(handle: *mut usize, number: c_int) {
        // SAFETY: the caller's pointer.
        unsafe { put(handle, pool_handle::current(device(number)?)) }
    }

    fn cuDeviceSetMemPool(number: c_int, handle: usize) {
        pool_handle::set_current(device(number)?, handle)
    }

    fn cuMemGetDefaultMemPool(handle: *mut usize, location: *const Location, kind: c_uint) {
        let _ = kind;
        // SAFETY: the caller's pointers.
        unsafe { put(handle, at(location, pool_handle::own)?) }
    }

    fn cuMemGetMemPool(handle: *mut usize, location: *const Location, kind: c_uint) {
        let _ = kind;
        // SAFETY: the caller's pointers.
        unsafe { put(handle, at(location, pool_handle::current)?) }
    }

    fn cuMemSetMemPool(location: *const Location, kind: c_uint, handle: usize) {
        let _ = kind;
        // SAFETY: the caller's pointer.
        let own = unsafe { at(location, pool_handle::own)? };
        pool_handle::set_current(pool_handle::find(own)?.0, handle)
    }
}
