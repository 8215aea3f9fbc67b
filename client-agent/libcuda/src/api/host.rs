//! Host memory: pinned, registered, mapped.

use std::ffi::{c_uint, c_void};

use crate::abi::{Address, Count, Freed, Out, Room};
use crate::current_context::current_device;
use crate::guard::api;
use crate::host;
use crate::status::{Result, Status};

fn alloc(to: Out<'_, *mut c_void>, bytes: usize, flags: c_uint) -> Result {
    current_device()?;
    to.put_made(|| Ok(host::alloc(bytes, flags)? as *mut c_void))
}

/// True if a range of pinned memory begins at an address.
fn is_base(base: usize) -> bool {
    host::find(base).is_some_and(|range| range.base == base)
}

api! {
    fn cuMemHostAlloc(to: Out<'_, *mut c_void>, bytes: usize, flags: c_uint) => alloc(to, bytes, flags);
    fn cuMemAllocHost_v2(to: Out<'_, *mut c_void>, bytes: usize) also cuMemAllocHost => alloc(to, bytes, 0);

    fn cuMemFreeHost(base: Freed<'_>) => match base.address() {
        None => Ok(()),
        Some(address) if is_base(address) => host::free(base),
        Some(_) => Err(Status::INVALID_VALUE),
    };

    // The program keeps the memory until it unregisters it.
    fn cuMemHostRegister_v2(base: Room<'static>, bytes: Count<'static>, flags: c_uint)
        also cuMemHostRegister
    {
        current_device()?;
        host::register(base, bytes, flags)
    }

    fn cuMemHostUnregister(base: Address<'_>) {
        let base = base.number() as usize;
        if !is_base(base) {
            return Err(Status::HOST_MEMORY_NOT_REGISTERED);
        }
        host::unregister(base)
    }

    fn cuMemHostGetDevicePointer_v2(address: Out<'_, u64>, base: Address<'_>, _flags: c_uint)
        => address.put(host::device_address(current_device()?, base.number() as usize)?);
    fn cuMemHostGetFlags(flags: Out<'_, c_uint>, base: Address<'_>)
        => flags.put(host::find(base.number() as usize).ok_or(Status::INVALID_VALUE)?.flags);
}
