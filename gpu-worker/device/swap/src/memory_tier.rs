//! The part of the swap space in the host's memory: a file in memory, mapped once.
//!
//! Freed pages stay for a while, because writing is twice as fast to present pages: while sessions take
//! turns, each fills the pages that the one before left.

#![expect(
    unsafe_code,
    reason = "bytes of a mapped file, whose ranges one value each has"
)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bus_schemas::Failure;
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, fallocate};

use crate::reserve;

/// Bytes of a block, the unit in which pages are known to be present.
const BLOCK: u64 = 64 << 10;

/// The file, its mapping, and its present pages.
#[derive(Debug)]
pub(crate) struct MemoryTier {
    file: File,
    /// `None` if the host maps no file of this size: bytes are then copied by the file's calls alone.
    map: Option<MmapRaw>,
    /// A bit for each block, set if all its pages are present.
    there: Vec<AtomicU64>,
    /// True if free ranges may have pages.
    slack: AtomicBool,
}

impl MemoryTier {
    pub(crate) fn new(bytes: u64) -> Result<Self, Failure> {
        let file = reserve::in_memory(bytes)?;
        let map = MmapOptions::new().map_raw(&file).ok();
        let words = bytes.div_ceil(BLOCK * 64);
        Ok(Self {
            file,
            map,
            there: (0..words).map(|_| AtomicU64::new(0)).collect(),
            slack: AtomicBool::new(false),
        })
    }

    /// Writes bytes into a range that only the caller has.
    pub(crate) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let end = at + bytes.len() as u64;
        let to = self.mapped(at..end).filter(|_| self.is_there(at..end));
        let Some(to) = to else {
            // This makes fresh pages without a fault for each of them, and without zeroing them first.
            self.file.write_all_at(bytes, at)?;
            let whole = at.div_ceil(BLOCK)..end / BLOCK;
            whole.for_each(|block| self.mark(block, true));
            return Ok(());
        };
        // SAFETY: the range lies in the mapping, only the caller has it, and its pages are present.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    /// Returns the bytes of a range that only the caller has; through `spare` if it is not mapped.
    pub(crate) fn read<'a>(
        &'a self,
        range: Range<u64>,
        spare: &'a mut Vec<u8>,
    ) -> io::Result<&'a [u8]> {
        let len = (range.end - range.start) as usize;
        if let Some(from) = self.mapped(range.clone()) {
            // SAFETY: the range lies in the mapping; only the caller has it and does not write to it
            // meanwhile.
            return Ok(unsafe { std::slice::from_raw_parts(from, len) });
        }
        spare.resize(len, 0);
        self.file.read_exact_at(spare, range.start)?;
        Ok(spare)
    }

    /// Returns the address at which a range is mapped, if it is.
    fn mapped(&self, range: Range<u64>) -> Option<*mut u8> {
        let map = self
            .map
            .as_ref()
            .filter(|map| range.end <= map.len() as u64)?;
        Some(map.as_mut_ptr().wrapping_add(range.start as usize))
    }

    /// True if all pages of a range are known to be present.
    fn is_there(&self, range: Range<u64>) -> bool {
        let mut blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        blocks.all(|block| {
            let word = self.there.get((block / 64) as usize);
            word.is_some_and(|word| word.load(Ordering::Relaxed) >> (block % 64) & 1 == 1)
        })
    }

    fn mark(&self, block: u64, there: bool) {
        let Some(word) = self.there.get((block / 64) as usize) else {
            return;
        };
        let bit = 1 << (block % 64);
        match there {
            true => word.fetch_or(bit, Ordering::Relaxed),
            false => word.fetch_and(!bit, Ordering::Relaxed),
        };
    }

    /// Notes that a range was freed.
    pub(crate) fn given(&self) {
        self.slack.store(true, Ordering::Relaxed);
    }

    /// True if free ranges may have pages.
    pub(crate) fn has_slack(&self) -> bool {
        self.slack.load(Ordering::Relaxed)
    }

    /// Notes that the pages of all free ranges are about to be given back.
    pub(crate) fn trimming(&self) {
        self.slack.store(false, Ordering::Relaxed);
    }

    /// Gives the pages of a range back to the host. The range is free and stays free meanwhile. If the host
    /// does not take them, they stay for the next owner of the range.
    pub(crate) fn trim(&self, range: Range<u64>) {
        let Range { start, end } = range;
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        (start / BLOCK..end.div_ceil(BLOCK)).for_each(|block| self.mark(block, false));
        let _ = fallocate(&self.file, hole, start, end - start);
    }

    /// Bytes of pages that the host has for it.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        self.file.metadata().expect("of a file").blocks() * 512
    }
}
