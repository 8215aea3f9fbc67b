//! Imports of other sessions' allocations into this session, and exports of its own.
//!
//! An import maps the exporter's pages of the device's physical memory here a second time. They are
//! whole pages on which this session has nothing of its own; the table of live ranges decides which
//! bytes it may reach. An export keeps its pages: they are never replaced by shown ones.

use bus_schemas::ExportPlace;

use super::imports::ExportedPages;
use super::{Live, Memory, PAGE};
use crate::error::MemoryError;

impl Memory {
    /// True if this session has imports or exports.
    pub(crate) fn has_exchanged(&self) -> bool {
        !self.imports.is_empty()
    }

    /// True if the allocation that begins at `addr` is exported.
    pub(crate) fn is_exported(&self, addr: u64) -> bool {
        self.imports.exported.contains_key(&addr)
    }

    /// Exports the allocation that begins at `addr`; none of its pages may be shown ones.
    ///
    /// # Errors
    /// If no allocation of the client begins there, or it is exported already, or it is itself an
    /// import.
    pub(crate) fn export(&mut self, addr: u64) -> Result<ExportedPages, MemoryError> {
        let bytes = self.allocated(addr).filter(|_| addr < self.internal_base());
        let bytes = bytes.ok_or(MemoryError::NotAllocated(addr))?;
        let end = addr + bytes;
        // If it is mapped elsewhere, those are the same pages.
        if self.shows(addr, end) || self.imports.is_exported(addr, end) {
            return Err(MemoryError::Occupied { addr, len: bytes });
        }
        self.imports.exported.insert(addr, end);
        let (first, last) = (addr / PAGE * PAGE, end.next_multiple_of(PAGE));
        Ok(ExportedPages {
            start: self.start + (first - self.base),
            place: ExportPlace {
                bytes,
                before: addr - first,
                span: last - first,
            },
        })
    }

    /// Ends the export of the allocation that begins at `addr`.
    pub(crate) fn end_export(&mut self, addr: u64) {
        self.imports.exported.remove(&addr);
    }

    /// Imports an allocation that another session of the device exported; its first byte is at
    /// `addr`.
    ///
    /// # Errors
    /// If its pages would overlap others, leave the window, or be misaligned, or if the host does
    /// not map them; nothing changes then.
    pub(crate) fn import(&mut self, addr: u64, pages: ExportedPages) -> Result<(), MemoryError> {
        let ExportPlace {
            bytes,
            before,
            span,
        } = pages.place;
        let occupied = MemoryError::Occupied { addr, len: bytes };
        let first = addr.checked_sub(before).ok_or(occupied)?;
        let last = first.checked_add(span).ok_or(occupied)?;
        let inside = first >= self.base && last <= self.internal_base();
        let place = self.live.partition_point(|live| live.end <= first);
        let free = self.live.get(place).is_none_or(|live| live.start >= last);
        if !inside || !first.is_multiple_of(PAGE) || !free || self.shows(first, last) {
            return Err(occupied);
        }
        // This session's own pages there were freed, so nothing is lost.
        // SAFETY: within the window, which is this value's own; `&mut self` excludes readers.
        let mapped = unsafe {
            let at = self.host.add((first - self.base) as usize);
            self.physical.map(Some(at), (pages.start, span))
        };
        if mapped.is_none() {
            return Err(MemoryError::OutOfMemory(bytes));
        }
        self.imports.pages.insert(first, (last, addr));
        let live = Live {
            start: addr,
            end: addr + bytes,
            writable: true,
        };
        self.live.insert(place, live);
        Ok(())
    }

    /// Drops the import at `addr`, which cannot be reached any more. True if there was one.
    pub(crate) fn drop_import(&mut self, addr: u64) -> bool {
        let mut pages = self.imports.pages.iter();
        let found = pages.find(|(_, (_, first_byte))| *first_byte == addr);
        let Some((first, (last, _))) = found.map(|(first, rest)| (*first, *rest)) else {
            return false;
        };
        let Ok(place) = self.live.binary_search_by_key(&addr, |live| live.start) else {
            return false;
        };
        self.live.remove(place);
        let from = first - self.base;
        // SAFETY: as in `import`: its own pages, of zeros, in their place.
        let mapped = unsafe {
            let at = self.host.add(from as usize);
            self.physical
                .map(Some(at), (self.start + from, last - first))
        };
        if mapped.is_some() {
            self.imports.pages.remove(&first);
        }
        // Otherwise the pages stay, and nothing is ever allocated on them.
        true
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::PhysicalMemory;
    use super::*;

    const BASE: u64 = 1 << 32;
    const SIZE: u64 = 1 << 28;

    fn two() -> [Memory; 2] {
        let physical = Arc::new(PhysicalMemory::new().expect("a file in memory"));
        [BASE, BASE + SIZE].map(|base| {
            Memory::within(Arc::clone(&physical), (base, SIZE), SIZE).expect("a window")
        })
    }

    #[test]
    fn both_see_what_either_writes_and_no_byte_beside_it() {
        let [mut owner, mut other] = two();
        owner.alloc(BASE + 256, 9_000).expect("room");
        owner.alloc(BASE + 9_472, 256).expect("room");
        owner.write(BASE + 256, &[7; 9_000]).expect("allocated");
        let pages = owner.export(BASE + 256).expect("an allocation");
        let place = ExportPlace {
            bytes: 9_000,
            before: 256,
            span: 3 * PAGE,
        };
        assert_eq!(pages.place, place);
        let at = BASE + SIZE + (1 << 20) + 256;
        other.import(at, pages).expect("room");
        let mut seen = [0; 9_000];
        other.read(at, &mut seen).expect("imported");
        assert!(seen.iter().all(|byte| *byte == 7));
        for outside in [(at - 1, 1), (at + 9_000, 1), (at, 9_001)] {
            assert!(!other.contains(outside.0, outside.1), "{outside:?}");
        }
        assert!(other.alloc(at + 9_216, 256).is_err(), "another's page");
        other.write(at + 8_999, &[9]).expect("imported");
        owner.read(BASE + 256, &mut seen).expect("allocated");
        assert_eq!((seen[8_998], seen[8_999]), (7, 9));
        // This includes large copies, which the owner writes to its file.
        assert_eq!((other.used(), owner.used()), (0, 9_256));
        assert!(other.drop_import(at) && !other.drop_import(at));
        assert!(other.read(at, &mut seen).is_err());
        other.alloc(at, 9_000).expect("free again");
        other.read(at, &mut seen).expect("allocated");
        assert!(
            seen.iter().all(|byte| *byte == 0),
            "its own pages are zeros"
        );
    }

    #[test]
    fn large_copies_reach_whoever_shares_the_pages() {
        let [mut owner, mut other] = two();
        let bytes = 1 << 20;
        owner.alloc(BASE, bytes).expect("room");
        let pages = owner.export(BASE).expect("an allocation");
        let at = BASE + SIZE;
        other.import(at, pages).expect("room");
        let there = |memory: &mut Memory, at| memory.bytes(at, bytes).expect("live")[77_777];
        owner.write(BASE, &vec![3; bytes as usize]).expect("live");
        assert_eq!(there(&mut other, at), 3);
        other.write(at, &vec![4; bytes as usize]).expect("live");
        assert_eq!(there(&mut owner, BASE), 4);
        assert!(other.free(at).is_err(), "it is not its own to free");
        assert_eq!(there(&mut owner, BASE), 4);
    }

    #[test]
    fn what_is_not_free_is_not_imported() {
        let [mut owner, mut other] = two();
        owner.alloc(BASE + 4_096, 4_096).expect("room");
        assert!(owner.export(BASE).is_err() && owner.export(BASE + 8_000).is_err());
        let pages = owner.export(BASE + 4_096).expect("an allocation");
        assert!(owner.export(BASE + 4_096).is_err(), "once");
        other.alloc(BASE + SIZE + 8_192, 256).expect("room");
        for at in [
            0,
            256,
            8_192,
            SIZE - 4_096,
            SIZE,
            1 << 40,
            u64::MAX - BASE - SIZE,
        ] {
            let imported = other.import((BASE + SIZE).wrapping_add(at), pages);
            assert_eq!(imported.is_ok(), at == 0, "{at:#x}");
        }
        assert!(other.import(BASE + SIZE, pages).is_err(), "twice");
        assert!(other.export(BASE + SIZE).is_err(), "what is another's");
    }
}
