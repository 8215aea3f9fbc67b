//! The physical memory of a CPU device: one file in memory, with a range for each session.
//!
//! A page of the file takes memory from its first touch until it is given back. Pages belong to the
//! file and not to an address, so they come and go while the addresses stay.

#![expect(unsafe_code, reason = "a file in memory, its mappings and holes")]

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::page::PAGE;
use super::remapped::Remapped;

/// The file, and the owners of its ranges.
#[derive(Debug)]
pub(crate) struct PhysicalMemory {
    file: File,
    /// The ranges that are taken: the end of each, by its start.
    taken: Mutex<BTreeMap<u64, u64>>,
    remapped: Remapped,
}

impl PhysicalMemory {
    /// Creates a file without pages.
    ///
    /// # Errors
    /// If the host does not support files in memory, or denies us one.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"warploom-device".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let file = unsafe { File::from_raw_fd(file) };
        Ok(Self {
            file,
            taken: Mutex::default(),
            remapped: Remapped::default(),
        })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first free range of that many bytes, whole pages. Returns its start; `None` if the
    /// host does not allow a file of that length. The range has no pages.
    pub(super) fn take(&self, bytes: u64) -> Option<u64> {
        let mut taken = self.taken();
        let mut start = 0;
        for (next, end) in &*taken {
            if next - start >= bytes {
                break;
            }
            start = *end;
        }
        let end = start.checked_add(bytes).filter(|end| *end <= longest())?;
        if self.file.metadata().ok()?.len() < end {
            // Memory beyond a file's end cannot be touched. Extending the file takes no memory.
            self.file.set_len(end).ok()?;
        }
        taken.insert(start, end);
        Some(start)
    }

    /// Frees the range that begins here.
    pub(super) fn give(&self, start: u64) {
        let mut taken = self.taken();
        if let Some(end) = taken.get(&start).copied()
            && self.punch(start, end - start)
        {
            taken.remove(&start);
        }
        // If the host kept the pages, the range is never taken again.
    }

    /// Number of second mappings of each tenant.
    pub(super) fn remapped(&self) -> &Remapped {
        &self.remapped
    }

    /// Gives the pages of a range back to the host, so that they read as zeros. True if the host
    /// took them. It always takes whole pages, unless a policy of the host forbids the call itself.
    pub(super) fn punch(&self, start: u64, bytes: u64) -> bool {
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (Ok(start), Ok(bytes)) = (start.try_into(), bytes.try_into()) else {
            return false;
        };
        // SAFETY: the descriptor is ours and no memory of the process itself changes. The owner of
        // the range gives it back through a value that it alone has.
        unsafe { libc::fallocate(self.file.as_raw_fd(), hole, start, bytes) == 0 }
    }

    /// Maps a range for reading and writing. The address is `at`, where it replaces the pages, or
    /// chosen by the host.
    ///
    /// # Safety
    /// Memory at the address is the caller's own, and has no readers or writers.
    pub(super) unsafe fn map(
        &self,
        at: Option<NonNull<u8>>,
        (start, bytes): (u64, u64),
    ) -> Option<NonNull<u8>> {
        let (start, bytes) = (start.try_into().ok()?, bytes.try_into().ok()?);
        let fixed = at.map_or(0, |_| libc::MAP_FIXED);
        // SAFETY: the caller vouches for the address. Pages are allocated when they are touched.
        let mapped = unsafe {
            libc::mmap(
                at.map_or(ptr::null_mut(), |at| at.as_ptr().cast()),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE | fixed,
                self.file.as_raw_fd(),
                start,
            )
        };
        let mapped = (mapped != libc::MAP_FAILED).then_some(mapped.cast())?;
        NonNull::new(mapped)
    }

    /// The first run of pages within a range: its start and end. `None` if there is none.
    pub(super) fn next_run(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let first = self.seek(start, libc::SEEK_DATA)?;
        if first >= end {
            return None;
        }
        let last = self.seek(first, libc::SEEK_HOLE)?;
        Some((first / PAGE * PAGE, last.min(end)))
    }

    fn seek(&self, from: u64, to: i32) -> Option<u64> {
        // SAFETY: the descriptor is ours, and its file position is not used otherwise.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), from.try_into().ok()?, to) };
        found.try_into().ok()
    }

    /// Writes bytes into the file. Pages that are entirely written are not zeroed first, and
    /// nothing is mapped. That takes two thirds of the time of a write to an address.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }
}

/// Maximum bytes of a file of this process. Beyond them the host would end the process.
fn longest() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is ours.
    match unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } {
        0 => limit.rlim_cur.min(i64::MAX as u64),
        _ => i64::MAX as u64,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn ranges_are_apart_used_again_and_empty() {
        let physical = PhysicalMemory::new().expect("a file in memory");
        let stored = || physical.file.metadata().expect("of a file").blocks() * 512;
        let [a, b, c] = [3, 1, 2].map(|pages| physical.take(pages * PAGE).expect("room"));
        assert_eq!([a, b, c], [0, 3 * PAGE, 4 * PAGE]);
        assert_eq!(stored(), 0);
        for at in [a, b, c] {
            physical.write(at, &[7; PAGE as usize]).expect("written");
        }
        assert_eq!(stored(), 3 * PAGE);
        physical.give(a);
        assert_eq!(stored(), 2 * PAGE);
        assert_eq!(physical.take(4 * PAGE), Some(6 * PAGE), "no room before");
        assert_eq!(physical.take(2 * PAGE), Some(0));
        assert_eq!(
            physical.next_run(0, 3 * PAGE),
            None,
            "what was there is gone"
        );
        assert_eq!(physical.next_run(0, 10 * PAGE), Some((b, b + 2 * PAGE)));
        assert_eq!(physical.next_run(0, b + 1), Some((b, b + 1)));
        assert_eq!(physical.take(u64::MAX), None);
        assert_eq!(physical.take(1 << 63), None);
    }
}
