//! Host memory: pinned, registered, mapped.

use std::ffi::{c_uint, c_void};

use crate::abi::{Out, Room};
use crate::current_context::current_device;
use crate::guard::api;
use crate::host;
use crate::status::{Result, Status};

fn alloc(to: Out<'_, *mut c_void>, bytes: usize, flags: c_uint) -> Result {
    current_device()?;
    to.put_made(|| Ok(host::alloc(bytes, flags)? as *mut c_void))
}

/// Whether pinned memory begins at an address.
fn is_base(base: *mut c_void) -> bool {
    host::find(base as usize).is_some_and(|range| range.base == base as usize)
}

api! {
    fn cuMemHostAlloc(to: Out<'_, *mut c_void>, bytes: usize, flags: c_uint) => alloc(to, bytes, flags);
    fn cuMemAllocHost_v2(to: Out<'_, *mut c_void>, bytes: usize) also cuMemAllocHost => alloc(to, bytes, 0);

    fn cuMemFreeHost(base: *mut c_void) {
        if base.is_null() {
            return Ok(());
        }
        if !is_base(base) {
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
        if !is_base(base) {
            return Err(Status::HOST_MEMORY_NOT_REGISTERED);
        }
        host::unregister(base as usize)
    }

    fn cuMemHostGetDevicePointer_v2(address: Out<'_, u64>, base: *mut c_void, _flags: c_uint)
        => address.put(host::device_address(current_device()?, base as usize)?);
    fn cuMemHostGetFlags(flags: Out<'_, c_uint>, base: *mut c_void)
        => flags.put(host::find(base as usize).ok_or(Status::INVALID_VALUE)?.flags);
}
