//! Blocks of module variables: whole pages for each module that a session has loaded.

use super::block::Block;
use super::{Live, Memory, PAGE};
use crate::error::MemoryError;

impl Memory {
    /// Reserves a block in the part for module variables; nothing in it is live yet. Returns its
    /// start, a multiple of `align` and of a page.
    ///
    /// # Errors
    /// If there is no room for it.
    pub(crate) fn reserve(&mut self, bytes: u64, align: u64) -> Result<u64, MemoryError> {
        let none = MemoryError::OutOfMemory(bytes);
        let (low, high) = (self.internal_base(), self.base + self.size);
        let align = align.max(PAGE);
        let first = |from: u64| from.checked_next_multiple_of(align).ok_or(none);
        let mut at = first(low)?;
        let mut place = 0;
        for (index, block) in self.blocks.iter().enumerate() {
            if block.start.checked_sub(at).is_some_and(|gap| gap >= bytes) {
                break;
            }
            at = first(block.end)?;
            place = index + 1;
        }
        let end = at
            .checked_add(bytes)
            .and_then(|end| end.checked_next_multiple_of(PAGE));
        let end = end.filter(|end| *end <= high).ok_or(none)?;
        self.blocks.insert(place, Block { start: at, end });
        Ok(at)
    }

    /// Makes ranges of one block live, in order. Each is behind the previous one and behind all
    /// live ranges of that block. They are zeroed.
    ///
    /// # Errors
    /// If the capacity is not sufficient; no range becomes live then.
    pub(crate) fn occupy(&mut self, ranges: &[Live]) -> Result<(), MemoryError> {
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else {
            return Ok(());
        };
        let (start, end) = (first.start, last.end);
        let bytes: u64 = ranges.iter().map(|live| live.end - live.start).sum();
        let fits = self.used.checked_add(bytes);
        if fits.is_none_or(|used| used > self.capacity) {
            return Err(MemoryError::OutOfMemory(bytes));
        }
        let next = self.blocks.partition_point(|block| block.start <= start);
        let within = next.checked_sub(1).map(|at| self.blocks[at]);
        let place = self.live.partition_point(|live| live.start < start);
        let before = place.checked_sub(1).map_or(0, |at| self.live[at].end);
        let after = self.live.get(place).map_or(u64::MAX, |live| live.start);
        if within.is_none_or(|block| end > block.end) || before > start || after < end {
            return Err(MemoryError::Occupied {
                addr: start,
                len: end.saturating_sub(start),
            });
        }
        self.used += bytes;
        self.live.splice(place..place, ranges.iter().copied());
        Ok(())
    }

    /// Gives pages of a block back to the host ahead of [`Memory::vacate`]; all at once they take
    /// milliseconds. They read as zeros.
    pub(crate) fn drain(&mut self, start: u64, bytes: u64) {
        self.drop_pages(start - self.base, start + bytes - self.base);
    }

    /// Frees a block and all ranges in it. Does nothing if no block starts there.
    ///
    /// # Errors
    /// If the host does not take the pages back; nothing changes then.
    pub(crate) fn vacate(&mut self, start: u64) -> Result<(), MemoryError> {
        let Ok(at) = self
            .blocks
            .binary_search_by_key(&start, |block| block.start)
        else {
            return Ok(());
        };
        let end = self.blocks[at].end;
        if !self.renew(start - self.base, end - start) {
            // The next owner of these pages must not see their contents.
            return Err(MemoryError::OutOfMemory(end - start));
        }
        self.blocks.remove(at);
        let from = self.live.partition_point(|live| live.start < start);
        let to = self.live.partition_point(|live| live.start < end);
        let gone = self.live.drain(from..to);
        self.used -= gone.map(|live| live.end - live.start).sum::<u64>();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BASE: u64 = 1 << 32;
    const SIZE: u64 = 1 << 24;

    fn live(start: u64, len: u64) -> Live {
        Live {
            start,
            end: start + len,
            writable: true,
        }
    }

    #[test]
    fn a_block_is_zero_and_its_own_again_and_again() {
        let mut memory = Memory::new(BASE, SIZE, SIZE).expect("a window");
        for _ in 0..3 {
            let at = memory.reserve(10_000, 256).expect("room");
            assert!(memory.write(at, &[1]).is_err(), "nothing is live yet");
            memory
                .occupy(&[live(at, 4), live(at + 256, 9_000)])
                .expect("in the block");
            let mut bytes = vec![9; 9_000];
            memory.read(at + 256, &mut bytes).expect("live");
            assert!(bytes.iter().all(|byte| *byte == 0));
            memory.write(at + 256, &vec![7; 9_000]).expect("live");
            assert!(memory.write(at + 4, &[1]).is_err(), "between two");
            assert_eq!(memory.used(), 9_004);
            memory.vacate(at).expect("given back");
            assert_eq!(memory.used(), 0);
            assert!(memory.write(at, &[1]).is_err(), "nothing is live any more");
        }
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut memory = Memory::new(BASE, SIZE, 5_000).expect("a window");
        assert!(memory.reserve(SIZE, 1).is_err());
        assert!(memory.reserve(u64::MAX, 1).is_err());
        assert!(memory.reserve(1, 1 << 63).is_err());
        let at = memory.reserve(8_192, 1).expect("room");
        assert!(memory.occupy(&[live(at, 5_001)]).is_err(), "the capacity");
        assert!(
            memory.occupy(&[live(at + 8_000, 400)]).is_err(),
            "behind it"
        );
        assert!(memory.occupy(&[live(at - 1, 2)]).is_err(), "before it");
        memory.occupy(&[live(at, 5_000)]).expect("fits");
        assert!(memory.occupy(&[live(at + 10, 1)]).is_err(), "taken");
        assert_eq!(memory.used(), 5_000);
    }

    proptest! {
        /// Blocks come and go: they never overlap, and the used bytes are those in them.
        #[test]
        fn blocks_do_not_overlap(steps in prop::collection::vec((0..4_u8, 1..200_000_u64, 0..16_u32), 1..60)) {
            let mut memory = Memory::new(BASE, SIZE, SIZE).expect("a window");
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (kind, bytes, align) in steps {
                if kind == 0 && !held.is_empty() {
                    let (at, _) = held.swap_remove(bytes as usize % held.len());
                    memory.vacate(at).expect("given back");
                } else if let Ok(at) = memory.reserve(bytes, 1 << align) {
                    prop_assert!(at.is_multiple_of(1 << align) && at >= memory.internal_base());
                    prop_assert!(at + bytes <= BASE + SIZE);
                    prop_assert!(held.iter().all(|(other, len)| at >= other + len || at + bytes <= *other));
                    memory.occupy(&[live(at, bytes)]).expect("the block is free");
                    held.push((at, bytes));
                }
                prop_assert_eq!(memory.used(), held.iter().map(|(_, len)| len).sum::<u64>());
            }
        }
    }
}
