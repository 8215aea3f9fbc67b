//! Barriers of a block: arrival, reduction, opening.

use super::block::{Block, State};
use super::context::Context;
use super::launch::Launch;
use crate::decode::form::{Bank, BarRed, Inst, Op, Slot};
use crate::error::FaultKind;
use crate::lane_value::LANES;

/// Index of the cluster's barrier; the cluster has just this block.
const CLUSTER: usize = 16;

impl Block {
    pub(super) fn arrive(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        (warp, at): (usize, usize),
        inst: &Inst,
    ) -> bool {
        let Op::Barrier {
            arrive,
            counted,
            red,
        } = inst.op
        else {
            return true;
        };
        let (mask, base) = (
            self.warps[warp].splits[at].mask,
            self.warps[warp].splits[at].base,
        );
        let lane = mask.trailing_zeros();
        let first = |slot: Slot| self.word(launch, (warp, base), slot)[lane as usize % LANES];
        let id = first(inst.slots[1]);
        if id >= 16 {
            let detail = "there are barriers 0 to 15 only";
            cx.note(FaultKind::IllegalInstruction, None, lane, detail);
            return false;
        }
        let expected = if counted { first(inst.slots[2]) } else { 0 };
        let mut held = 0;
        if let Some((_, negated)) = red {
            let row = self.read(launch, warp, base, Bank::Pred, inst.slots[3]);
            held = (0..LANES).fold(0, |bits, lane| bits | (row[lane] as u32) << lane);
            held = if negated { !held } else { held } & mask;
        }
        self.awaited |= 1 << id;
        let barrier = &mut self.barriers[id as usize];
        if barrier.arrived == 0 {
            barrier.all = true;
            barrier.any = false;
            barrier.count = 0;
            barrier.expected = expected;
        }
        // With a count, a warp counts as a whole one if all its live threads are here.
        let whole = counted && mask == self.warps[warp].live;
        barrier.arrived += if whole {
            LANES as u32
        } else {
            mask.count_ones()
        };
        barrier.count += held.count_ones();
        barrier.all &= held == mask;
        barrier.any |= held != 0;
        let split = &mut self.warps[warp].splits[at];
        if arrive {
            split.pc += 1;
        } else {
            split.state = State::Barrier(id as u8);
        }
        true
    }

    /// `barrier.cluster.arrive`: does not wait.
    pub(super) fn arrive_in_cluster(&mut self, (warp, at): (usize, usize)) {
        let split = &mut self.warps[warp].splits[at];
        split.pc += 1;
        self.awaited |= 1 << CLUSTER;
        self.barriers[CLUSTER].arrived += split.mask.count_ones();
    }

    /// `barrier.cluster.wait`: does not wait if all threads have arrived.
    pub(super) fn wait_for_cluster(&mut self, (warp, at): (usize, usize)) {
        let warp = &mut self.warps[warp];
        let split = &mut warp.splits[at];
        if split.mask & !warp.answered == 0 {
            warp.answered &= !split.mask;
            split.pc += 1;
        } else {
            split.state = State::Barrier(CLUSTER as u8);
        }
    }

    /// Opens every barrier that is complete.
    pub(crate) fn open_barriers(&mut self, launch: &Launch) -> bool {
        let mut opened = false;
        let mut awaited = self.awaited;
        while awaited != 0 {
            let id = awaited.trailing_zeros() as usize;
            awaited &= awaited - 1;
            let barrier = self.barriers[id];
            let wanted = if barrier.expected == 0 {
                self.live
            } else {
                barrier.expected
            };
            if barrier.arrived == 0 || barrier.arrived < wanted {
                continue;
            }
            opened = true;
            self.barriers[id] = Default::default();
            self.awaited &= !(1 << id);
            for warp in 0..self.warps.len() {
                if id == CLUSTER {
                    self.warps[warp].answered = self.warps[warp].live;
                }
                for at in 0..self.warps[warp].splits.len() {
                    let split = &self.warps[warp].splits[at];
                    if split.state != State::Barrier(id as u8) {
                        continue;
                    }
                    let (mask, base) = (split.mask, split.base);
                    let inst = launch.program.steps[split.pc as usize].inst;
                    if let Op::Barrier {
                        red: Some((kind, _)),
                        ..
                    } = inst.op
                    {
                        let (bank, value) = match kind {
                            BarRed::Popc => (Bank::Word, u64::from(barrier.count)),
                            BarRed::And => (Bank::Pred, u64::from(barrier.all)),
                            BarRed::Or => (Bank::Pred, u64::from(barrier.any)),
                        };
                        let to = (bank, inst.slots[0]);
                        self.write(launch, (warp, mask), base, to, &[value; LANES]);
                    }
                    if id == CLUSTER {
                        self.warps[warp].answered &= !mask;
                    }
                    let split = &mut self.warps[warp].splits[at];
                    split.state = State::Ready;
                    split.pc += 1;
                }
            }
        }
        opened
    }
}
