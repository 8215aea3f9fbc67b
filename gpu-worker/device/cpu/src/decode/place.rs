//! Places of a body's registers in its frame. Registers that are never live at the same time share
//! a place.

use super::form::{Bank, CallSite, Callee, Frame, GuardSlot, Inst, Passed, Slot};
use super::liveness::Span;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bytes, or predicates, from one register of a bank to the next.
fn step(bank: Bank) -> u32 {
    match bank {
        Bank::Word => 128,
        Bank::Double => 256,
        Bank::Pred => 1,
    }
}

/// The places of registers, by their numbers.
pub(super) struct Places {
    pub(super) list: Vec<(Bank, Slot)>,
    /// Size of all places.
    pub(super) frame: Frame,
}

impl Places {
    /// A separate place for each register.
    pub(super) fn apart(banks: &[Bank]) -> Self {
        let mut frame = Frame::default();
        let list = banks.iter().map(|bank| {
            let end = frame.bank(*bank);
            let slot = Slot(*end);
            *end = end.saturating_add(step(*bank));
            (*bank, slot)
        });
        let list = list.collect();
        Self { list, frame }
    }

    /// Places given in the order in which registers are first needed, and freed after the last
    /// need. There are as few as there are registers live at once.
    pub(super) fn shared(banks: &[Bank], spans: &[Span]) -> Self {
        let mut list: Vec<(Bank, Slot)> = banks.iter().map(|bank| (*bank, Slot(0))).collect();
        let mut frame = Frame::default();
        let mut order: Vec<u32> = (0..banks.len() as u32)
            .filter(|at| spans[*at as usize] != Span::NEVER)
            .collect();
        order.sort_unstable_by_key(|at| (spans[*at as usize].first, *at));
        let index = |bank: Bank| bank as usize;
        let mut free: [BinaryHeap<Reverse<u32>>; 3] = Default::default();
        let mut held: [BinaryHeap<Reverse<(u32, u32)>>; 3] = Default::default();
        for at in order {
            let (bank, span) = (banks[at as usize], spans[at as usize]);
            let (free, held) = (&mut free[index(bank)], &mut held[index(bank)]);
            while let Some(Reverse((last, place))) = held.peek().copied()
                && last < span.first
            {
                held.pop();
                free.push(Reverse(place));
            }
            let place = free.pop().map_or_else(
                || {
                    let end = frame.bank(bank);
                    *end = end.saturating_add(step(bank));
                    *end - step(bank)
                },
                |Reverse(place)| place,
            );
            held.push(Reverse((span.last, place)));
            list[at as usize].1 = Slot(place);
        }
        Self { list, frame }
    }

    fn slot(&self, slot: &mut Slot) {
        if let Some(number) = slot.number() {
            *slot = self.list[number].1;
        }
    }

    /// Replaces the registers in instructions and their operands by their places.
    pub(super) fn assign(&self, code: &mut [Inst], pool: &mut [Slot]) {
        for inst in code {
            inst.slots.iter_mut().for_each(|slot| self.slot(slot));
            if let Some(GuardSlot { slot, .. }) = &mut inst.guard {
                let mut place = Slot(*slot);
                self.slot(&mut place);
                *slot = place.0;
            }
        }
        pool.iter_mut().for_each(|slot| self.slot(slot));
    }

    /// As `assign`, for calls.
    pub(super) fn assign_calls(&self, calls: &mut [CallSite]) {
        for site in calls {
            self.assign_passed(&mut site.args);
            self.assign_passed(&mut site.rets);
            if let Callee::Register(slot) = &mut site.callee {
                self.slot(slot);
            }
        }
    }

    /// As `assign`, for arguments and results.
    pub(super) fn assign_passed(&self, list: &mut [Passed]) {
        for passed in list {
            if let Passed::Register(_, slot) = passed {
                self.slot(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_lives_at_the_same_time_shares_a_place() {
        let span = |first, last| Span { first, last };
        let banks = [Bank::Word, Bank::Word, Bank::Word, Bank::Double, Bank::Word];
        let spans = [span(0, 4), span(2, 5), span(5, 9), span(0, 9), Span::NEVER];
        let places = Places::shared(&banks, &spans);
        let slots: Vec<u32> = places.list.iter().map(|(_, slot)| slot.0).collect();
        assert_eq!(slots[..4], [0, 128, 0, 0]);
        assert_eq!((places.frame.words, places.frame.doubles), (256, 256));
    }

    #[test]
    fn a_hundred_thousand_in_turn_take_two_places() {
        let banks = vec![Bank::Word; 100_000];
        let spans: Vec<Span> = (0..100_000)
            .map(|at| Span {
                first: at,
                last: at + 1,
            })
            .collect();
        assert_eq!(Places::shared(&banks, &spans).frame.words, 2 * 128);
    }
}
