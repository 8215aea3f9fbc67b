//! The physical memory of a CPU device: one file in memory, a range of it for each session.
//!
//! A page of the file takes memory from its first touch until it is given back. Since pages belong
//! to the file and not to an address, they come and go while the addresses stay.

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

/// The file, and who has which range of it.
#[derive(Debug)]
pub(crate) struct PhysicalMemory {
    file: File,
    /// The ranges that are taken: the end of each, by where it begins.
    taken: Mutex<BTreeMap<u64, u64>>,
    remapped: Remapped,
}

impl PhysicalMemory {
    /// A file without a page.
    ///
    /// # Errors
    /// If the host has no files in memory, or does not let us have one.
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"warploom-device".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and is nobody else's.
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

    /// Takes the first free range of so many bytes, whole pages. Gives where it begins; none where
    /// the host lets no file be that long. It has no pages.
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
            // What lies behind a file's end cannot be touched. It takes no memory.
            self.file.set_len(end).ok()?;
        }
        taken.insert(start, end);
        Some(start)
    }

    /// Nobody has the range that begins here any more.
    pub(super) fn give(&self, start: u64) {
        let mut taken = self.taken();
        if let Some(end) = taken.get(&start).copied()
            && self.punch(start, end - start)
        {
            taken.remove(&start);
        }
        // Where the host kept the pages, nobody is given the range again.
    }

    /// How often tenants have mapped ranges of theirs a second time.
    pub(super) fn remapped(&self) -> &Remapped {
        &self.remapped
    }

    /// Gives the pages of a range back to the host: they read as zeros. Gives whether it took them;
    /// whole pages it always takes, unless a policy of the host's forbids the call itself.
    pub(super) fn punch(&self, start: u64, bytes: u64) -> bool {
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (Ok(start), Ok(bytes)) = (start.try_into(), bytes.try_into()) else {
            return false;
        };
        // SAFETY: the descriptor is ours; no memory of the process's own changes, and whoever has
        // the range gives it back by a value that it alone has.
        unsafe { libc::fallocate(self.file.as_raw_fd(), hole, start, bytes) == 0 }
    }

    /// Maps a range, to be read and written: at an address, whose pages it replaces, or where the
    /// host likes.
    ///
    /// # Safety
    /// What is at the address is the caller's own, and nobody looks at it.
    pub(super) unsafe fn map(
        &self,
        at: Option<NonNull<u8>>,
        (start, bytes): (u64, u64),
    ) -> Option<NonNull<u8>> {
        let (start, bytes) = (start.try_into().ok()?, bytes.try_into().ok()?);
        let fixed = at.map_or(0, |_| libc::MAP_FIXED);
        // SAFETY: the caller vouches for the address. Pages are taken when they are touched.
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

    /// The first run of pages within a range: where it begins and ends. None where there is none.
    pub(super) fn next_run(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let first = self.seek(start, libc::SEEK_DATA)?;
        if first >= end {
            return None;
        }
        let last = self.seek(first, libc::SEEK_HOLE)?;
        Some((first / PAGE * PAGE, last.min(end)))
    }

    fn seek(&self, from: u64, to: i32) -> Option<u64> {
        // SAFETY: the descriptor is ours, and nobody reads or writes where it stands.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), from.try_into().ok()?, to) };
        found.try_into().ok()
    }

    /// Writes bytes into the file. Pages that they fill are not made zeros first, and nothing is
    /// mapped: that takes two thirds of the time of a write to an address.
    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }
}

/// Bytes that a file of this process may have. Beyond them the host would end the process.
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
