//! Physical memory: anonymous files, kept for their next use with the bytes that were left in them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _};

use crate::codes::{INVALID_VALUE, OUT_OF_MEMORY};

/// The byte that fresh memory is full of.
const LEFT: u8 = 0xa5;

#[derive(Debug)]
struct Physical {
    file: File,
    bytes: u64,
    /// Handles and mappings.
    uses: u64,
}

/// All physical memory.
#[derive(Debug, Default)]
pub(super) struct PhysicalStore {
    last: u64,
    held: BTreeMap<u64, Physical>,
    /// Released memory, by its bytes.
    left: BTreeMap<u64, Vec<File>>,
}

/// Makes a file in memory, full of a pattern.
fn fresh(bytes: u64) -> Option<File> {
    // SAFETY: the name is terminated; a file is made, and nothing else.
    let number = unsafe { libc::memfd_create(c"fake-cuda".as_ptr(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return None;
    }
    // SAFETY: the descriptor was just made, and only this file has it.
    let mut file = unsafe { File::from_raw_fd(number) };
    let piece = [LEFT; 64 << 10];
    let mut left = bytes as usize;
    while left > 0 {
        let now = left.min(piece.len());
        file.write_all(piece.get(..now)?).ok()?;
        left -= now;
    }
    Some(file)
}

/// Puts unreachable addresses where memory was mapped.
pub(super) fn cover(address: u64, bytes: u64) -> Result<(), u32> {
    let at = std::ptr::with_exposed_provenance_mut(address as usize);
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: the range is a mapping inside a reservation, both of this driver.
    let got = unsafe { libc::mmap(at, bytes as usize, libc::PROT_NONE, flags, -1, 0) };
    match got == libc::MAP_FAILED {
        true => Err(OUT_OF_MEMORY),
        false => Ok(()),
    }
}

impl PhysicalStore {
    /// Bytes that are given out.
    pub(super) fn bytes(&self) -> u64 {
        self.held.values().map(|it| it.bytes).sum()
    }

    pub(super) fn create(&mut self, bytes: u64) -> Result<u64, u32> {
        let left = self.left.get_mut(&bytes).and_then(Vec::pop);
        let file = left.or_else(|| fresh(bytes)).ok_or(OUT_OF_MEMORY)?;
        self.last += 1;
        let uses = 1;
        self.held.insert(self.last, Physical { file, bytes, uses });
        Ok(self.last)
    }

    pub(super) fn size(&self, handle: u64) -> Option<u64> {
        self.held.get(&handle).map(|it| it.bytes)
    }

    pub(super) fn retain(&mut self, handle: u64) -> Result<(), u32> {
        let it = self.held.get_mut(&handle).ok_or(INVALID_VALUE)?;
        it.uses += 1;
        Ok(())
    }

    pub(super) fn release(&mut self, handle: u64) -> Result<(), u32> {
        let it = self.held.get_mut(&handle).ok_or(INVALID_VALUE)?;
        it.uses -= 1;
        if it.uses == 0
            && let Some(it) = self.held.remove(&handle)
        {
            self.left.entry(it.bytes).or_default().push(it.file);
        }
        Ok(())
    }

    /// Releases all that was given out.
    pub(super) fn release_all(&mut self) {
        for it in std::mem::take(&mut self.held).into_values() {
            self.left.entry(it.bytes).or_default().push(it.file);
        }
    }

    /// Maps memory at an address, out of reach until access is set.
    pub(super) fn map(&mut self, handle: u64, address: u64) -> Result<(), u32> {
        let it = self.held.get_mut(&handle).ok_or(INVALID_VALUE)?;
        let at = std::ptr::with_exposed_provenance_mut(address as usize);
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        let (bytes, file) = (it.bytes as usize, it.file.as_raw_fd());
        // SAFETY: the caller has checked that the range lies in a reservation and has no mapping.
        let got = unsafe { libc::mmap(at, bytes, libc::PROT_NONE, flags, file, 0) };
        if got == libc::MAP_FAILED {
            return Err(OUT_OF_MEMORY);
        }
        it.uses += 1;
        Ok(())
    }
}
