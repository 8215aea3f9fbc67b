//! Device memory, host memory, pointers.

use std::ffi::{c_int, c_uint, c_void};

use super::stream::device as of_stream;
use crate::abi::{Count, Figure, List, Out, OutAny};
use crate::capture;
use crate::current_context::{current, current_device};
use crate::device::Device;
use crate::guard::api;
use crate::host;
use crate::process::{holder, process};
use crate::status::{Result, Status};
use crate::stream::number_of;

fn alloc(address: Out<'_, u64>, bytes: usize) -> Result {
    let device = current_device()?;
    address.check()?;
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let made = device.alloc(bytes)?;
    address.put(made)
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
    let found = device.with(|session| session.channel().range(address));
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

impl Answer {
    /// What there is to say of an attribute that a pointer has not.
    fn nothing(attribute: c_int) -> Self {
        match attribute {
            CONTEXT | DEVICE_POINTER | HOST_POINTER | BUFFER_ID | RANGE_START | RANGE_SIZE | 14
            | 17 => Self::Double(0),
            _ => Self::Word(0),
        }
    }

    fn put(self, data: OutAny<'_>) -> Result {
        let figure = match self {
            Self::Word(value) => Figure::Int(value),
            Self::Double(value) => Figure::Long(value),
        };
        // SAFETY: an answer is double for what CUDA types as a pointer, a size or an id, else a word.
        unsafe { data.put(figure) }
    }
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
    let found = device.with(|session| session.channel().range(address));
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
    fn cuMemAlloc_v2(address: Out<'_, u64>, bytes: usize) {
        alloc(address, bytes)
    }

    fn cuMemAllocPitch_v2(
        address: Out<'_, u64>,
        pitch: Out<'_, usize>,
        width: usize,
        height: usize,
        element: c_uint,
    ) {
        pitch.check()?;
        if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let each = width.checked_next_multiple_of(512).ok_or(Status::INVALID_VALUE)?;
        alloc(address, each.checked_mul(height).ok_or(Status::OUT_OF_MEMORY)?)?;
        pitch.put(each)
    }

    fn cuMemFree_v2(address: u64) {
        free(address)
    }

    fn cuMemFreeAsync(address: u64, stream: usize) also cuMemFreeAsync_ptsz {
        number_of(stream)?;
        capture::refuse(stream)?;
        free(address)
    }

    fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) {
        let device = current_device()?;
        let held = device.with(|session| session.channel().held());
        let all = device.properties.memory;
        free.put(all.saturating_sub(held) as usize)?;
        total.put(all as usize)
    }

    fn cuMemGetAddressRange_v2(start: Out<'_, u64>, size: Out<'_, usize>, address: u64) {
        let (base, bytes, _) = range(address).map_err(|_| Status::NOT_FOUND)?;
        start.put_if(base);
        size.put_if(bytes as usize);
        Ok(())
    }

    fn cuMemAllocManaged(address: Out<'_, u64>, bytes: usize, flags: c_uint) {
        let device = current_device()?;
        address.check()?;
        if bytes == 0 || !matches!(flags, 1 | 2) {
            return Err(Status::INVALID_VALUE);
        }
        let made = device.alloc_managed(bytes)?;
        address.put(made)
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

    fn cuPointerGetAttribute(data: OutAny<'_>, attribute: c_int, address: u64) {
        pointer_attribute(attribute, address)?.put(data)
    }

    fn cuPointerGetAttributes(
        count: Count<'_, c_uint>,
        attributes: List<'_, c_int>,
        data: List<'_, OutAny<'_>>,
        address: u64,
    ) {
        process()?;
        if attributes.is_null() || data.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        let count = count.whole();
        let mut asked = attributes.items(count)?.zip(data.items(count)?);
        asked.try_for_each(|(attribute, to)| {
            let answer = pointer_attribute(attribute, address);
            answer.unwrap_or_else(|_| Answer::nothing(attribute)).put(to)
        })
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
