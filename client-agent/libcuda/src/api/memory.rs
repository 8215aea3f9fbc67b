//! Device memory, host memory, pointers.

use std::ffi::{c_int, c_uint};

use crate::abi::Figure::{Int, Long};
use crate::abi::{Count, Figure, Handle, In, List, Out, OutAny};
use crate::capture;
use crate::current_context::{current, current_device};
use crate::device::Device;
use crate::guard::api;
use crate::host;
use crate::process::{holder, process};
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::{mapped, pool_handle};

fn alloc(address: Out<'_, u64>, bytes: usize) -> Result {
    let device = current_device()?;
    address.put_made(|| match bytes {
        0 => Err(Status::INVALID_VALUE),
        _ => device.alloc(bytes),
    })
}

fn free(address: u64) -> Result {
    if address == 0 {
        return Ok(());
    }
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    device.free(address)
}

/// Begin and bytes of the allocation that contains an address.
pub(super) fn range(address: u64) -> Result<(u64, u64)> {
    let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
    allocation(device, address).ok_or(Status::INVALID_VALUE)
}

fn allocation(device: &Device, address: u64) -> Option<(u64, u64)> {
    let managed = device.managed.range(address);
    managed.or_else(|| device.with(|session| session.channel().range(address)))
}

/// Begin and bytes of the allocation or module variable that contains an address.
fn object(device: &Device, address: u64) -> Option<(u64, u64)> {
    let variable = || device.with(|session| session.channel().variable(address));
    allocation(device, address).or_else(variable)
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
const IPC_CAPABLE: c_int = 10;
const HANDLE_TYPES: c_int = 14;
const RDMA: c_int = 15;
const ACCESS: c_int = 16;
const POOL: c_int = 17;

/// The answer to an attribute that a pointer does not have: four or eight bytes, by attribute.
fn nothing(attribute: c_int) -> Figure {
    match attribute {
        CONTEXT | DEVICE_POINTER | HOST_POINTER | BUFFER_ID | RANGE_START | RANGE_SIZE
        | HANDLE_TYPES | POOL => Long(0),
        _ => Int(0),
    }
}

/// Answers an attribute of a pointer; if the pointer lacks it, with the answer of `without`.
fn put(
    data: OutAny<'_>,
    attribute: c_int,
    address: u64,
    without: Option<fn(c_int) -> Figure>,
) -> Result {
    let figure = match (pointer_attribute(attribute, address), without) {
        (Err(_), Some(without)) => without(attribute),
        (found, _) => found?,
    };
    // SAFETY: both have a long for what CUDA types as a pointer, a size or an id, else an int.
    unsafe { data.put(figure) }
}

fn pointer_attribute(attribute: c_int, address: u64) -> Result<Figure> {
    let process = process()?;
    let host = host::find(address as usize);
    let Some(device) = holder(address)? else {
        let Some(host) = host else {
            return Err(Status::INVALID_VALUE);
        };
        let (_, context) = current()?;
        let device = &process.devices[context.device];
        return Ok(match attribute {
            CONTEXT => Long(context.handle.number() as u64),
            MEMORY_TYPE => Int(1),
            DEVICE_POINTER => Long(host::device_address(device, address as usize)?),
            HOST_POINTER => Long(address),
            BUFFER_ID => Long(host.base as u64),
            DEVICE_ORDINAL => Int(device.ordinal as u32),
            RANGE_START => Long(host.base as u64),
            RANGE_SIZE => Long(host.bytes as u64),
            MAPPED => Int(1),
            ACCESS => Int(3),
            IS_MANAGED | SYNC_MEMOPS | IPC_CAPABLE | RDMA => Int(0),
            HANDLE_TYPES | POOL => Long(0),
            _ => return Err(Status::INVALID_VALUE),
        });
    };
    let found = object(device, address);
    let managed = device.managed.holds(address);
    if found.is_none() && !managed && !device.is_of_modules(address) {
        return Err(Status::INVALID_VALUE);
    }
    let (base, bytes) = found.unwrap_or((address, 0));
    Ok(match attribute {
        CONTEXT => Long(process.contexts.of(device.ordinal)?.handle.number() as u64),
        MEMORY_TYPE => Int(2),
        DEVICE_POINTER => Long(address),
        HOST_POINTER if managed => Long(address),
        BUFFER_ID | RANGE_START => Long(base),
        RANGE_SIZE => Long(bytes),
        IS_MANAGED => Int(u32::from(managed)),
        DEVICE_ORDINAL => Int(device.ordinal as u32),
        MAPPED => Int(1),
        // Memory that `cuIpcGetMemHandle` exports.
        IPC_CAPABLE => {
            let allocated = allocation(device, address).is_some();
            let own = allocated && !managed && !is_mapped(device, base);
            Int(u32::from(own && device.properties.shares_memory()))
        }
        // Memory that `cuMemExportToShareableHandle` exports.
        HANDLE_TYPES => Long(mapped::shared_at(base)),
        ACCESS => Int(3),
        POOL => Long(pool_handle::of(device, base).number() as u64),
        SYNC_MEMOPS => Int(u32::from(device.synchronous.holds(base))),
        RDMA => Int(0),
        _ => return Err(Status::INVALID_VALUE),
    })
}

/// True if the object that begins at an address lies in a range reserved by the program.
fn is_mapped(device: &Device, base: u64) -> bool {
    device.with(|session| session.channel().is_mapped(base))
}

api! {
    fn cuMemAlloc_v2(address: Out<'_, u64>, bytes: usize) => alloc(address, bytes);

    fn cuMemAllocPitch_v2(
        address: Out<'_, u64>, pitch: Out<'_, usize>, width: usize, height: usize, element: c_uint,
    ) {
        pitch.check()?;
        if !matches!(element, 4 | 8 | 16) || width == 0 || height == 0 {
            return Err(Status::INVALID_VALUE);
        }
        let each = width.checked_next_multiple_of(512).ok_or(Status::INVALID_VALUE)?;
        alloc(address, each.checked_mul(height).ok_or(Status::OUT_OF_MEMORY)?)?;
        pitch.put(each)
    }

    fn cuMemAllocManaged(address: Out<'_, u64>, bytes: usize, flags: c_uint) {
        let device = current_device()?;
        address.put_made(|| match flags {
            1 | 2 if bytes > 0 => device.alloc_managed(bytes),
            _ => Err(Status::INVALID_VALUE),
        })
    }

    fn cuMemFree_v2(address: u64) => free(address);

    fn cuMemFreeAsync(address: u64, stream: Handle<Stream>) ptsz cuMemFreeAsync_ptsz {
        stream.op_number()?;
        capture::refuse(stream)?;
        free(address)
    }

    fn cuMemGetInfo_v2(free: Out<'_, usize>, total: Out<'_, usize>) {
        let device = current_device()?;
        let (left, all) = device.memory()?;
        free.put_if(left as usize);
        total.put_if(all as usize);
        Ok(())
    }

    fn cuMemGetAddressRange_v2(start: Out<'_, u64>, size: Out<'_, usize>, address: u64) {
        let device = holder(address)?.ok_or(Status::NOT_FOUND)?;
        let (base, bytes) = object(device, address).ok_or(Status::NOT_FOUND)?;
        start.put_if(base);
        size.put_if(bytes as usize);
        Ok(())
    }

    fn cuPointerGetAttribute(data: OutAny<'_>, attribute: c_int, address: u64)
        => put(data, attribute, address, None);

    fn cuPointerGetAttributes<'c>(
        count: Count<'c, c_uint>, attributes: List<'c, c_int>, data: List<'c, OutAny<'_>>, address: u64,
    ) {
        attributes.check()?;
        data.check()?;
        let count = count.whole();
        let mut asked = attributes.items(count)?.zip(data.items(count)?);
        asked.try_for_each(|(attribute, to)| {
            put(to, attribute, address, Some(nothing))
        })
    }

    // The only attribute that can be set: an int that says whether copies wait.
    fn cuPointerSetAttribute(value: In<'_, c_int>, _attribute: c_int, address: u64) {
        let device = holder(address)?.ok_or(Status::INVALID_VALUE)?;
        let (base, _) = range(address)?;
        device.synchronous.set(base, value.take()? != 0);
        Ok(())
    }
}
