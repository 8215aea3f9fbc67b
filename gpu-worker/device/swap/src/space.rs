//! The swap space: bytes in the host's memory, and in a file once that is full.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bus_schemas::{Code, Failure};
use device::SwapUse;

use crate::config::SwapConfig;
use crate::memory_tier::MemoryTier;
use crate::reserve;
use crate::runs::Runs;

/// Allocation granularity, bytes: a page.
const GRAIN: u64 = 4096;
/// Bytes that are given back to the host at a time, in less than a millisecond.
const TRIMMED: u64 = 4 << 20;

/// The place of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// In the host's memory.
    Memory,
    /// In the swap file.
    Disk,
}

/// The error of a part that the swap space lacks, where no bytes can be.
fn missing() -> std::io::Error {
    std::io::Error::other("the swap space has no such part")
}

/// Whole grains of a tier that belong to one piece.
#[derive(Debug)]
struct Extent {
    tier: Tier,
    range: Range<u64>,
}

/// The free bytes of both tiers.
#[derive(Debug)]
struct Free {
    memory: Runs,
    disk: Runs,
}

impl Free {
    fn of(&mut self, tier: Tier) -> &mut Runs {
        match tier {
            Tier::Memory => &mut self.memory,
            Tier::Disk => &mut self.disk,
        }
    }

    fn left(&self) -> u64 {
        self.memory.left() + self.disk.left()
    }
}

/// Room for swapped-out bytes: two tiers with a limit each.
#[derive(Debug)]
pub struct SwapSpace {
    memory: Option<MemoryTier>,
    disk: Option<File>,
    /// Maximum bytes of each tier, memory first.
    limits: (u64, u64),
    free: Mutex<Free>,
}

impl SwapSpace {
    /// Creates a swap space of this size; `None` if it would have no room at all. The limits count in whole
    /// pages. The file's bytes are reserved here, so that it cannot lack room later.
    ///
    /// # Errors
    /// If the host does not give a file in memory, or the directory no room. The failure names it, the bytes
    /// and the remedy.
    pub fn new(config: &SwapConfig) -> Result<Option<Self>, Failure> {
        let whole = |bytes: u64| bytes / GRAIN * GRAIN;
        let disk = config.file.as_ref().map_or(0, |file| whole(file.bytes));
        let limits = (whole(config.memory), disk);
        if limits == (0, 0) {
            return Ok(None);
        }
        let of_file = config.file.as_ref().filter(|_| disk > 0);
        Ok(Some(Self {
            memory: match limits.0 {
                0 => None,
                bytes => Some(MemoryTier::new(bytes)?),
            },
            disk: of_file.map(reserve::on_disk).transpose()?,
            limits,
            free: Mutex::new(Free {
                memory: Runs::new(limits.0),
                disk: Runs::new(limits.1),
            }),
        }))
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the host's memory may have pages for free ranges.
    pub(crate) fn has_slack(&self) -> bool {
        self.memory.as_ref().is_some_and(MemoryTier::has_slack)
    }

    /// Gives free pages back to the host, a little at a time, for as long as `more` returns true. Pages that
    /// are being given back cannot be allocated, and the use of the space cannot be read meanwhile.
    pub(crate) fn trim(&self, more: impl Fn() -> bool) {
        let Some(memory) = &self.memory else {
            return;
        };
        memory.trimming();
        let mut from = 0;
        loop {
            if !more() {
                return memory.given();
            }
            let free = self.free();
            let Some(range) = free.memory.next(from, TRIMMED) else {
                return;
            };
            from = range.end;
            memory.trim(range);
        }
    }

    /// Bytes for which it has room.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.free().left()
    }

    /// Returns the use of the space, without moves, which it does not know.
    #[must_use]
    pub fn used(&self) -> SwapUse {
        let free = self.free();
        let (memory, disk) = self.limits;
        SwapUse {
            memory: (memory - free.memory.left(), memory),
            file: (disk - free.disk.left(), disk),
            moving: (0, 0),
        }
    }

    /// The failure of bytes that do not fit.
    pub(crate) fn no_room(&self, bytes: u64) -> Failure {
        let SwapUse { memory, file, .. } = self.used();
        let detail = format!(
            "the swap space has no room for {bytes} bytes: in memory it holds {} of {}, in its file {} of {}",
            memory.0, memory.1, file.0, file.1
        );
        Failure::new(Code::OutOfMemory, detail)
    }

    /// Stores bytes, in memory as far as there is room. They stay until the returned value is dropped.
    ///
    /// # Errors
    /// If there is no room for all of them, or the host fails; then nothing is stored.
    pub fn put(self: &Arc<Self>, bytes: &[u8]) -> Result<SwappedBytes, Failure> {
        let stored = self.take(bytes.len())?;
        stored.pieces(|extent, range| {
            let piece = bytes.get(range).unwrap_or_default();
            match (extent.tier, &self.memory, &self.disk) {
                (Tier::Memory, Some(memory), _) => memory.write(extent.range.start, piece),
                (Tier::Disk, _, Some(disk)) => disk.write_all_at(piece, extent.range.start),
                _ => Err(missing()),
            }
        })?;
        Ok(stored)
    }

    /// Takes room for a piece; it still has old bytes.
    fn take(self: &Arc<Self>, len: usize) -> Result<SwappedBytes, Failure> {
        let mut stored = SwappedBytes {
            space: Arc::clone(self),
            extents: Vec::with_capacity(1),
            len,
        };
        let mut wanted = (len as u64).next_multiple_of(GRAIN);
        let mut free = self.free();
        if free.left() < wanted {
            drop(free);
            return Err(self.no_room(len as u64));
        }
        for tier in [Tier::Memory, Tier::Disk] {
            while wanted > 0
                && let Some(range) = free.of(tier).take(wanted)
            {
                wanted -= range.end - range.start;
                stored.extents.push(Extent { tier, range });
            }
        }
        Ok(stored)
    }

    /// Frees an extent. Its old bytes are never read, because each owner writes before it reads.
    fn give(&self, extent: &Extent) {
        if let (Tier::Memory, Some(memory)) = (extent.tier, &self.memory) {
            memory.given();
        }
        self.free().of(extent.tier).give(extent.range.clone());
    }
}

/// Bytes in the swap space; dropping this frees their room.
#[derive(Debug)]
pub struct SwappedBytes {
    space: Arc<SwapSpace>,
    extents: Vec<Extent>,
    len: usize,
}

impl SwappedBytes {
    /// Number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives `each` all bytes in order, in parts of whole pages except the last: the offset of a part, and
    /// its bytes. `spare` is room for some of them.
    ///
    /// # Errors
    /// If the host fails, or the failure of `each`.
    pub fn read(
        &self,
        spare: &mut Vec<u8>,
        mut each: impl FnMut(usize, &[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let space = &self.space;
        let mut said = Ok(());
        self.pieces(|extent, range| {
            let start = extent.range.start;
            let end = start + range.len() as u64;
            let bytes = match (extent.tier, &space.memory, &space.disk) {
                (Tier::Memory, Some(memory), _) => memory.read(start..end, spare)?,
                (Tier::Disk, _, Some(disk)) => {
                    spare.resize(range.len(), 0);
                    disk.read_exact_at(spare, start)?;
                    &spare[..]
                }
                _ => return Err(missing()),
            };
            if said.is_ok() {
                said = each(range.start, bytes);
            }
            Ok(())
        })?;
        said
    }

    /// Returns each extent in order, with its range of the bytes.
    fn pieces(
        &self,
        mut each: impl FnMut(&Extent, Range<usize>) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        let mut from = 0_usize;
        for extent in &self.extents {
            let Extent { tier, range } = extent;
            let whole = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let to = self.len.min(from.saturating_add(whole));
            each(extent, from..to).map_err(|error| {
                let place = match tier {
                    Tier::Memory => "the host's memory",
                    Tier::Disk => "the swap file",
                };
                let detail = format!("{place} failed for {} swapped bytes: {error}", to - from);
                Failure::new(Code::OutOfMemory, detail)
            })?;
            from = to;
        }
        Ok(())
    }
}

impl Drop for SwappedBytes {
    fn drop(&mut self) {
        for extent in &self.extents {
            self.space.give(extent);
        }
    }
}

#[cfg(test)]
mod tests;
