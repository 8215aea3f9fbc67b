//! Host memory: pinned, registered, mapped.

use std::ffi::{c_int, c_uint, c_void};

use super::put;
use crate::current::current_device;
use crate::guard::api;
use crate::host;
use crate::process::process;
use crate::status::{Result, Status};

fn alloc(to: *mut *mut c_void, bytes: usize, flags: c_uint) -> Result {
    current_device()?;
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    let base = host::alloc(bytes, flags)?;
    // SAFETY: the caller's pointer.
    unsafe { put(to, base as *mut c_void) }
}

/// Takes the device twins of a range away.
fn unmap(base: usize) -> Result {
    for device in &process()?.devices {
        if let Some(twin) = device.mirrors.remove(base) {
            device.free(twin)?;
        }
    }
    Ok(())
}

api! {
    fn cuMemHostAlloc(to: *mut *mut c_void, bytes: usize, flags: c_uint) {
        alloc(to, bytes, flags)
    }

    fn cuMemAllocHost_v2(to: *mut *mut c_void, bytes: usize) also cuMemAllocHost {
        alloc(to, bytes, 0)
    }

    fn cuMemFreeHost(base: *mut c_void) {
        process()?;
        if base.is_null() {
            return Ok(());
        }
        if host::find(base as usize).is_none_or(|range| range.base != base as usize) {
            return Err(Status::INVALID_VALUE);
        }
        unmap(base as usize)?;
        host::free(base as usize)
    }

    fn cuMemHostRegister_v2(base: *mut c_void, bytes: usize, flags: c_uint) also cuMemHostRegister {
        current_device()?;
        host::register(base as usize, bytes, flags)
    }

    fn cuMemHostUnregister(base: *mut c_void) {
        process()?;
        if host::find(base as usize).is_none_or(|range| range.base != base as usize) {
            return Err(Status::HOST_MEMORY_NOT_REGISTERED);
        }
        unmap(base as usize)?;
        host::unregister(base as usize)
    }

    fn cuMemHostGetDevicePointer_v2(address: *mut u64, base: *mut c_void, flags: c_uint) {
        let _ = flags;
        let device = current_device()?;
        // SAFETY: the caller's pointer.
        unsafe { put(address, host::device_address(device, base as usize)?) }
    }

    fn cuMemHostGetFlags(flags: *mut c_uint, base: *mut c_void) {
        process()?;
        let range = host::find(base as usize).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: the caller's pointer.
        unsafe { put(flags, range.flags) }
    }

    fn cuIpcCloseMemHandle(address: u64) {
        let _ = address;
        process()?;
        Err(Status::NOT_SUPPORTED)
    }

    fn cuDeviceGetExecAffinitySupport(value: *mut c_int, kind: c_int, number: c_int) {
        let _ = kind;
        super::device::device(number)?;
        // SAFETY: the caller's pointer.
        unsafe { put(value, 0) }
    }
}
