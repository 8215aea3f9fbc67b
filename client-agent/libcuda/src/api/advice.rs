//! Hints about memory, and what is asked of them.

use std::ffi::{c_int, c_uint, c_void};

use super::device::device;
use super::put;
use crate::current::current;
use crate::guard::api;
use crate::process::holder;
use crate::status::{Result, Status};
use crate::stream::number_of;

/// `CUmemLocation`: a kind and, of several such places, which.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Location {
    pub(crate) kind: c_int,
    pub(crate) id: c_int,
}

/// A location on a device.
pub(crate) const DEVICE: c_int = 1;
/// `CU_DEVICE_INVALID`: none was advised.
const NOWHERE: c_int = -2;

/// Attributes of ranges that are no places: whether mostly read, and kinds of places.
const PLAIN: [c_int; 3] = [1, 5, 7];

/// A hint about memory is heeded by doing what is done anyway.
fn hint(address: u64) -> Result {
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    let found = device.with(|session| session.line().range(address));
    found.map(|_| ()).ok_or(Status::INVALID_VALUE)
}

/// Answers what was advised about managed memory: nothing.
///
/// # Safety
/// The data have room for so many bytes.
unsafe fn advised(data: *mut c_void, bytes: usize, attribute: c_int, address: u64) -> Result {
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    let whole = bytes > 0 && bytes.is_multiple_of(4);
    if !device.managed.holds(address) || !whole || !(1..=8).contains(&attribute) {
        return Err(Status::INVALID_VALUE);
    }
    let value = if PLAIN.contains(&attribute) {
        0
    } else {
        NOWHERE
    };
    for at in 0..bytes / 4 {
        // SAFETY: the caller vouches for it.
        unsafe { put(data.cast::<c_int>().wrapping_add(at), value)? };
    }
    Ok(())
}

api! {
    fn cuMemPrefetchAsync_v2(
        address: u64,
        bytes: usize,
        location: Location,
        flags: c_uint,
        stream: usize,
    ) also cuMemPrefetchAsync_v2_ptsz {
        let _ = (bytes, location, flags);
        number_of(stream)?;
        hint(address)
    }

    fn cuMemAdvise_v2(address: u64, bytes: usize, advice: c_int, location: Location) {
        let _ = (bytes, advice, location);
        hint(address)
    }

    fn cuMemRangeGetAttribute(
        data: *mut c_void,
        bytes: usize,
        attribute: c_int,
        address: u64,
        count: usize,
    ) {
        let _ = count;
        // SAFETY: the caller's pointer.
        unsafe { advised(data, bytes, attribute, address) }
    }

    fn cuMemRangeGetAttributes(
        data: *const *mut c_void,
        bytes: *const usize,
        attributes: *const c_int,
        number: usize,
        address: u64,
        count: usize,
    ) {
        let _ = count;
        if data.is_null() || bytes.is_null() || attributes.is_null() || number == 0 {
            return Err(Status::INVALID_VALUE);
        }
        for at in 0..number {
            // SAFETY: the caller's lists.
            unsafe {
                let (to, room) = (data.add(at).read(), bytes.add(at).read());
                advised(to, room, attributes.add(at).read(), address)?;
            }
        }
        Ok(())
    }

    fn cuDeviceGraphMemTrim(number: c_int) {
        device(number).map(|_| ())
    }

    fn cuDeviceGetGraphMemAttribute(number: c_int, attribute: c_int, value: *mut c_void) {
        device(number)?;
        if !(0..=3).contains(&attribute) {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer, of 64 bits. No graph here holds memory of its own.
        unsafe { put(value.cast::<u64>(), 0) }
    }

    fn cuCtxResetPersistingL2Cache() {
        current().map(|_| ())
    }
}
