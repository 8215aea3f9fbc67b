//! The store of shared units: a file in memory, divided into slots of a unit.
//!
//! A slot is written once, before its first use, and not again while it is in use. Sessions show it
//! by private mappings, so that a write to one of its pages gives the writer its own page.

#![expect(unsafe_code, reason = "a mapped view of the file, and holes in it")]

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use device::{Chunk, HostKeeper, Keeper, SharingDomain};

use super::unit::{UNIT, mappings};
use crate::memory::PAGE;

/// The slots of one device. Any thread may fill one.
#[derive(Debug)]
pub(crate) struct Store {
    file: File,
    /// A read-only mapping of the maximum file.
    view: NonNull<u8>,
    /// Maximum number of slots.
    most: u32,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    /// Number of slots within the file's length.
    end: u32,
    free: BTreeSet<u32>,
}

// SAFETY: the view is this value's own and only read through it.
unsafe impl Send for Store {}
// SAFETY: only slots in use are read through the view, and those have no writers.
unsafe impl Sync for Store {}

/// A slot in use. When the last owner drops it, its memory goes back to the host.
#[derive(Debug)]
pub(crate) struct Slot {
    store: Arc<Store>,
    number: u32,
    bytes: usize,
    /// The domain with the sessions that may share it.
    domain: Option<SharingDomain>,
}

impl Store {
    /// A store of `most` slots; `None` if the host does not permit it.
    pub(crate) fn new(most: u32) -> Option<Arc<Self>> {
        // SAFETY: only reads a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if u64::try_from(page) != Ok(PAGE) || most == 0 {
            return None;
        }
        // SAFETY: the name is a C string.
        let file = unsafe { libc::memfd_create(c"warploom-shared".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return None;
        }
        // SAFETY: the descriptor was just made and has no other owner.
        let file = unsafe { File::from_raw_fd(file) };
        let bytes = usize::try_from(u64::from(most) * UNIT).ok()?;
        // SAFETY: a new mapping at an address chosen by the kernel. It is not read beyond the
        // file's end.
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
        Some(Arc::new(Self {
            file,
            view: NonNull::new(view.cast())?,
            most,
            slots: Mutex::default(),
        }))
    }

    /// The store of a device with sessions that hold at most `capacity` bytes together; `None` if
    /// the host does not support it. There is room for as many bytes again that no session shows.
    pub(crate) fn of(capacity: u64) -> Option<Arc<Self>> {
        let slots = (capacity / UNIT).saturating_mul(2).min(mappings() / 2);
        Self::new(u32::try_from(slots).ok()?)
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a unit in a slot for sessions of a domain; the pieces together have at most a unit.
    /// `None` if there is no room.
    pub(crate) fn keep<'a>(
        self: &Arc<Self>,
        domain: Option<SharingDomain>,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) -> Option<Slot> {
        let mut slot = Slot {
            store: Arc::clone(self),
            number: self.take()?,
            bytes: 0,
            domain,
        };
        for piece in pieces {
            let at = Self::offset(slot.number) + slot.bytes as u64;
            self.file.write_all_at(piece, at).ok()?;
            slot.bytes += piece.len();
        }
        Some(slot)
    }

    /// Takes an unused slot.
    fn take(&self) -> Option<u32> {
        let mut slots = self.slots();
        if let Some(slot) = slots.free.pop_first() {
            return Some(slot);
        }
        let slot = slots.end;
        if slot == self.most {
            return None;
        }
        self.file.set_len(Self::offset(slot + 1)).ok()?;
        slots.end += 1;
        Some(slot)
    }

    /// Frees an unused slot: its memory goes back to the host.
    fn free(&self, slot: u32) {
        let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (Ok(at), Ok(bytes)) = (Self::offset(slot).try_into(), UNIT.try_into()) else {
            return;
        };
        // SAFETY: the descriptor is ours. A session that still showed the slot would see zeros, but
        // none does. If the host refuses, the memory stays until the slot is used again.
        unsafe { libc::fallocate(self.file.as_raw_fd(), hole, at, bytes) };
        self.slots().free.insert(slot);
    }

    /// The file to map, for [`crate::memory::Memory::show`].
    pub(crate) fn file(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// Offset of a slot in the file.
    pub(crate) fn offset(slot: u32) -> u64 {
        u64::from(slot) * UNIT
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: the view is this value's own and there are no references to it any more.
        unsafe {
            let bytes = Self::offset(self.most) as usize;
            libc::munmap(self.view.as_ptr().cast(), bytes);
        }
    }
}

impl Slot {
    /// Its number in its store.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The store that it is in.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The domain with the sessions that may share it.
    pub(crate) fn domain(&self) -> Option<SharingDomain> {
        self.domain
    }
}

impl Chunk for Slot {
    fn bytes(&self) -> &[u8] {
        // SAFETY: within the view, and within the file, which never gets shorter. A slot in use is
        // not written.
        // written.
        unsafe {
            let offset = Store::offset(self.number) as usize;
            std::slice::from_raw_parts(self.store.view.as_ptr().add(offset), self.bytes)
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.store.free(self.number);
    }
}

/// Keeps chunks in the device's store; those without room there are kept in memory of the process.
#[derive(Debug)]
pub(crate) struct StoreKeeper(pub(crate) Arc<Store>);

impl Keeper for StoreKeeper {
    fn keep(
        &self,
        domain: Option<SharingDomain>,
        pieces: &mut dyn Iterator<Item = &[u8]>,
    ) -> Arc<dyn Chunk> {
        let pieces: Vec<_> = pieces.collect();
        match self.0.keep(domain, pieces.iter().copied()) {
            Some(slot) => Arc::new(slot),
            None => HostKeeper.keep(domain, &mut pieces.into_iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn slots_are_used_again_and_their_memory_goes() {
        let store = Store::new(3).expect("a file in memory");
        let unit = |of: u8| vec![of; UNIT as usize];
        let stored = || store.file.metadata().expect("of a file").blocks() * 512;
        let keep = |bytes: &[u8], piece| store.keep(None, bytes.chunks(piece));
        let (a, b, c) = (unit(1), unit(2), unit(3));
        let first = keep(&a, 1_000).expect("room");
        let second = keep(&b, 1 << 20).expect("room");
        let third = keep(&c[..8_192], 4_096).expect("room");
        assert_eq!([&first, &second, &third].map(Slot::number), [0, 1, 2]);
        assert!(keep(&a, 4_096).is_none(), "it is full");
        // Chunks without room in the store are kept too.
        let keeper = StoreKeeper(Arc::clone(&store));
        assert!(keeper.keep(None, &mut a.chunks(77_777)).bytes() == a);
        assert!(first.bytes() == a && second.bytes() == b && third.bytes() == &c[..8_192]);
        assert_eq!(stored(), 2 * UNIT + 8_192);
        drop(first);
        assert_eq!(stored(), UNIT + 8_192);
        let again = keep(&c, 1 << 20).expect("room");
        assert_eq!(again.number(), 0);
        assert!(again.bytes() == c && second.bytes() == b);
    }
}
