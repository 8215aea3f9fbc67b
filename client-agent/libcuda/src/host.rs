//! Host memory that the program got from us or told us of.

#![expect(unsafe_code, reason = "gives out pages of this process")]

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::Device;
use crate::status::{Result, Status};

/// A range of host memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinned {
    pub(crate) base: usize,
    pub(crate) bytes: usize,
    pub(crate) flags: u32,
    /// We gave it out; else the program registered it.
    pub(crate) ours: bool,
}

static PINNED: Mutex<BTreeMap<usize, Pinned>> = Mutex::new(BTreeMap::new());

fn lock() -> MutexGuard<'static, BTreeMap<usize, Pinned>> {
    PINNED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The range that holds an address.
pub(crate) fn find(address: usize) -> Option<Pinned> {
    let table = lock();
    let (_, range) = table.range(..=address).next_back()?;
    (address - range.base < range.bytes).then_some(*range)
}

/// Pages of zeros.
pub(crate) fn alloc(bytes: usize, flags: u32) -> Result<usize> {
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: pages of the kernel's choice: nobody's memory changes.
    let got = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if got == libc::MAP_FAILED {
        return Err(Status::OUT_OF_MEMORY);
    }
    let base = got as usize;
    let range = Pinned {
        base,
        bytes,
        flags,
        ours: true,
    };
    lock().insert(base, range);
    Ok(base)
}

/// Gives pages back.
pub(crate) fn free(base: usize) -> Result {
    let mut table = lock();
    match table.get(&base) {
        Some(range) if range.ours => {
            let bytes = range.bytes;
            table.remove(&base);
            drop(table);
            // SAFETY: we mapped the range, and the program says that it does not use it any more.
            unsafe { libc::munmap(base as *mut libc::c_void, bytes) };
            Ok(())
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Notes memory of the program's own.
pub(crate) fn register(base: usize, bytes: usize, flags: u32) -> Result {
    if base == 0 || bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let mut table = lock();
    let before = table.range(..base + bytes).next_back();
    if before.is_some_and(|(_, range)| range.base + range.bytes > base) {
        return Err(Status::HOST_MEMORY_ALREADY_REGISTERED);
    }
    table.insert(
        base,
        Pinned {
            base,
            bytes,
            flags,
            ours: false,
        },
    );
    Ok(())
}

/// Forgets such memory.
pub(crate) fn unregister(base: usize) -> Result {
    let mut table = lock();
    match table.get(&base) {
        Some(range) if !range.ours => {
            table.remove(&base);
            Ok(())
        }
        _ => Err(Status::HOST_MEMORY_NOT_REGISTERED),
    }
}

/// Where a device sees pinned host memory; its twin is made with the first question.
pub(crate) fn device_address(device: &Device, address: usize) -> Result<u64> {
    if let Some(found) = device.mirrors.device_of(address) {
        return Ok(found);
    }
    let range = find(address).ok_or(Status::INVALID_VALUE)?;
    let session = device.session();
    let twin = device.alloc(range.bytes)?;
    // SAFETY: the range is the program's until it is freed or unregistered, which unmaps it.
    unsafe {
        device
            .mirrors
            .add(&session, range.base, twin, range.bytes)?
    };
    Ok(twin + (address - range.base) as u64)
}
