//! Device memory, host memory, pointers.

use std::ffi::{c_int, c_uint, c_void};

use super::stream::device as of_stream;
use super::{put, put_if};
use crate::capture;
use crate::current::{current, current_device};
use crate::device::Device;
use crate::guard::api;
use crate::host;
use crate::process::{holder, process};
use crate::status::{Result, Status};
use crate::stream::number_of;

fn alloc(address: *mut u64, bytes: usize) -> Result {
    let device = current_device()?;
    if address.is_null() || bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let made = device.alloc(bytes)?;
    // SAFETY: the caller's pointer.
    unsafe { put(address, made) }
}

fn free(address: u64) -> Result {
    process()?;
    if address == 0 {
        return Ok(());
    }
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    device.free(address)
}

/// Where an allocation that holds an address begins, and its bytes.
fn range(address: u64) -> Result<(u64, u64, &'static Device)> {
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    let found = device.with(|session| session.line().range(address));
    let (base, bytes) = found.ok_or(Status::INVALID_VALUE)?;
    Ok((base, bytes, device))
}

const CONTEXT: c_int = 1;
const MEMORY_TYPE: c_int = 2;
const DEVICE_POINTER: c_int = 3;
const HOST_POINTER: c_int = 4;
const SYNC_MEMOPS: c_int = 6;
const BUFFER_ID: c_int = 7;
const IS_MANAGED: c_int = 8;
const DEVICE_ORDINAL: c_int = 9;
const RANGE_START: c_int = 11;
const RANGE_SIZE: c_int = 12;
const MAPPED: c_int = 13;

/// What is asked of a pointer; four or eight bytes, by attribute.
enum Answer {
    Word(u32),
    Double(u64),
}

fn pointer_attribute(attribute: c_int, address: u64) -> Result<Answer> {
    use Answer::{Double, Word};
    let process = process()?;
    let host = host::find(address as usize);
    let Some(device) = holder(address)? else {
        let Some(host) = host else {
            return Err(Status::INVALID_VALUE);
        };
        let (_, context) = current()?;
        let device = &process.devices[context.device];
        return Ok(match attribute {
            CONTEXT => Double(context.handle as u64),
            MEMORY_TYPE => Word(1),
            DEVICE_POINTER => Double(host::device_address(device, address as usize)?),
            HOST_POINTER => Double(address),
            BUFFER_ID => Double(host.base as u64),
            DEVICE_ORDINAL => Word(device.ordinal as u32),
            RANGE_START => Double(host.base as u64),
            RANGE_SIZE => Double(host.bytes as u64),
            MAPPED => Word(1),
            IS_MANAGED | SYNC_MEMOPS | 10 | 16 => Word(0),
            14 | 17 => Double(0),
            _ => return Err(Status::INVALID_VALUE),
        });
    };
    let found = device.with(|session| session.line().range(address));
    let managed = device.managed.holds(address);
    if found.is_none() && !managed && !device.is_of_modules(address) {
        return Err(Status::INVALID_VALUE);
    }
    let (base, bytes) = found.unwrap_or((address, 0));
    Ok(match attribute {
        CONTEXT => Double(process.contexts.primary(device.ordinal)?.handle as u64),
        MEMORY_TYPE => Word(2),
        DEVICE_POINTER => Double(address),
        HOST_POINTER if managed => Double(address),
        BUFFER_ID | RANGE_START => Double(base),
        RANGE_SIZE => Double(bytes),
        IS_MANAGED => Word(u32::from(managed)),
        DEVICE_ORDINAL => Word(device.ordinal as u32),
        MAPPED => Word(1),
        SYNC_MEMOPS | 10 | 16 => Word(0),
        14 | 17 => Double(0),
        _ => return Err(Status::INVALID_VALUE),
    })
}

api! {
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        alloc(address, bytes)
    }

    fn cuMemAllocPitch_v2(
        address: *mut u64,
        pitch: *mut usize,
        width: usize,
        height: usize,
        element: c_uint,
    ) {
        if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 || pitch.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let each = width.checked_next_multiple_of(512).ok_or(Status::INVALID_VALUE)?;
        alloc(address, each.checked_mul(height).ok_or(Status::OUT_OF_MEMORY)?)?;
        // SAFETY: the caller's pointer.
        unsafe { put(pitch, each) }
    }

    fn cuMemFree_v2(address: u64) {
        free(address)
    }

    fn cuMemFreeAsync(address: u64, stream: usize) also cuMemFreeAsync_ptsz {
        number_of(stream)?;
        capture::refuse(stream)?;
        free(address)
    }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let device = current_device()?;
        let held = device.with(|session| session.line().held());
        let all = device.properties.memory;
        // SAFETY: the caller's pointers.
        unsafe {
            put(free, all.saturating_sub(held) as usize)?;
            put(total, all as usize)
        }
    }

    fn cuMemGetAddressRange_v2(start: *mut u64, size: *mut usize, address: u64) {
        let (base, bytes, _) = range(address).map_err(|_| Status::NOT_FOUND)?;
        // SAFETY: the caller's pointers.
        unsafe {
            put_if(start, base);
            put_if(size, bytes as usize);
        }
        Ok(())
    }

    fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: c_uint) {
        let device = current_device()?;
        if address.is_null() || bytes == 0 || !matches!(flags, 1 | 2) {
            return Err(Status::INVALID_VALUE);
        }
        let made = device.alloc_managed(bytes)?;
        // SAFETY: the caller's pointer.
        unsafe { put(address, made) }
    }

    fn cuMemPrefetchAsync(address: u64, bytes: usize, device: c_int, stream: usize)
        also cuMemPrefetchAsync_ptsz
    {
        let _ = (bytes, device);
        number_of(stream)?;
        range(address).map(|_| ())
    }

    fn cuMemAdvise(address: u64, bytes: usize, advice: c_int, device: c_int) {
        let _ = (bytes, advice, device);
        range(address).map(|_| ())
    }

    fn cuPointerGetAttribute(data: *mut c_void, attribute: c_int, address: u64) {
        let answer = pointer_attribute(attribute, address)?;
        // SAFETY: the caller's pointer, as large as the attribute is.
        unsafe {
            match answer {
                Answer::Word(value) if attribute == MEMORY_TYPE || attribute == DEVICE_ORDINAL => {
                    put(data.cast::<u32>(), value)
                }
                Answer::Word(value) => put(data.cast::<u32>(), value),
                Answer::Double(value) => put(data.cast::<u64>(), value),
            }
        }
    }

    fn cuPointerGetAttributes(
        count: c_uint,
        attributes: *const c_int,
        data: *const *mut c_void,
        address: u64,
    ) {
        process()?;
        if attributes.is_null() || data.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        for at in 0..count as usize {
            // SAFETY: the caller's lists; what cannot be told is zero.
            unsafe {
                let (attribute, to) = (attributes.add(at).read(), data.add(at).read());
                match pointer_attribute(attribute, address) {
                    Ok(Answer::Word(value)) => put(to.cast::<u32>(), value)?,
                    Ok(Answer::Double(value)) => put(to.cast::<u64>(), value)?,
                    Err(_) if matches!(attribute, CONTEXT | DEVICE_POINTER | HOST_POINTER
                        | BUFFER_ID | RANGE_START | RANGE_SIZE | 14 | 17) =>
                    {
                        put(to.cast::<u64>(), 0)?;
                    }
                    Err(_) => put(to.cast::<u32>(), 0)?,
                }
            }
        }
        Ok(())
    }

    fn cuPointerSetAttribute(value: *const c_void, attribute: c_int, address: u64) {
        let _ = (value, attribute);
        range(address).map(|_| ())
    }

    fn cuIpcGetMemHandle(handle: *mut c_void, address: u64) {
        let _ = handle;
        range(address)?;
        of_stream(0)?;
        Err(Status::NOT_SUPPORTED)
    }
}
