//! Copies between and within the memory of the program and of the devices.

#![expect(unsafe_code, reason = "host memory comes as pointers of the program's")]

use std::ffi::c_void;

use crate::abi::{Bytes, Room, present};
use crate::current_context::current_device;
use crate::device::Device;
use crate::host;
use crate::process::holder;
use crate::status::Result;
use crate::tensor_map;
use crate::work;

/// The device that holds an address, else the current one, which will report that it does not.
pub(crate) fn device_of(address: u64) -> Result<&'static Device> {
    let current = current_device()?;
    Ok(holder(address)?.unwrap_or(current))
}

/// True if an address is of pinned host memory. Addresses are unified, so a program may name it
/// instead of a device address.
fn is_pinned(address: u64) -> Result<bool> {
    Ok(holder(address)?.is_none() && host::find(address as usize).is_some())
}

/// Copies from the program to a device, or to pinned memory that is named instead.
///
/// # Safety
/// The source is null or has `count` bytes, and pinned memory has as many.
pub(crate) unsafe fn to_device(to: u64, from: *const c_void, count: usize) -> Result {
    let device = device_of(to)?;
    if is_pinned(to)? {
        // SAFETY: the source has `count` bytes, and so does the pinned memory that is the target.
        return unsafe { any(to, from as u64, count) };
    }
    if count == 0 {
        return Ok(());
    }
    // SAFETY: the source has `count` bytes, and they are read before the caller goes on.
    let from = unsafe { Bytes::at(from, count)? };
    work::submit_at(device, to, |session| session.copy_in(to, from))?;
    tensor_map::copied(device, to, from)
}

/// Copies from a device, or from pinned memory that is named instead, to the program.
///
/// # Safety
/// The target is null or has room for `count` bytes, which have no other user meanwhile. Pinned
/// memory has as many.
pub(crate) unsafe fn to_host(to: *mut c_void, from: u64, count: usize) -> Result {
    let device = device_of(from)?;
    if is_pinned(from)? {
        // SAFETY: the target has room for `count` bytes, and the pinned memory that is the source
        // has them.
        return unsafe { any(to as u64, from, count) };
    }
    if count == 0 {
        return Ok(());
    }
    // SAFETY: the target has room for `count` bytes, which are ours until the wait for them is
    // over.
    work::read(device, from, unsafe { Room::at(to, count)? })
}

/// Copies between addresses of devices, or of pinned memory that is named instead.
///
/// # Safety
/// Pinned memory has `count` bytes.
pub(crate) unsafe fn within(to: u64, from: u64, count: usize) -> Result {
    let (target, source) = (device_of(to)?, device_of(from)?);
    if is_pinned(to)? || is_pinned(from)? {
        // SAFETY: the pinned side has `count` bytes, and the other is a device's or pinned too.
        return unsafe { any(to, from, count) };
    }
    if count == 0 {
        return Ok(());
    }
    if target.ordinal == source.ordinal {
        let at = if target.mirrors.covers(from) {
            from
        } else {
            to
        };
        return work::submit_at(target, at, |session| session.copy(to, from, count as u64));
    }
    let mut through = vec![0; count];
    work::read(source, from, &mut through)?;
    work::submit_at(target, to, |session| session.copy_in(to, &through))
}

/// Settles memory that the program sees directly, at the end of a synchronous call.
pub(crate) fn settle(to: u64) -> Result {
    work::settle(device_of(to)?, to)
}

/// True if an address is of a device, for copies that do not state the kind of their sides.
pub(crate) fn is_device(address: u64) -> Result<bool> {
    Ok(host::find(address as usize).is_none() && holder(address)?.is_some())
}

/// Copies between sides that are the host's or a device's by their addresses.
///
/// # Safety
/// Host addresses have `count` bytes.
pub(crate) unsafe fn any(to: u64, from: u64, count: usize) -> Result {
    let current = current_device()?;
    if count == 0 {
        return Ok(());
    }
    // SAFETY: a side that is not a device's is of the program's memory, with `count` bytes.
    unsafe {
        match (is_device(to)?, is_device(from)?) {
            (true, true) => within(to, from, count),
            (true, false) => to_device(to, from as *const c_void, count),
            (false, true) => to_host(to as *mut c_void, from, count),
            (false, false) => between(current, to as *mut c_void, from as *const c_void, count),
        }
    }
}

/// Copies within the program's memory, after the device's work; the sides may overlap.
///
/// # Safety
/// Pointers that are not null have `count` bytes, and the target has no other user meanwhile.
unsafe fn between(device: &Device, to: *mut c_void, from: *const c_void, count: usize) -> Result {
    work::sync(device)?;
    let (from, to) = (present(from)?.cast::<u8>(), present(to)?.cast_mut().cast());
    // SAFETY: neither is null and both have `count` bytes; this copy allows an overlap.
    unsafe { std::ptr::copy(from, to, count) };
    Ok(())
}
