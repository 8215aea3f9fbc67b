//! Waiting for the lanes that a warp's instruction names.
//!
//! Lanes may name different masks in one instruction, as the tiles of a partitioned warp do. If all
//! named lanes are there, the instruction runs at once and its lane loop keeps the groups apart.
//! Otherwise each group waits for its own lanes.

use super::block::{Base, Block, Split, State};
use super::code::Kind;

use super::launch::Launch;
use crate::decode::form::{Inst, Slot};
use crate::lane_value::LANES;

/// Union of the lanes that some lanes name.
pub(super) fn named(members: &[u32; LANES], lanes: u32) -> u32 {
    let row = members.iter().enumerate();
    row.fold(0, |all, (lane, mask)| {
        all | if lanes >> lane & 1 != 0 { *mask } else { 0 }
    })
}

impl Block {
    /// Lanes of a register or constant of 32 bits.
    pub(super) fn word<'a>(
        &'a self,
        launch: &'a Launch,
        (warp, base): (usize, Base),
        slot: Slot,
    ) -> &'a [u32; LANES] {
        if slot.0 & Slot::CONSTANT != 0 {
            return &launch.words[(slot.0 & !Slot::CONSTANT) as usize / 128].0;
        }
        &self.words[self.word_at(launch, warp, base, slot)].0
    }

    /// Parks a split until the lanes that it names are at the same instruction.
    pub(super) fn wait_for_lanes(
        &mut self,
        launch: &Launch,
        (warp, at): (usize, usize),
        inst: &Inst,
        pc: u32,
    ) {
        let Kind::Gather(slot) = launch.program.steps[pc as usize].kind else {
            return;
        };
        let split = self.warps[warp].splits.swap_remove(at);
        let members = *self.word(launch, (warp, split.base), inst.slots[slot]);
        let mut left = split.mask;
        while left != 0 {
            let mask = members[left.trailing_zeros() as usize];
            let group = (0..LANES).fold(0, |group, lane| {
                group | u32::from(left >> lane & 1 != 0 && members[lane] == mask) << lane
            });
            left &= !group;
            self.warps[warp].splits.push(Split {
                mask: group,
                state: State::Lanes(mask),
                ..split.clone()
            });
        }
        self.regather(warp);
    }

    /// Merges waiting splits once all of their lanes are there.
    pub(super) fn regather(&mut self, warp: usize) {
        let live = self.warps[warp].live;
        while self.gather(warp, |have, members| members & live & !have == 0) {}
    }

    /// Merges the first group of waiting splits although lanes are missing.
    pub(crate) fn force(&mut self) -> bool {
        (0..self.warps.len()).any(|warp| self.gather(warp, |_, _| true))
    }

    fn gather(&mut self, warp: usize, enough: impl Fn(u32, u32) -> bool) -> bool {
        let splits = &mut self.warps[warp].splits;
        for at in 0..splits.len() {
            let waits = splits[at].state;
            let State::Lanes(members) = waits else {
                continue;
            };
            let (pc, base) = (splits[at].pc, splits[at].base);
            let calls = splits[at].calls.clone();
            let same = |split: &Split| {
                split.state == waits && split.pc == pc && split.base == base && split.calls == calls
            };
            let have = splits
                .iter()
                .filter(|split| same(split))
                .fold(0, |m, s| m | s.mask);
            if enough(have, members) {
                let mut joined = splits[at].clone();
                splits.retain(|split| !same(split));
                joined.mask = have;
                joined.state = State::Gathered;
                splits.push(joined);
                return true;
            }
        }
        false
    }
}
