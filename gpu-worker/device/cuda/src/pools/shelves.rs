//! Buffers that are kept for their next use, by size. Making one is slow and freeing one waits for the
//! device, so neither is done if another buffer serves.

/// Bytes of the smallest buffers.
const SMALLEST: usize = 4 << 10;
/// Number of sizes: powers of two from [`SMALLEST`] on.
const SHELVES: usize = 12;

/// A size of buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shelf(usize);

impl Shelf {
    /// The largest size.
    pub(crate) const LARGEST: Self = Self(SHELVES - 1);

    /// Returns the smallest size with room for this many bytes; `None` if there is none.
    pub(crate) fn holding(bytes: usize) -> Option<Self> {
        let shelf = bytes.div_ceil(SMALLEST).next_power_of_two().ilog2() as usize;
        (shelf < SHELVES).then_some(Self(shelf))
    }

    /// Bytes of its buffers.
    pub(crate) const fn bytes(self) -> usize {
        SMALLEST << self.0
    }
}

/// The answer to a request for a buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken<B> {
    /// A kept buffer, of this size.
    Kept(Shelf, B),
    /// Make one of this size, and free these for it.
    Make(Shelf, Vec<B>),
    /// No buffer: it would be too large, or too many are lent.
    Nothing,
}

/// Buffers that are kept, and bytes of those that are lent; both together never exceed a bound.
#[derive(Debug)]
pub(crate) struct Shelves<B> {
    kept: [Vec<B>; SHELVES],
    kept_bytes: usize,
    lent_bytes: usize,
    most: usize,
}

impl<B> Shelves<B> {
    /// Creates empty shelves, with at most `most` bytes of buffers at any time.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            kept: Default::default(),
            kept_bytes: 0,
            lent_bytes: 0,
            most,
        }
    }

    /// Takes a buffer for this many bytes, as long as at most `share` bytes are lent then. A buffer that must
    /// be made counts as lent from here on.
    pub(crate) fn take(&mut self, bytes: usize, share: usize) -> Taken<B> {
        let Some(shelf) = Shelf::holding(bytes) else {
            return Taken::Nothing;
        };
        if self.lent_bytes + shelf.bytes() > share.min(self.most) {
            return Taken::Nothing;
        }
        if let Some(buffer) = self.pop(shelf) {
            self.lent_bytes += shelf.bytes();
            return Taken::Kept(shelf, buffer);
        }
        let room = self.most - self.lent_bytes;
        if self.kept_bytes + shelf.bytes() > room
            && let Some(taken) = self.larger(shelf)
        {
            return taken;
        }
        let mut freed = Vec::new();
        for index in (0..SHELVES).rev() {
            while self.kept_bytes + shelf.bytes() > room
                && let Some(buffer) = self.pop(Shelf(index))
            {
                freed.push(buffer);
            }
        }
        self.lent_bytes += shelf.bytes();
        Taken::Make(shelf, freed)
    }

    /// Takes a buffer back.
    pub(crate) fn put_back(&mut self, shelf: Shelf, buffer: B) {
        self.lent_bytes -= shelf.bytes();
        self.kept_bytes += shelf.bytes();
        if let Some(kept) = self.kept.get_mut(shelf.0) {
            kept.push(buffer);
        }
    }

    /// Notes that a buffer could not be made.
    pub(crate) fn not_made(&mut self, shelf: Shelf) {
        self.lent_bytes -= shelf.bytes();
    }

    /// Takes a kept buffer that is larger than required.
    fn larger(&mut self, shelf: Shelf) -> Option<Taken<B>> {
        let larger = (shelf.0 + 1..SHELVES).map(Shelf);
        for shelf in larger {
            if let Some(buffer) = self.pop(shelf) {
                self.lent_bytes += shelf.bytes();
                return Some(Taken::Kept(shelf, buffer));
            }
        }
        None
    }

    fn pop(&mut self, shelf: Shelf) -> Option<B> {
        let buffer = self.kept.get_mut(shelf.0)?.pop()?;
        self.kept_bytes -= shelf.bytes();
        Some(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;
    const MIB: usize = 1 << 20;
    const ALL: usize = usize::MAX;

    fn shelf(bytes: usize) -> Shelf {
        Shelf::holding(bytes).expect("a size there is")
    }

    /// Makes a buffer for which no other has to be freed.
    fn make(shelves: &mut Shelves<u32>, bytes: usize) -> Shelf {
        match shelves.take(bytes, ALL) {
            Taken::Make(shelf, freed) if freed.is_empty() => shelf,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_are_powers_of_two() {
        let sizes = [
            (0, 4 * KIB),
            (1, 4 * KIB),
            (4 * KIB, 4 * KIB),
            (4 * KIB + 1, 8 * KIB),
            (3 * MIB, 4 * MIB),
            (8 * MIB, 8 * MIB),
        ];
        for (bytes, holds) in sizes {
            assert_eq!(shelf(bytes).bytes(), holds, "{bytes}");
        }
        assert_eq!(Shelf::holding(8 * MIB + 1), None);
        assert_eq!(Shelf::LARGEST, shelf(8 * MIB));
    }

    #[test]
    fn a_buffer_that_came_back_is_lent_again() {
        let mut shelves = Shelves::new(MIB);
        let made = make(&mut shelves, 5 * KIB);
        shelves.put_back(made, 7);
        assert_eq!(make(&mut shelves, 4 * KIB), shelf(KIB), "of another size");
        assert_eq!(shelves.take(8 * KIB, ALL), Taken::Kept(made, 7));
        assert_eq!(make(&mut shelves, 8 * KIB), made, "it is lent");
    }

    #[test]
    fn lent_and_kept_ones_stay_within_the_bound() {
        let mut shelves = Shelves::new(16 * KIB);
        let made = [(); 3].map(|()| make(&mut shelves, 4 * KIB));
        assert_eq!(shelves.take(8 * KIB, ALL), Taken::Nothing, "12 are lent");
        shelves.put_back(made[0], 1);
        shelves.put_back(made[1], 2);
        // 4 are lent, 8 kept: one of the kept ones has to go, not both.
        let taken = shelves.take(8 * KIB, ALL);
        assert_eq!(taken, Taken::Make(shelf(8 * KIB), vec![2]));
        assert_eq!(shelves.take(4 * KIB, ALL), Taken::Kept(shelf(KIB), 1));
        assert_eq!(shelves.take(1, ALL), Taken::Nothing, "all are lent");
    }

    #[test]
    fn a_larger_one_serves_where_none_can_be_made() {
        let mut shelves = Shelves::new(16 * KIB);
        let large = make(&mut shelves, 16 * KIB);
        shelves.put_back(large, 9);
        assert_eq!(shelves.take(1, ALL), Taken::Kept(large, 9));
    }

    #[test]
    fn a_share_leaves_the_rest_to_others() {
        let mut shelves = Shelves::<u32>::new(16 * KIB);
        make(&mut shelves, 8 * KIB);
        assert_eq!(shelves.take(8 * KIB, 12 * KIB), Taken::Nothing);
        make(&mut shelves, 8 * KIB);
    }

    #[test]
    fn one_that_was_not_made_takes_no_room() {
        let mut shelves = Shelves::<u32>::new(8 * KIB);
        let made = make(&mut shelves, 8 * KIB);
        shelves.not_made(made);
        make(&mut shelves, 8 * KIB);
    }
}
