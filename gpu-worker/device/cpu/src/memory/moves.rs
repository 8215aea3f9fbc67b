//! Physical memory that leaves a session's addresses, and its return.

use super::{Memory, PAGE};
use crate::error::MemoryError;
use std::ops::Range;
use std::sync::mpsc::{self, SyncSender};

/// Bytes that are taken out at a time.
const PIECE: u64 = 1 << 20;
/// Maximum number of ranges that are copied and not given back yet; they are in memory twice.
const BEHIND: usize = 4;

impl Memory {
    /// Bytes of this session's own pages in memory, which are the pages that it has touched. Shown
    /// pages are not its own.
    pub fn resident(&self) -> u64 {
        let runs = self.runs(0..self.size);
        runs.map(|run| run.end - run.start).sum()
    }

    /// The runs of pages in memory between two offsets of the window.
    pub(super) fn runs(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let (first, end) = (self.start + range.start, self.start + range.end);
        let next = move |from| self.physical.next_run(from, end);
        let runs = std::iter::successors(next(first), move |(_, end)| next(*end));
        runs.map(|(from, to)| from - self.start..to - self.start)
    }

    /// Whole pages of the window, as offsets.
    fn pages(&self, addr: u64, len: u64) -> Result<Range<u64>, MemoryError> {
        let illegal = MemoryError::IllegalAddress { addr, len };
        let from = addr.checked_sub(self.base).ok_or(illegal)?;
        let to = from.checked_add(len).ok_or(illegal)?;
        match to <= self.size && (from | to).is_multiple_of(PAGE) {
            true => Ok(from..to),
            false => Err(illegal),
        }
    }

    /// True if each page of `[addr, end)` has live bytes. Data on other pages would still be there
    /// for their next owner.
    fn has_pages(&self, addr: u64, end: u64) -> bool {
        let first = self.live.partition_point(|live| live.end <= addr);
        let mut covered = addr;
        for live in &self.live[first..] {
            if covered >= end || live.start / PAGE * PAGE > covered {
                break;
            }
            covered = live.end.next_multiple_of(PAGE);
        }
        covered >= end
    }

    /// The first run of whole pages with live bytes between two offsets of the window.
    fn inhabited(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let addr = self.base + range.start;
        let first = self.live.partition_point(|live| live.end <= addr);
        let mut run: Option<Range<u64>> = None;
        for live in self.live.iter().skip(first) {
            let from = ((live.start - self.base) / PAGE * PAGE).max(range.start);
            let to = (live.end - self.base).next_multiple_of(PAGE).min(range.end);
            match &mut run {
                None if from < range.end => run = Some(from..to),
                Some(run) if from <= run.end => run.end = run.end.max(to),
                _ => break,
            }
        }
        run
    }

    /// Takes the bytes of `[addr, addr + len)`, whole pages of the window, out of memory. `sink`
    /// gets those in memory with their address, at most a mebibyte at a time; then their pages go
    /// back to the host. Untouched pages are skipped, and shown pages stay. Pages without live
    /// bytes, which a host with large pages has added, are only given back.
    ///
    /// Addresses and allocations stay unchanged, and read as zeros until [`Memory::bring_in`]
    /// brings the bytes back. The caller ensures that they are not read or written before.
    ///
    /// # Errors
    /// If the range is not in the window, or the host takes no pages back; or the error of `sink`.
    /// Bytes that `sink` got before are out, and the rest stays in memory.
    pub fn take_out<E: From<MemoryError>>(
        &mut self,
        addr: u64,
        len: u64,
        sink: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let range = self.pages(addr, len)?;
        let memory = &*self;
        // Giving pages back takes as long as copying them, so a separate thread does it behind the
        // copies.
        let (given, refused) = std::thread::scope(|scope| {
            let (gone, ranges) = mpsc::sync_channel(BEHIND);
            let punching = std::thread::Builder::new().spawn_scoped(scope, move || {
                ranges
                    .into_iter()
                    .map(|range| memory.give_back(range))
                    .filter_map(Result::err)
                    .last()
            });
            let behind = punching.is_ok().then_some(&gone);
            let given = memory.take_runs(range, behind, sink);
            drop(gone);
            let punched = punching.ok().and_then(|thread| thread.join().ok());
            (given, punched.flatten())
        });
        given?;
        refused.map_or(Ok(()), |error| Err(error.into()))
    }

    /// As [`Memory::take_out`]; pages go back to the host through `behind`, or here if there is
    /// none.
    fn take_runs<E: From<MemoryError>>(
        &self,
        range: Range<u64>,
        behind: Option<&SyncSender<Range<u64>>>,
        mut sink: impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut from = range.start;
        loop {
            let next = self.runs(from..range.end).next();
            let Some(run) = next else {
                return Ok(());
            };
            let pieces = (run.start..run.end).step_by(PIECE as usize);
            for start in pieces {
                self.take_piece(start..run.end.min(start + PIECE), behind, &mut sink)?;
            }
            from = run.end;
        }
    }

    /// As [`Memory::take_runs`], for pages that are all in memory, between two offsets of the
    /// window.
    fn take_piece<E: From<MemoryError>>(
        &self,
        mut piece: Range<u64>,
        behind: Option<&SyncSender<Range<u64>>>,
        sink: &mut impl FnMut(u64, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let give_back = |range: Range<u64>| match behind.map(|behind| behind.send(range.clone())) {
            Some(Ok(())) => Ok(()),
            _ => self.give_back(range),
        };
        while !piece.is_empty() {
            let live = self.inhabited(&piece).unwrap_or(piece.end..piece.end);
            give_back(piece.start..live.start)?;
            if !live.is_empty() {
                // SAFETY: whole pages of the window that are in memory. Their file is mapped there,
                // because shown ranges have no pages of this one. `take_out` has `&mut self`, so
                // there are no writers. The pages are given back only after this.
                let bytes = unsafe {
                    let at = self.host.as_ptr().add(live.start as usize);
                    std::slice::from_raw_parts(at, (live.end - live.start) as usize)
                };
                sink(self.base + live.start, bytes)?;
            }
            give_back(live.clone())?;
            piece.start = live.end;
        }
        Ok(())
    }

    fn give_back(&self, range: Range<u64>) -> Result<(), MemoryError> {
        let bytes = range.end - range.start;
        match bytes == 0 || self.punch(range.start, bytes) {
            true => Ok(()),
            false => Err(MemoryError::OutOfMemory(bytes)),
        }
    }

    /// Brings back bytes that [`Memory::take_out`] took out, or a part of them.
    ///
    /// # Errors
    /// If they are not whole pages of allocations, or pages are shown there, or the host has no
    /// memory for them.
    pub fn bring_in(&mut self, addr: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        let len = bytes.len() as u64;
        let range = self.pages(addr, len)?;
        if !self.has_pages(addr, addr + len) || self.shows(addr, addr + len) {
            return Err(MemoryError::IllegalAddress { addr, len });
        }
        let written = self.physical.write(self.start + range.start, bytes);
        written.map_err(|_| MemoryError::OutOfMemory(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::{Store, UNIT};
    use proptest::prelude::*;

    const BASE: u64 = 1 << 32;
    const SIZE: u64 = 1 << 28;

    /// All bytes that are out, by address.
    type Out = Vec<(u64, Vec<u8>)>;

    fn memory() -> Memory {
        Memory::new(BASE, SIZE, SIZE).expect("a window")
    }

    fn take_all(memory: &mut Memory) -> Out {
        let mut out = Out::new();
        let taken = memory.take_out(BASE, SIZE, |addr, bytes| {
            out.push((addr, bytes.to_vec()));
            Ok::<_, MemoryError>(())
        });
        taken.expect("in the window");
        out
    }

    fn bring_all(memory: &mut Memory, out: &Out) {
        for (addr, bytes) in out {
            memory.bring_in(*addr, bytes).expect("where it was");
        }
    }

    #[test]
    fn what_was_never_touched_does_not_move() {
        let mut memory = memory();
        memory.alloc(BASE, 200 << 20).expect("room");
        assert_eq!(memory.resident(), 0);
        for at in [0, 3 << 20, (3 << 20) + PAGE, (150 << 20) + 5] {
            memory.write(BASE + at, &[7]).expect("allocated");
        }
        assert_eq!(memory.resident(), 4 * PAGE);
        let out = take_all(&mut memory);
        let runs: Vec<_> = out
            .iter()
            .map(|(at, bytes)| (at - BASE, bytes.len() as u64))
            .collect();
        let of = [(0, PAGE), (3 << 20, 2 * PAGE), (150 << 20, PAGE)];
        assert_eq!((runs, memory.resident()), (of.to_vec(), 0));
        bring_all(&mut memory, &out);
        assert_eq!(memory.resident(), 4 * PAGE);
        let mut there = [0; 2];
        memory
            .read(BASE + (150 << 20) + 4, &mut there)
            .expect("allocated");
        assert_eq!(there, [0, 7]);
    }

    #[test]
    fn what_is_refused_stays_where_it_was() {
        let mut memory = memory();
        memory.alloc(BASE, 4 * PIECE).expect("room");
        let of = |n: u64| vec![n as u8 + 1; PIECE as usize];
        for n in 0..4 {
            memory.write(BASE + n * PIECE, &of(n)).expect("allocated");
        }
        let mut out = Out::new();
        let taken = memory.take_out(BASE, 4 * PIECE, |addr, bytes| {
            if out.len() == 2 {
                return Err(MemoryError::OutOfMemory(1));
            }
            out.push((addr, bytes.to_vec()));
            Ok(())
        });
        assert_eq!(taken, Err(MemoryError::OutOfMemory(1)));
        assert_eq!(memory.resident(), 2 * PIECE);
        bring_all(&mut memory, &out);
        for n in 0..4 {
            let there = memory.bytes(BASE + n * PIECE, PIECE).expect("allocated");
            assert!(there == of(n), "piece {n}");
        }
    }

    #[test]
    fn what_nobody_lives_on_only_goes() {
        let mut memory = memory();
        memory.alloc(BASE + 2 * PAGE + 300, 256).expect("room");
        memory.alloc(BASE + 3 * PAGE, 256).expect("room");
        memory.alloc(BASE + 6 * PAGE, 256).expect("room");
        // As on a host that gives large pages.
        let zeros = vec![0; 2 * PIECE as usize];
        let large = memory.physical.write(memory.start, &zeros);
        large.expect("room");
        memory.write(BASE + 6 * PAGE, &[7]).expect("allocated");
        let out = take_all(&mut memory);
        let runs = out
            .iter()
            .map(|(at, bytes)| ((at - BASE) / PAGE, bytes.len() as u64 / PAGE));
        assert_eq!(runs.collect::<Vec<_>>(), [(2, 2), (6, 1)]);
        assert_eq!(memory.resident(), 0);
        bring_all(&mut memory, &out);
        assert_eq!(memory.bytes(BASE + 6 * PAGE, 2).expect("allocated"), [7, 0]);
    }

    #[test]
    fn nothing_comes_where_nobody_has_it() {
        let mut memory = memory();
        let page = [1; PAGE as usize];
        memory.alloc(BASE + PAGE, 256).expect("room");
        memory.alloc(BASE + 2 * PAGE - 256, 256).expect("room");
        memory.bring_in(BASE + PAGE, &page).expect("two are there");
        for addr in [BASE, BASE + 2 * PAGE, BASE + PAGE + 256, BASE + SIZE, 0] {
            assert!(memory.bring_in(addr, &page).is_err(), "{addr:#x}");
        }
        assert!(memory.bring_in(BASE, &[1; 2 * PAGE as usize]).is_err());
        assert!(memory.bring_in(BASE + PAGE, &page[1..]).is_err());
        let nothing = |_: u64, _: &[u8]| Ok::<_, MemoryError>(());
        assert!(memory.take_out(BASE, SIZE + PAGE, nothing).is_err());
        assert!(memory.take_out(BASE - PAGE, PAGE, nothing).is_err());
        assert_eq!(memory.resident(), PAGE);
    }

    #[test]
    fn what_is_shown_from_elsewhere_stays() {
        let mut memory = memory();
        let store = Store::new(1).expect("a file in memory");
        let unit = vec![5; UNIT as usize];
        let slot = store.keep(None, [&unit[..]].into_iter()).expect("room");
        memory.alloc(BASE, 3 * UNIT).expect("room");
        memory.fill(BASE, 9, 1, 3 * UNIT).expect("allocated");
        let at = BASE + UNIT;
        assert!(memory.show(at, UNIT, store.file(), Store::offset(slot.number())));
        assert!(!memory.show(at, UNIT, store.file(), 0), "it is shown there");
        assert_eq!(memory.resident(), 2 * UNIT);
        let out = take_all(&mut memory);
        assert!(memory.bytes(at, UNIT).expect("allocated") == unit);
        assert!(memory.bring_in(at, &unit).is_err());
        bring_all(&mut memory, &out);
        let there = memory.bytes(BASE, 3 * UNIT).expect("allocated");
        let nine = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 9);
        assert!(nine(&there[..UNIT as usize]) && nine(&there[2 * UNIT as usize..]));
        memory.free(BASE).expect("allocated");
        memory.alloc(BASE, 3 * UNIT).expect("room");
        let there = memory.bytes(BASE, 3 * UNIT).expect("allocated");
        assert!(there.iter().all(|byte| *byte == 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Allocations of all sizes, some of them written, and a part of the window that leaves.
        #[test]
        fn all_is_there_again(
            sizes in prop::collection::vec((1..3_000_000_u64, 0..4_u8), 1..40),
            (first, pages) in (0..20_000_u64, 0..20_000_u64),
        ) {
            let mut memory = memory();
            let (mut at, mut model) = (BASE, Vec::new());
            for (place, (bytes, kind)) in sizes.into_iter().enumerate() {
                let touched = match kind {
                    0 => 0,
                    1 => bytes.min(100),
                    _ => bytes,
                };
                memory.alloc(at, bytes).expect("room");
                let mut all = vec![place as u8 + 1; bytes as usize];
                all[touched as usize..].fill(0);
                memory.write(at, &all[..touched as usize]).expect("allocated");
                model.push((at, all));
                at = (at + bytes).next_multiple_of(256);
            }
            let before = memory.resident();
            let mut out = Out::new();
            let taken = memory.take_out(BASE + first * PAGE, pages * PAGE, |addr, bytes| {
                out.push((addr, bytes.to_vec()));
                Ok::<_, MemoryError>(())
            });
            prop_assert_eq!(taken, Ok(()));
            let moved: usize = out.iter().map(|(_, bytes)| bytes.len()).sum();
            prop_assert_eq!(memory.resident(), before - moved as u64);
            bring_all(&mut memory, &out);
            prop_assert_eq!(memory.resident(), before);
            for (at, all) in model {
                prop_assert!(memory.bytes(at, all.len() as u64).expect("allocated") == all);
            }
        }
    }
}
