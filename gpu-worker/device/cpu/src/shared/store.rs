//! The store of shared units: a file in memory, in slots of a unit.
//!
//! A slot is written once, before anybody shows it, and not again while anybody does. Sessions show
//! it by private mappings, so that a write to one of its pages gives the writer a page of its own.

#![expect(unsafe_code, reason = "a mapped view of the file, and holes in it")]

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};

use super::UNIT;
use crate::memory::PAGE;

/// The slots of one device.
#[derive(Debug)]
pub(crate) struct Store {
    file: File,
    /// All of the file that there can be, to read.
    view: NonNull<u8>,
    /// Slots that there can be.
    most: u32,
    /// Slots that the file is long enough for.
    end: u32,
    free: BTreeSet<u32>,
}

// SAFETY: the view is this value's own and only read through it.
unsafe impl Send for Store {}

impl Store {
    /// A store of `most` slots; none where the host does not let us.
    pub(crate) fn new(most: u32) -> Option<Self> {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if u64::try_from(page) != Ok(PAGE) || most == 0 {
            return None;
        }
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"warploom-shared".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return None;
        }
        // SAFETY: the descriptor was just made and is nobody else's.
        let file = unsafe { File::from_raw_fd(file) };
        let bytes = usize::try_from(u64::from(most) * UNIT).ok()?;
        // SAFETY: a new mapping at an address of the kernel's choice. Nothing is read of it behind
        // the file's end.
        let view = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if view == libc::MAP_FAILED {
            return None;
        }
        Some(Self {
            file,
            view: NonNull::new(view.cast())?,
            most,
            end: 0,
            free: BTreeSet::new(),
        })
    }

    /// Keeps a unit, given in pieces of a unit at most together, in a slot; none where there is no
    /// room.
    pub(crate) fn keep<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) -> Option<u32> {
        let slot = match self.free.pop_first() {
            Some(slot) => slot,
            None => self.lengthen()?,
        };
        let mut at = Self::offset(slot);
        for piece in pieces {
            if self.file.write_all_at(piece, at).is_err() {
                self.free(slot);
                return None;
            }
            at += piece.len() as u64;
        }
        Some(slot)
    }

    fn lengthen(&mut self) -> Option<u32> {
        let slot = self.end;
        if slot == self.most {
            return None;
        }
        self.file.set_len(Self::offset(slot + 1)).ok()?;
        self.end += 1;
        Some(slot)
    }

    /// Nobody shows a slot any more: its memory goes back to the host.
    pub(crate) fn free(&mut self, slot: u32) {
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (Ok(at), Ok(bytes)) = (Self::offset(slot).try_into(), UNIT.try_into()) else {
            return;
        };
        // SAFETY: the descriptor is ours. Whoever still showed the slot would see zeros, and
        // nobody does. Where the host refuses, the memory stays until the slot is used again.
        unsafe { libc::fallocate(self.file.as_raw_fd(), hole, at, bytes) };
        self.free.insert(slot);
    }

    /// The first `bytes` of a slot that is in use.
    pub(crate) fn bytes(&self, slot: u32, bytes: u64) -> &[u8] {
        assert!(
            slot < self.end && bytes <= UNIT,
            "slot {slot} of {}",
            self.end
        );
        // SAFETY: within the view and within the file; a slot in use is not written.
        unsafe {
            let at = self.view.as_ptr().add(Self::offset(slot) as usize);
            std::slice::from_raw_parts(at, bytes as usize)
        }
    }

    /// What to map, for [`crate::memory::Memory::show`].
    pub(crate) fn file(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Where in the file a slot begins.
    pub(crate) fn offset(slot: u32) -> u64 {
        u64::from(slot) * UNIT
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: the view is this value's own and nothing refers to it any more.
        unsafe {
            let bytes = Self::offset(self.most) as usize;
            libc::munmap(self.view.as_ptr().cast(), bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn slots_are_used_again_and_their_memory_goes() {
        let mut store = Store::new(3).expect("a file in memory");
        let unit = |of: u8| vec![of; UNIT as usize];
        let stored = |store: &Store| store.file.metadata().expect("of a file").blocks() * 512;
        let (a, b, c) = (unit(1), unit(2), unit(3));
        assert_eq!(store.keep(a.chunks(1_000)), Some(0));
        assert_eq!(store.keep(b.chunks(1 << 20)), Some(1));
        assert_eq!(store.keep(c[..8_192].chunks(4_096)), Some(2));
        assert_eq!(store.keep(a.chunks(4_096)), None, "it is full");
        assert!(store.bytes(0, UNIT) == a && store.bytes(1, UNIT) == b);
        assert_eq!(stored(&store), 2 * UNIT + 8_192);
        store.free(0);
        assert_eq!(stored(&store), UNIT + 8_192);
        assert_eq!(store.keep(c.chunks(1 << 20)), Some(0));
        assert!(store.bytes(0, UNIT) == c && store.bytes(1, UNIT) == b);
    }
}
