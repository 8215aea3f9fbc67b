//! Device memory and pinned memory, as memory of this process at the very addresses that the program sees.
//!
//! Physical memory is an anonymous file, so that it can be mapped twice. What was released is handed out
//! again with the bytes that were left in it, and fresh memory has a pattern: nothing is ever zero by itself.

#![expect(unsafe_code, reason = "memory at given addresses")]

mod bytes;
mod physical;

use std::collections::BTreeMap;

use crate::codes::{INVALID_VALUE, OUT_OF_MEMORY};
use crate::gpu::GRANULE;
use physical::PhysicalStore;

/// Mapped device memory.
#[derive(Debug, Clone, Copy)]
struct Mapped {
    bytes: u64,
    handle: u64,
    /// True once access was set.
    open: bool,
}

/// All memory that the driver has given out.
#[derive(Debug)]
pub(crate) struct Memory {
    capacity: u64,
    /// Reserved addresses and their bytes.
    reserved: BTreeMap<u64, u64>,
    mapped: BTreeMap<u64, Mapped>,
    physical: PhysicalStore,
    /// Memory of the driver's own on the device: variables of modules.
    own: BTreeMap<u64, u64>,
    pinned: BTreeMap<u64, u64>,
    /// Pinned memory that was freed, by its bytes. It is handed out again as it is.
    unpinned: BTreeMap<u64, Vec<u64>>,
}

fn granular(bytes: u64) -> Result<(), u32> {
    match bytes > 0 && bytes.is_multiple_of(GRANULE) {
        true => Ok(()),
        false => Err(INVALID_VALUE),
    }
}

/// True if a range lies in one of these.
fn inside(ranges: &BTreeMap<u64, u64>, address: u64, bytes: u64) -> bool {
    let before = ranges.range(..=address).next_back();
    before.is_some_and(|(first, size)| {
        let end = address.checked_add(bytes);
        end.is_some_and(|end| end <= first + size)
    })
}

/// Maps fresh memory of this process; without an address anywhere. `None` if there is none.
fn fresh(address: u64, bytes: u64, access: i32) -> Option<u64> {
    let at = std::ptr::without_provenance_mut(address as usize);
    let place = match address {
        0 => 0,
        _ => libc::MAP_FIXED_NOREPLACE,
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | place;
    // SAFETY: without an address, or at one where nothing is mapped, nothing that exists is changed.
    let got = unsafe { libc::mmap(at, bytes as usize, access, flags, -1, 0) };
    (got != libc::MAP_FAILED).then(|| got.expose_provenance() as u64)
}

/// Unmaps memory that [`fresh`] has mapped.
fn unmapped(address: u64, bytes: u64) {
    let at = std::ptr::with_exposed_provenance_mut(address as usize);
    // SAFETY: the caller has taken the range out of its table, so that nothing uses it any more.
    unsafe { libc::munmap(at, bytes as usize) };
}

impl Memory {
    /// Creates the memory of a device of this many bytes.
    pub(crate) fn new(capacity: u64) -> Self {
        Self {
            capacity,
            reserved: BTreeMap::new(),
            mapped: BTreeMap::new(),
            physical: PhysicalStore::default(),
            own: BTreeMap::new(),
            pinned: BTreeMap::new(),
            unpinned: BTreeMap::new(),
        }
    }

    /// Bytes that are not given out.
    pub(crate) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.physical.bytes())
    }

    /// Reserves addresses, at the hint if they are free there.
    pub(crate) fn reserve(&mut self, bytes: u64, hint: u64) -> Result<u64, u32> {
        granular(bytes)?;
        let aligned = hint.is_multiple_of(GRANULE);
        let hinted = (hint > 0 && aligned).then(|| fresh(hint, bytes, libc::PROT_NONE));
        let got = hinted
            .flatten()
            .or_else(|| fresh(0, bytes, libc::PROT_NONE));
        let at = got.ok_or(OUT_OF_MEMORY)?;
        self.reserved.insert(at, bytes);
        Ok(at)
    }

    /// Gives reserved addresses back, at which nothing is mapped.
    pub(crate) fn free_address(&mut self, address: u64, bytes: u64) -> Result<(), u32> {
        let reserved = self.reserved.get(&address) == Some(&bytes);
        let empty = self.mapped.range(address..address + bytes).next().is_none();
        if !reserved || !empty {
            return Err(INVALID_VALUE);
        }
        self.reserved.remove(&address);
        unmapped(address, bytes);
        Ok(())
    }

    /// Makes physical memory; returns its handle.
    pub(crate) fn create(&mut self, bytes: u64) -> Result<u64, u32> {
        granular(bytes)?;
        match bytes <= self.free() {
            true => self.physical.create(bytes),
            false => Err(OUT_OF_MEMORY),
        }
    }

    /// Gives up a handle. The memory goes with its last handle and its last mapping.
    pub(crate) fn release(&mut self, handle: u64) -> Result<(), u32> {
        self.physical.release(handle)
    }

    /// Returns the handle of the memory at an address, counted once more.
    pub(crate) fn retain(&mut self, address: u64) -> Result<u64, u32> {
        let before = self.mapped.range(..=address).next_back();
        let here = before.filter(|(first, it)| address - **first < it.bytes);
        let handle = here.map(|(_, it)| it.handle).ok_or(INVALID_VALUE)?;
        self.physical.retain(handle)?;
        Ok(handle)
    }

    /// Maps physical memory at reserved addresses.
    pub(crate) fn map(&mut self, address: u64, bytes: u64, handle: u64) -> Result<(), u32> {
        granular(bytes)?;
        let reserved = inside(&self.reserved, address, bytes) && address.is_multiple_of(GRANULE);
        let before = self.mapped.range(..address + bytes).next_back();
        let free = before.is_none_or(|(first, it)| first + it.bytes <= address);
        if !reserved || !free || self.physical.size(handle) != Some(bytes) {
            return Err(INVALID_VALUE);
        }
        self.physical.map(handle, address)?;
        let mapped = Mapped {
            bytes,
            handle,
            open: false,
        };
        self.mapped.insert(address, mapped);
        Ok(())
    }

    /// Lets the device reach mapped memory.
    pub(crate) fn set_access(&mut self, address: u64, bytes: u64) -> Result<(), u32> {
        self.whole(address, bytes)?;
        for (first, it) in self.mapped.range_mut(address..address + bytes) {
            let at = std::ptr::with_exposed_provenance_mut(*first as usize);
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the range is one of the table's, mapped by `map`.
            let set = unsafe { libc::mprotect(at, it.bytes as usize, access) };
            it.open = set == 0;
        }
        Ok(())
    }

    pub(crate) fn unmap(&mut self, address: u64, bytes: u64) -> Result<(), u32> {
        self.whole(address, bytes)?;
        let firsts: Vec<u64> = self
            .mapped
            .range(address..address + bytes)
            .map(|it| *it.0)
            .collect();
        for first in firsts {
            if let Some(it) = self.mapped.remove(&first) {
                physical::cover(first, it.bytes)?;
                self.physical.release(it.handle)?;
            }
        }
        Ok(())
    }

    /// Checks that a range consists of whole mappings.
    fn whole(&self, address: u64, bytes: u64) -> Result<(), u32> {
        granular(bytes)?;
        let mut at = address;
        for (first, it) in self.mapped.range(address..address + bytes) {
            if *first != at {
                return Err(INVALID_VALUE);
            }
            at += it.bytes;
        }
        match at == address + bytes {
            true => Ok(()),
            false => Err(INVALID_VALUE),
        }
    }

    /// Makes memory of the driver's own on the device, all zeros.
    pub(crate) fn alloc_own(&mut self, bytes: u64) -> Result<u64, u32> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = fresh(0, bytes.max(1), access).ok_or(OUT_OF_MEMORY)?;
        self.own.insert(at, bytes.max(1));
        Ok(at)
    }

    pub(crate) fn free_own(&mut self, address: u64) {
        if let Some(bytes) = self.own.remove(&address) {
            unmapped(address, bytes);
        }
    }

    pub(crate) fn alloc_pinned(&mut self, bytes: u64) -> Result<u64, u32> {
        if bytes == 0 {
            return Err(INVALID_VALUE);
        }
        let left = self.unpinned.get_mut(&bytes).and_then(Vec::pop);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = left
            .or_else(|| fresh(0, bytes, access))
            .ok_or(OUT_OF_MEMORY)?;
        self.pinned.insert(at, bytes);
        Ok(at)
    }

    /// Bytes of the pinned memory that begins at an address; 0 if none does.
    pub(crate) fn pinned_bytes(&self, address: u64) -> u64 {
        self.pinned.get(&address).copied().unwrap_or(0)
    }

    pub(crate) fn free_pinned(&mut self, address: u64) -> Result<(), u32> {
        let bytes = self.pinned.remove(&address).ok_or(INVALID_VALUE)?;
        self.unpinned.entry(bytes).or_default().push(address);
        Ok(())
    }

    pub(crate) fn is_pinned(&self, address: u64, bytes: u64) -> bool {
        inside(&self.pinned, address, bytes)
    }
}

impl Memory {
    /// Takes back everything that was given out. What was in it stays.
    pub(crate) fn reset(&mut self) {
        for (address, bytes) in std::mem::take(&mut self.pinned) {
            self.unpinned.entry(bytes).or_default().push(address);
        }
        self.mapped.clear();
        self.physical.release_all();
        let ranges = [&mut self.reserved, &mut self.own];
        for (address, bytes) in ranges.into_iter().flat_map(std::mem::take) {
            unmapped(address, bytes);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.reset();
        for (bytes, all) in std::mem::take(&mut self.unpinned) {
            all.into_iter().for_each(|address| unmapped(address, bytes));
        }
    }
}

#[cfg(test)]
mod tests;
