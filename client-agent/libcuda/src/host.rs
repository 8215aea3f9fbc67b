//! Pinned host memory: allocated here, or registered by the program.

#![expect(unsafe_code, reason = "gives out pages of this process")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use ptx::ParamInfo;

use crate::abi::{Count, Freed, Room};
use crate::device::Device;
use crate::lock::lock;
use crate::process::process;
use crate::status::{Result, Status};

/// A range of host memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pinned {
    pub(crate) base: usize,
    pub(crate) bytes: usize,
    pub(crate) flags: u32,
    /// True if we allocated the range; false if the program registered it.
    pub(crate) ours: bool,
}

static PINNED: Mutex<BTreeMap<usize, Pinned>> = Mutex::new(BTreeMap::new());
/// Bounds of all pinned ranges so far: a launch checks these before the table.
static LOWEST: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

fn note(range: Pinned, table: &mut BTreeMap<usize, Pinned>) {
    table.insert(range.base, range);
    LOWEST.fetch_min(range.base, Ordering::Release);
    HIGHEST.fetch_max(range.base + range.bytes, Ordering::Release);
}

/// The range that contains an address.
pub(crate) fn find(address: usize) -> Option<Pinned> {
    let table = lock(&PINNED);
    let (_, range) = table.range(..=address).next_back()?;
    (address - range.base < range.bytes).then_some(*range)
}

/// Allocates zeroed pages.
pub(crate) fn alloc(bytes: usize, flags: u32) -> Result<usize> {
    if bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses the pages, so no memory in use changes.
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
    note(range, &mut lock(&PINNED));
    Ok(base)
}

/// Frees pages.
pub(crate) fn free(pages: Freed<'_>) -> Result {
    let base = pages.address().ok_or(Status::INVALID_VALUE)?;
    unmap(base)?;
    let mut table = lock(&PINNED);
    match table.get(&base) {
        Some(range) if range.ours => {
            let bytes = range.bytes;
            table.remove(&base);
            drop(table);
            // SAFETY: we mapped the range, it is no longer in a table, and the program no longer
            // uses it.
            unsafe { libc::munmap(base as *mut libc::c_void, bytes) };
            Ok(())
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

/// Registers memory of the program, which stays until it is unregistered.
pub(crate) fn register(memory: Room<'static>, bytes: Count<'static>, flags: u32) -> Result {
    let (base, bytes) = (memory.address() as usize, bytes.number());
    if base == 0 || bytes == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let mut table = lock(&PINNED);
    let before = table.range(..base + bytes).next_back();
    if before.is_some_and(|(_, range)| range.base + range.bytes > base) {
        return Err(Status::HOST_MEMORY_ALREADY_REGISTERED);
    }
    let range = Pinned {
        base,
        bytes,
        flags,
        ours: false,
    };
    note(range, &mut table);
    Ok(())
}

/// Removes the device twins of a range.
fn unmap(base: usize) -> Result {
    for device in &process()?.devices {
        if let Some(twin) = device.mirrors.remove(base) {
            device.free(twin)?;
        }
    }
    Ok(())
}

/// Unregisters memory of the program.
pub(crate) fn unregister(base: usize) -> Result {
    unmap(base)?;
    let mut table = lock(&PINNED);
    match table.get(&base) {
        Some(range) if !range.ours => {
            table.remove(&base);
            Ok(())
        }
        _ => Err(Status::HOST_MEMORY_NOT_REGISTERED),
    }
}

/// The device address of pinned host memory; the first call creates its twin.
pub(crate) fn device_address(device: &Device, address: usize) -> Result<u64> {
    if let Some(found) = device.mirrors.device_of(address) {
        return Ok(found);
    }
    let range = find(address).ok_or(Status::INVALID_VALUE)?;
    let session = device.session();
    let twin = device.alloc_twin(range.bytes)?;
    // SAFETY: the range is ours or registered, and both of its ends remove the mirror first.
    unsafe {
        device
            .mirrors
            .add(&session, range.base, twin, range.bytes)?
    };
    Ok(twin + (address - range.base) as u64)
}

/// The parameters of a kernel as its device must see them, if they differ from the program's.
/// Addresses are unified: a program may pass its own pointer to pinned memory. That pointer becomes
/// the address of the twin. Pointers within device memory are not translated; the program must ask
/// for their device addresses.
#[inline]
pub(crate) fn translated(
    device: &Device,
    layout: &[ParamInfo],
    block: &[u8],
) -> Result<Option<Vec<u8>>> {
    let near = LOWEST.load(Ordering::Acquire)..HIGHEST.load(Ordering::Acquire);
    match near.is_empty() {
        true => Ok(None),
        false => translated_near(&near, device, layout, block),
    }
}

fn translated_near(
    near: &Range<usize>,
    device: &Device,
    layout: &[ParamInfo],
    block: &[u8],
) -> Result<Option<Vec<u8>>> {
    let mut translated = None;
    for at in words(layout, block.len()) {
        let word = block[at..].first_chunk().copied().map(usize::from_le_bytes);
        let is_pinned = |address: &usize| near.contains(address) && find(*address).is_some();
        if let Some(address) = word.filter(is_pinned) {
            let twin = device_address(device, address)?;
            let to = translated.get_or_insert_with(|| block.to_vec());
            to[at..at + 8].copy_from_slice(&twin.to_le_bytes());
        }
    }
    Ok(translated)
}

/// The offsets in a block of parameters where pointers may lie: each whole word of a parameter,
/// because a parameter may be a structure.
fn words(layout: &[ParamInfo], bytes: usize) -> impl Iterator<Item = usize> {
    layout.iter().flat_map(move |param| {
        let (start, size) = (param.offset as usize, param.size as usize);
        let end = bytes.min(start + size);
        let first = start.next_multiple_of(8);
        (first..end).step_by(8).filter(move |at| at + 8 <= end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_are_whole_words_of_their_parameters() {
        let param = |offset, size| ParamInfo {
            name: String::new(),
            offset,
            size,
            align: 4,
        };
        let layout = [param(0, 8), param(8, 4), param(16, 28), param(48, 8)];
        let found: Vec<_> = words(&layout, 56).collect();
        assert_eq!(found, [0, 16, 24, 32, 48]);
        assert_eq!(words(&layout, 50).collect::<Vec<_>>(), [0, 16, 24, 32]);
    }
}
