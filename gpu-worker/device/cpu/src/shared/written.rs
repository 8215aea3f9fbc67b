//! The pages of a private mapping that were written since, from the kernel's `/proc/self/pagemap`.
//! The bits used here need no privileges.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::UNIT;
use crate::memory::PAGE;

/// The page is in memory.
const PRESENT: u64 = 1 << 63;
/// The page is in swap.
const SWAPPED: u64 = 1 << 62;
/// The page belongs to the file.
const OF_FILE: u64 = 1 << 61;

/// The page table of this process.
#[derive(Debug)]
pub(crate) struct Pagemap(File);

impl Pagemap {
    /// `None` if the host does not permit it.
    pub(crate) fn open() -> Option<Self> {
        File::open("/proc/self/pagemap").ok().map(Self)
    }

    /// Bytes of a mapped unit, at this address of the process, on pages that were written and so do
    /// not belong to the file any more.
    pub(crate) fn written(&self, host: u64, bytes: u64) -> Option<u64> {
        const ROW: usize = size_of::<u64>();
        let mut rows = [0_u8; (UNIT / PAGE) as usize * ROW];
        let rows = rows.get_mut(..(bytes / PAGE) as usize * ROW)?;
        self.0.read_exact_at(rows, host / PAGE * ROW as u64).ok()?;
        let (rows, _) = rows.as_chunks::<ROW>();
        let own = rows.iter().filter(|row| {
            let row = u64::from_ne_bytes(**row);
            row & (PRESENT | SWAPPED) != 0 && row & OF_FILE == 0
        });
        Some(own.count() as u64 * PAGE)
    }
}
