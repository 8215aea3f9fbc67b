//! Staged transfers of one session: the bytes that have arrived, and the transfers that an op may use.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{ModuleHash, Staged, limits};

/// Maximum number of transfers that a session may have above its last finished one.
const AHEAD: u64 = 1_024;
/// Maximum number of transfers in progress in one acknowledgement.
const ROWS: usize = 32;
/// Number of transfers that became whole which acknowledgements keep reporting.
const RECENT: usize = 8;

/// The outcome of a part of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StagedPart {
    /// Its bytes are stored; with `whole`, the transfer is complete.
    Store { whole: bool },
    /// The worker has the image already.
    Known,
    /// Nothing is stored: the bytes were there before, there is no room, or the part offers an image that
    /// must be sent.
    Skip,
    /// No correct client sends this.
    Malformed(&'static str),
}

/// The outcome of an offered transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offered {
    /// The transfer is new. It takes these of the held chunks; with `whole`, they are all of it.
    New { taken: u64, whole: bool },
    /// The transfer was offered or sent before; these chunks have arrived.
    Known { here: u64 },
    /// The transfer is too far ahead of the finished ones; offered again, it may be new.
    Later,
}

#[derive(Debug, Default)]
struct Transfer {
    /// 0 until its first part: an op may name the transfer before that.
    total: u64,
    module: Option<ModuleHash>,
    /// Bytes that have arrived: sorted, disjoint, not touching.
    ranges: Vec<(u64, u64)>,
    claimed: bool,
    whole: bool,
    /// True for a copy that ran, or an image handed to the module cache.
    finished: bool,
}

impl Transfer {
    fn received(&self) -> u64 {
        match self.ranges.first() {
            Some(&(0, end)) => end,
            _ => 0,
        }
    }

    /// True if all of a range has arrived.
    fn has(&self, (from, to): (u64, u64)) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|&(start, end)| start <= from && to <= end)
    }

    /// Adds a range. Returns true if it had new bytes.
    fn add(&mut self, from: u64, to: u64) -> bool {
        if self.has((from, to)) {
            return false;
        }
        let (mut from, mut to) = (from, to);
        self.ranges.retain(|&(start, end)| {
            let apart = end < from || to < start;
            if !apart {
                from = from.min(start);
                to = to.max(end);
            }
            apart
        });
        let at = self.ranges.partition_point(|&(start, _)| start < from);
        self.ranges.insert(at, (from, to));
        true
    }
}

/// The staged transfers of one session.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// Number of the last transfer up to which all are finished.
    below: u64,
    active: BTreeMap<u64, Transfer>,
    recent: VecDeque<Staged>,
    echo: Vec<Staged>,
    /// Host bytes reserved for transfers that are not finished.
    pub(super) reserved: u64,
}

/// A part of a transfer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) transfer: u64,
    pub(super) total: u64,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) module: Option<ModuleHash>,
    pub(super) known: bool,
}

impl Transfers {
    /// Takes a part; `room` is the host memory that may still be reserved.
    pub(super) fn part(&mut self, part: Part, room: u64) -> StagedPart {
        let end = part.offset.checked_add(part.bytes);
        if part.transfer == 0 || part.total == 0 || part.total > limits::TRANSFER_BYTES {
            return StagedPart::Malformed("a transfer's number or size is out of range");
        }
        if end.is_none_or(|end| end > part.total) || part.bytes > limits::CHUNK_BYTES as u64 {
            return StagedPart::Malformed("a chunk does not lie in its transfer");
        }
        let finished = part.transfer <= self.below;
        let here = self.active.get(&part.transfer);
        if finished || here.is_some_and(|transfer| transfer.whole) {
            self.say_again(part.transfer, part.total);
            return StagedPart::Skip;
        }
        if part.transfer > self.below + AHEAD {
            return StagedPart::Skip;
        }
        if here.is_some_and(|t| t.total != 0 && (t.total != part.total || t.module != part.module))
        {
            return StagedPart::Malformed("a transfer's size or hash changed");
        }
        let new = here.is_none_or(|transfer| transfer.total == 0);
        let known = part.module.is_some() && part.known;
        if !known && part.bytes == 0 {
            // The part offers an image that must be sent: the answer is that no byte has arrived.
            let received = here.map_or(0, Transfer::received);
            self.say_again(part.transfer, received);
            return StagedPart::Skip;
        }
        if !known && new && part.total > room {
            return StagedPart::Skip;
        }
        self.store(part, new, known)
    }

    /// True if a part belongs to a transfer that has not begun and has no room.
    pub(super) fn lacks_room(&self, part: &Part, room: u64) -> bool {
        let begun = part.transfer <= self.below
            || self
                .active
                .get(&part.transfer)
                .is_some_and(|it| it.total > 0);
        let known = part.module.is_some() && part.known;
        !begun && !known && part.bytes > 0 && part.total > room
    }

    /// Handles the offer of a copy's transfer of `total` bytes; the worker holds the chunks `held`. The
    /// chunks that it takes count as received.
    pub(super) fn offer(
        &mut self,
        (transfer, total): (u64, u64),
        held: u64,
        room: u64,
    ) -> Result<Offered, &'static str> {
        let chunk = limits::CONTENT_BYTES as u64;
        let ranges = (0..).zip((0..total).step_by(limits::CONTENT_BYTES));
        let ranges = ranges.map(|(index, start)| (1 << index, (start, total.min(start + chunk))));
        let all = ranges.clone().fold(0, |all, (bit, _)| all | bit);
        if transfer <= self.below {
            return Ok(Offered::Known { here: all });
        }
        if transfer > self.below + AHEAD {
            return Ok(Offered::Later);
        }
        if let Some(known) = self.active.get(&transfer).filter(|it| it.total > 0) {
            if known.total != total || known.module.is_some() {
                return Err("a transfer's size or hash changed");
            }
            let has = |range: &(u64, u64)| known.whole || known.has(*range);
            let here = ranges.filter(|(_, range)| has(range));
            let here = here.fold(0, |here, (bit, _)| here | bit);
            return Ok(Offered::Known { here });
        }
        let (taken, whole) = (held & all, held & all == all);
        if taken == 0 || total > room {
            let (taken, whole) = (0, false);
            return Ok(Offered::New { taken, whole });
        }
        self.reserved += total;
        let new = self.active.entry(transfer).or_default();
        new.total = total;
        for (_, (start, end)) in ranges.filter(|(bit, _)| taken & bit != 0) {
            new.add(start, end);
        }
        new.whole = whole;
        if whole {
            new.ranges = Vec::new();
            self.became_whole(transfer, total);
        }
        Ok(Offered::New { taken, whole })
    }

    fn store(&mut self, part: Part, new: bool, known: bool) -> StagedPart {
        let transfer = self.active.entry(part.transfer).or_default();
        transfer.total = part.total;
        transfer.module = part.module;
        if new && !known {
            self.reserved += part.total;
        }
        if known {
            if !new {
                self.reserved -= part.total;
            }
            transfer.whole = true;
            self.became_whole(part.transfer, part.total);
            self.finish(part.transfer, false);
            return StagedPart::Known;
        }
        if !transfer.add(part.offset, part.offset + part.bytes) {
            return StagedPart::Skip;
        }
        let whole = transfer.received() == part.total;
        transfer.whole = whole;
        if whole {
            transfer.ranges = Vec::new();
            let module = transfer.module.is_some();
            self.became_whole(part.transfer, part.total);
            if module {
                self.finish(part.transfer, true);
            }
        }
        StagedPart::Store { whole }
    }

    fn say_again(&mut self, transfer: u64, received: u64) {
        let row = Staged { transfer, received };
        if self.echo.len() < ROWS && !self.echo.contains(&row) {
            self.echo.push(row);
        }
    }

    fn became_whole(&mut self, transfer: u64, total: u64) {
        if self.recent.len() == RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(Staged {
            transfer,
            received: total,
        });
    }

    /// Claims the transfer for an op that names it. Each transfer may be named once.
    pub(super) fn claim(&mut self, transfer: u64) -> Result<(), &'static str> {
        if transfer <= self.below {
            return Err("the transfer was used before");
        }
        if transfer > self.below + AHEAD {
            return Err("the transfer's number is too far ahead");
        }
        let entry = self.active.entry(transfer).or_default();
        if entry.claimed || entry.finished || entry.module.is_some() {
            return Err("the transfer was used before");
        }
        entry.claimed = true;
        Ok(())
    }

    /// True if all bytes of a copy's transfer have arrived.
    pub(super) fn is_whole(&self, transfer: u64) -> bool {
        self.active.get(&transfer).is_some_and(|t| t.whole)
    }

    /// True if a transfer is whole, or was.
    pub(super) fn has_whole(&self, transfer: u64) -> bool {
        (1..=self.below).contains(&transfer) || self.is_whole(transfer)
    }

    /// Finishes a transfer that is not needed any more, and gives back its bytes if they were `reserved`.
    pub(super) fn finish(&mut self, transfer: u64, reserved: bool) {
        let Some(entry) = self.active.get_mut(&transfer) else {
            return;
        };
        entry.finished = true;
        if reserved {
            self.reserved -= entry.total;
        }
        while let Some(next) = self.active.first_entry()
            && *next.key() == self.below + 1
            && next.get().finished
        {
            next.remove();
            self.below += 1;
        }
    }

    /// Returns the rows for an acknowledgement.
    pub(super) fn rows(&mut self) -> Vec<Staged> {
        let mut rows = std::mem::take(&mut self.echo);
        rows.extend(
            self.recent
                .iter()
                .filter(|row| !rows.contains(row))
                .copied()
                .collect::<Vec<_>>(),
        );
        let partial = self.active.iter().filter(|(_, t)| !t.whole && t.total > 0);
        rows.extend(partial.take(ROWS).map(|(number, t)| Staged {
            transfer: *number,
            received: t.received(),
        }));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(transfer: u64, total: u64, offset: u64, bytes: u64) -> Part {
        Part {
            transfer,
            total,
            offset,
            bytes,
            module: None,
            known: false,
        }
    }

    #[test]
    fn parts_in_any_order_make_a_whole() {
        let mut transfers = Transfers::default();
        let stored = |whole| StagedPart::Store { whole };
        assert_eq!(transfers.part(part(1, 10, 6, 4), 100), stored(false));
        assert_eq!(
            transfers.rows(),
            [Staged {
                transfer: 1,
                received: 0
            }]
        );
        assert_eq!(transfers.part(part(1, 10, 0, 4), 100), stored(false));
        assert_eq!(transfers.part(part(1, 10, 0, 4), 100), StagedPart::Skip);
        assert_eq!(
            transfers.rows(),
            [Staged {
                transfer: 1,
                received: 4
            }]
        );
        assert!(!transfers.is_whole(1));
        assert_eq!(transfers.part(part(1, 10, 3, 4), 100), stored(true));
        assert!(transfers.is_whole(1));
        assert_eq!(
            transfers.rows(),
            [Staged {
                transfer: 1,
                received: 10
            }]
        );
        assert_eq!(transfers.claim(1), Ok(()));
        assert!(transfers.claim(1).is_err());
        assert_eq!(transfers.reserved, 10);
        transfers.finish(1, true);
        assert_eq!(transfers.reserved, 0);
        assert_eq!(
            transfers.part(part(1, 10, 0, 4), 100),
            StagedPart::Skip,
            "late"
        );
        assert!(transfers.claim(1).is_err());
    }

    #[test]
    fn nonsense_and_lack_of_room_store_nothing() {
        let mut transfers = Transfers::default();
        assert!(matches!(
            transfers.part(part(0, 1, 0, 1), 9),
            StagedPart::Malformed(_)
        ));
        assert!(matches!(
            transfers.part(part(1, 0, 0, 0), 9),
            StagedPart::Malformed(_)
        ));
        assert!(matches!(
            transfers.part(part(1, 4, u64::MAX, 1), 9),
            StagedPart::Malformed(_)
        ));
        assert!(matches!(
            transfers.part(part(1, 4, 3, 2), 9),
            StagedPart::Malformed(_)
        ));
        assert_eq!(
            transfers.part(part(1, 10, 0, 4), 9),
            StagedPart::Skip,
            "no room"
        );
        assert_eq!(
            transfers.part(part(5_000, 4, 0, 4), 9),
            StagedPart::Skip,
            "too far"
        );
        assert!(matches!(
            transfers.part(part(1, 8, 0, 4), 9),
            StagedPart::Store { .. }
        ));
        assert!(matches!(
            transfers.part(part(1, 9, 4, 4), 9),
            StagedPart::Malformed(_)
        ));
        assert_eq!(transfers.reserved, 8);
    }

    #[test]
    fn offered_chunks_that_are_held_count_as_received() {
        const MIB: u64 = 1 << 20;
        let mut transfers = Transfers::default();
        let taken = |taken, whole| Ok(Offered::New { taken, whole });
        let here = |here| Ok(Offered::Known { here });
        // All chunks are held; the repeated offer changes nothing, and an op may name the transfer.
        assert_eq!(transfers.offer((1, 2 * MIB), 0b11, 9 * MIB), taken(3, true));
        assert_eq!(transfers.offer((1, 2 * MIB), 0, 9 * MIB), here(3));
        assert!(transfers.is_whole(1) && transfers.claim(1).is_ok());
        // The second chunk is held; the first is sent.
        assert_eq!(
            transfers.offer((2, MIB + 5), 0b110, 9 * MIB),
            taken(2, false)
        );
        assert_eq!(transfers.offer((2, MIB + 5), 0b11, 9 * MIB), here(2));
        assert_eq!(transfers.reserved, 3 * MIB + 5);
        for at in 0..4 {
            let whole = at == 3;
            let sent = part(2, MIB + 5, at * MIB / 4, MIB / 4);
            assert_eq!(transfers.part(sent, 0), StagedPart::Store { whole });
        }
        // No chunk is held, or there is no room: nothing is reserved before bytes come.
        assert_eq!(transfers.offer((3, 7), 0, 9), taken(0, false));
        assert_eq!(transfers.offer((3, 7), 1, 6), taken(0, false));
        assert_eq!(transfers.reserved, 3 * MIB + 5);
        assert_eq!(transfers.offer((5_000, 7), 1, 9), Ok(Offered::Later));
        assert!(transfers.offer((1, 8), 1, 9).is_err(), "another size");
        transfers.finish(1, true);
        transfers.finish(2, true);
        assert_eq!(transfers.offer((2, MIB + 5), 0, 0), here(3));
        assert_eq!(transfers.reserved, 0);
    }

    #[test]
    fn images_are_offered_then_sent_or_known() {
        let mut transfers = Transfers::default();
        let hash = Some(ModuleHash([1; 32]));
        let offer = |transfer, known| Part {
            module: hash,
            known,
            ..part(transfer, 4, 0, 0)
        };
        assert_eq!(transfers.part(offer(1, false), 9), StagedPart::Skip);
        let none = Staged {
            transfer: 1,
            received: 0,
        };
        assert_eq!(transfers.rows(), [none]);
        let image = Part {
            module: hash,
            ..part(1, 4, 0, 4)
        };
        let stored = StagedPart::Store { whole: true };
        assert_eq!(transfers.part(image, 9), stored);
        assert_eq!(transfers.reserved, 0, "the module cache has it");
        assert_eq!(transfers.part(offer(2, true), 9), StagedPart::Known);
        assert_eq!((transfers.below, transfers.reserved), (2, 0));
        assert_eq!(transfers.rows().len(), 2);
    }
}
