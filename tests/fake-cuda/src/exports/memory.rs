//! Device memory by addresses and handles, and pinned memory.

use super::abi::{In, Out};
use crate::codes::INVALID_VALUE;
use crate::driver::{CallKind, call, with};
use crate::gpu::GRANULE;

/// Access to memory: a place, and what is allowed there.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct Access {
    place: u32,
    device: i32,
    flags: u32,
}

const DEVICE: u32 = 1;
const READ_WRITE: u32 = 3;

#[unsafe(no_mangle)]
extern "C" fn cuMemGetInfo_v2(free: Out<u64>, total: Out<u64>) -> u32 {
    call(CallKind::new("cuMemGetInfo_v2"), |driver, _| {
        free.put(driver.memory.free())?;
        total.put(driver.gpu.memory)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemGetAllocationGranularity(to: Out<u64>, kind: In<u32>, _option: u32) -> u32 {
    call(CallKind::new("cuMemGetAllocationGranularity"), |_, _| {
        kind.get()?;
        to.put(GRANULE)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAddressReserve(
    to: Out<u64>,
    bytes: u64,
    _alignment: u64,
    hint: u64,
    flags: u64,
) -> u32 {
    let kind = CallKind::new("cuMemAddressReserve").bytes(bytes);
    call(kind, |driver, _| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        to.put(driver.memory.reserve(bytes, hint)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemAddressFree(address: u64, bytes: u64) -> u32 {
    let kind = CallKind::new("cuMemAddressFree").bytes(bytes);
    call(kind, |driver, _| driver.memory.free_address(address, bytes))
}

#[unsafe(no_mangle)]
extern "C" fn cuMemCreate(to: Out<u64>, bytes: u64, properties: In<u32>, _flags: u64) -> u32 {
    call(CallKind::new("cuMemCreate").bytes(bytes), |driver, _| {
        properties.get()?;
        to.put(driver.memory.create(bytes)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemRelease(handle: u64) -> u32 {
    call(CallKind::new("cuMemRelease"), |driver, _| {
        driver.memory.release(handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemRetainAllocationHandle(to: Out<u64>, address: u64) -> u32 {
    call(CallKind::new("cuMemRetainAllocationHandle"), |driver, _| {
        to.put(driver.memory.retain(address)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemMap(address: u64, bytes: u64, offset: u64, handle: u64, flags: u64) -> u32 {
    call(CallKind::new("cuMemMap").bytes(bytes), |driver, _| {
        if offset != 0 || flags != 0 {
            return Err(INVALID_VALUE);
        }
        driver.memory.map(address, bytes, handle)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemSetAccess(address: u64, bytes: u64, access: In<Access>, count: u64) -> u32 {
    call(CallKind::new("cuMemSetAccess").bytes(bytes), |driver, _| {
        let access = access.all(count as usize)?;
        let opens = |it: &Access| (it.place, it.device, it.flags) == (DEVICE, 0, READ_WRITE);
        match access.is_empty() || !access.iter().all(opens) {
            true => Err(INVALID_VALUE),
            false => driver.memory.set_access(address, bytes),
        }
    })
}

/// Unmaps memory at once, whether work uses it or not: that work then faults.
#[unsafe(no_mangle)]
extern "C" fn cuMemUnmap(address: u64, bytes: u64) -> u32 {
    call(CallKind::new("cuMemUnmap").bytes(bytes), |driver, _| {
        driver.memory.unmap(address, bytes)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemHostAlloc(to: Out<u64>, bytes: u64, _flags: u32) -> u32 {
    call(CallKind::new("cuMemHostAlloc").bytes(bytes), |driver, _| {
        to.put(driver.memory.alloc_pinned(bytes)?)
    })
}

#[unsafe(no_mangle)]
extern "C" fn cuMemFreeHost(address: u64) -> u32 {
    let bytes = with(|driver| driver.memory.pinned_bytes(address));
    call(CallKind::new("cuMemFreeHost").bytes(bytes), |driver, _| {
        driver.memory.free_pinned(address)
    })
}
