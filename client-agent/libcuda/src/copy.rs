//! Copies and sets, between and within the program's memory and the devices'.

#![expect(unsafe_code, reason = "host memory comes as pointers of the program's")]

use std::ffi::c_void;

use crate::current_context::current_device;
use crate::device::Device;
use crate::host;
use crate::process::holder;
use crate::status::{Result, Status};
use crate::work;

/// Bytes of the program's, which gives an address and says how many they are.
///
/// # Safety
/// The pointer is to so many bytes.
unsafe fn bytes<'a>(from: *const c_void, count: usize) -> Result<&'a [u8]> {
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: it is not null, and the caller says how many bytes are there.
    Ok(unsafe { std::slice::from_raw_parts(from.cast(), count) })
}

/// Bytes of the host to be written.
///
/// # Safety
/// As [`bytes`], and nobody else uses them.
unsafe fn room<'a>(to: *mut c_void, count: usize) -> Result<&'a mut [u8]> {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: it is not null, there is room for so many bytes, and nobody else uses it meanwhile.
    Ok(unsafe { std::slice::from_raw_parts_mut(to.cast(), count) })
}

/// The device that holds an address, else the current one, which will say that it does not.
fn device_of(address: u64) -> Result<&'static Device> {
    let current = current_device()?;
    Ok(holder(address)?.unwrap_or(current))
}

/// Whether an address is pinned memory of the host's: addresses are unified, and so a program may name it
/// where a device's is asked for.
fn is_pinned(address: u64) -> Result<bool> {
    Ok(holder(address)?.is_none() && host::find(address as usize).is_some())
}

/// Copies from the program to a device, or to pinned memory that is named instead.
///
/// # Safety
/// As [`bytes`], and pinned memory is as large.
pub(crate) unsafe fn to_device(to: u64, from: *const c_void, count: usize) -> Result {
    let device = device_of(to)?;
    if is_pinned(to)? {
        // SAFETY: the source is of so many bytes, and so is the pinned memory that is the target.
        return unsafe { any(to, from as u64, count) };
    }
    if count == 0 {
        return Ok(());
    }
    // SAFETY: the caller says of the source what this asks.
    let from = unsafe { bytes(from, count)? };
    work::submit_at(device, to, |session| session.copy_in(to, from))
}

/// Copies from a device, or from pinned memory that is named instead, to the program.
///
/// # Safety
/// As [`room`], and pinned memory is as large.
pub(crate) unsafe fn to_host(to: *mut c_void, from: u64, count: usize) -> Result {
    let device = device_of(from)?;
    if is_pinned(from)? {
        // SAFETY: the target has room for so many bytes, and the pinned memory that is the source has them.
        return unsafe { any(to as u64, from, count) };
    }
    if count == 0 {
        return Ok(());
    }
    // SAFETY: the caller says of the target what this asks.
    work::read(device, from, unsafe { room(to, count)? })
}

/// Copies between addresses of devices, or of pinned memory that is named instead.
///
/// # Safety
/// Pinned memory is of so many bytes.
pub(crate) unsafe fn within(to: u64, from: u64, count: usize) -> Result {
    let (target, source) = (device_of(to)?, device_of(from)?);
    if is_pinned(to)? || is_pinned(from)? {
        // SAFETY: the pinned side is of so many bytes, and the other is a device's or pinned too.
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

/// Behind a call that returns when it is done: memory that the program sees itself is as it should.
pub(crate) fn settle(to: u64) -> Result {
    work::settle(device_of(to)?, to)
}

/// Whether an address is a device's, as far as copies that do not say are concerned.
pub(crate) fn is_device(address: u64) -> Result<bool> {
    Ok(host::find(address as usize).is_none() && holder(address)?.is_some())
}

/// A copy whose sides are told from their addresses.
///
/// # Safety
/// Host addresses are of so many bytes.
pub(crate) unsafe fn any(to: u64, from: u64, count: usize) -> Result {
    let current = current_device()?;
    if count == 0 {
        return Ok(());
    }
    // SAFETY: a side that is no device's is of the program's memory, of so many bytes.
    unsafe {
        match (is_device(to)?, is_device(from)?) {
            (true, true) => within(to, from, count),
            (true, false) => to_device(to, from as *const c_void, count),
            (false, true) => to_host(to as *mut c_void, from, count),
            (false, false) => between(current, to as *mut c_void, from as *const c_void, count),
        }
    }
}

/// Copies within the program's memory, behind the device's work; the sides may overlap.
///
/// # Safety
/// As [`bytes`] and [`room`], but for the overlap.
unsafe fn between(device: &Device, to: *mut c_void, from: *const c_void, count: usize) -> Result {
    work::sync(device)?;
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller says that both are of so many bytes; this copy allows an overlap.
    unsafe { std::ptr::copy(from.cast::<u8>(), to.cast(), count) };
    Ok(())
}

pub(crate) fn set(address: u64, value: u32, width: u8, count: usize) -> Result {
    let device = device_of(address)?;
    if count == 0 {
        return Ok(());
    }
    if holder(address)?.is_none() && set_host(device, address, value, width, count)? {
        return Ok(());
    }
    work::submit_at(device, address, |session| {
        session.set(address, count as u64, value, width)
    })
}

/// Sets pinned memory of the host's, behind the work so far; false where it is none.
fn set_host(device: &Device, address: u64, value: u32, width: u8, count: usize) -> Result<bool> {
    let bytes = count.checked_mul(usize::from(width));
    let within = |pinned: &host::Pinned| {
        let offset = address as usize - pinned.base;
        bytes.is_some_and(|bytes| bytes <= pinned.bytes - offset)
    };
    let (Some(bytes), true) = (
        bytes,
        host::find(address as usize).is_some_and(|it| within(&it)),
    ) else {
        return Ok(false);
    };
    work::sync(device)?;
    let pattern = value.to_le_bytes();
    // SAFETY: so many bytes are the program's there, pinned by it, and no work is under way.
    let to = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
    for (at, byte) in to.iter_mut().enumerate() {
        *byte = pattern[at % usize::from(width)];
    }
    Ok(true)
}

/// Sets rows of `count` elements, `pitch` bytes apart.
pub(crate) fn set_rows(
    address: u64,
    pitch: usize,
    value: u32,
    width: u8,
    count: usize,
    rows: usize,
) -> Result {
    let row = count
        .checked_mul(usize::from(width))
        .filter(|row| row.checked_mul(rows).is_some())
        .ok_or(Status::INVALID_VALUE)?;
    if row == 0 || rows == 0 {
        return current_device().map(|_| ());
    }
    if rows > 1 && pitch < row {
        return Err(Status::INVALID_VALUE);
    }
    if pitch == row {
        return set(address, value, width, count * rows);
    }
    (0..rows).try_for_each(|at| set(address + (at * pitch) as u64, value, width, count))
}
