//! Host memory: pinned, registered, mapped.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{Out, Room};
use crate::current_context::current_device;
use crate::guard::api;
use crate::host;
use crate::process::process;
use crate::status::{Result, Status};

fn alloc(to: Out<'_, *mut c_void>, bytes: usize, flags: c_uint) -> Result {
    current_device()?;
    to.check()?;
    let base = host::alloc(bytes, flags)?;
    to.put(base as *mut c_void)
}

api! {
    fn cuMemHostAlloc(to: Out<'_, *mut c_void>, bytes: usize, flags: c_uint) {
        alloc(to, bytes, flags)
    }

    fn cuMemAllocHost_v2(to: Out<'_, *mut c_void>, bytes: usize) also cuMemAllocHost {
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
        // SAFETY: a program that frees memory does not use it any more.
        unsafe { host::free(base as usize) }
    }

    fn cuMemHostRegister_v2(base: Room<'_>, bytes: usize, flags: c_uint) also cuMemHostRegister {
        current_device()?;
        // SAFETY: a program that registers memory keeps it until it says that it is registered no more.
        unsafe { host::register(base.address() as usize, bytes, flags) }
    }

    fn cuMemHostUnregister(base: *mut c_void) {
        process()?;
        if host::find(base as usize).is_none_or(|range| range.base != base as usize) {
            return Err(Status::HOST_MEMORY_NOT_REGISTERED);
        }
        host::unregister(base as usize)
    }

    fn cuMemHostGetDevicePointer_v2(address: Out<'_, u64>, base: *mut c_void, flags: c_uint) {
        let _ = flags;
        let device = current_device()?;
        address.put(host::device_address(device, base as usize)?)
    }

    fn cuMemHostGetFlags(flags: Out<'_, c_uint>, base: *mut c_void) {
        process()?;
        let range = host::find(base as usize).ok_or(Status::INVALID_VALUE)?;
        flags.put(range.flags)
    }

    fn cuIpcCloseMemHandle(address: u64) {
        let _ = address;
        process()?;
        Err(Status::NOT_SUPPORTED)
    }

    fn cuDeviceGetExecAffinitySupport(value: Out<'_, c_int>, kind: c_int, number: c_int) {
        let _ = kind;
        super::device::device(number)?;
        value.put(0)
    }
}
