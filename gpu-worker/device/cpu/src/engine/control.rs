//! Instructions that move lanes between the splits of a warp.

use super::block::{Block, Split, State};
use super::context::Context;
use super::launch::Launch;
use super::warp_budget::{Stop, WarpBudget};
use crate::decode::form::{Bank, Inst, Op, Slot, Special};
use crate::error::FaultKind;
use crate::lane_value::LANES;

/// Backward jumps of one split after which the others of its warp get their turn.
pub(super) const SPLIT_JUMPS: u32 = 64;

impl Block {
    /// Runs an instruction that moves lanes between splits. Not inlined: its temporaries would be
    /// computed for every warp.
    #[inline(never)]
    pub(super) fn control(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        (warp, current): (usize, usize),
        lanes: u32,
        budget: &mut WarpBudget<'_>,
    ) -> Option<Stop> {
        let split = &mut self.warps[warp].splits[current];
        let pc = split.pc;
        if lanes == 0 {
            split.pc += 1;
            return None;
        }
        let at = self.part(warp, current, lanes);
        let inst = launch.program.steps[pc as usize].inst;
        match inst.op {
            Op::Branch => self.warps[warp].splits[at].pc = inst.target,
            Op::BranchIndex => {
                self.branch_index(launch, cx, (warp, at), &inst)?;
                // Some targets may be before the instruction.
                if cx.noted.is_none() && budget.jump() {
                    return Some(Stop::Spun);
                }
            }
            Op::Exit => self.leave(warp, at),
            Op::Return if self.warps[warp].splits[at].calls.is_empty() => self.leave(warp, at),
            Op::Return => self.returned(launch, (warp, at)),
            Op::Call => {
                if !self.call(launch, cx, (warp, at), &inst) {
                    return Some(Stop::Fault(pc));
                }
                budget.executed += std::mem::take(&mut cx.spent);
                if budget.jump() {
                    return Some(Stop::Spun);
                }
            }
            Op::Trap => {
                let detail = match inst.imm {
                    0 => "the kernel trapped",
                    _ => "a breakpoint, and no debugger to stop in",
                };
                cx.note(FaultKind::Trap, None, lanes.trailing_zeros(), detail);
            }
            Op::Yield => {
                let split = &mut self.warps[warp].splits[at];
                split.pc += 1;
                split.age += SPLIT_JUMPS;
                budget.jumps = 0;
                return Some(Stop::Spun);
            }
            Op::Place(special) => self.fill_place(launch, (warp, at), special, inst.slots[0]),
            Op::ClusterArrive => self.arrive_in_cluster((warp, at)),
            Op::ClusterWait => self.wait_for_cluster((warp, at)),
            Op::Barrier { .. } => {
                if !self.arrive(launch, cx, (warp, at), &inst) {
                    return Some(Stop::Fault(pc));
                }
            }
            _ => self.wait_for_lanes(launch, (warp, at), &inst, pc),
        }
        cx.noted.is_some().then_some(Stop::Fault(pc))
    }

    /// Fills a register with a value of the place of a split's warp.
    fn fill_place(
        &mut self,
        launch: &Launch,
        (warp, at): (usize, usize),
        special: Special,
        slot: Slot,
    ) {
        let row = launch.place(special, warp, self.ctaid).map(u64::from);
        let split = &mut self.warps[warp].splits[at];
        split.pc += 1;
        let (mask, base) = (split.mask, split.base);
        self.write(launch, (warp, mask), base, (Bank::Word, slot), &row);
    }

    /// Separates the lanes in which a guard is true; the others of the split continue without them.
    fn part(&mut self, warp: usize, current: usize, lanes: u32) -> usize {
        let splits = &mut self.warps[warp].splits;
        let split = &mut splits[current];
        if lanes == split.mask {
            return current;
        }
        let mut taken = split.clone();
        taken.mask = lanes;
        split.mask &= !lanes;
        split.pc += 1;
        splits.push(taken);
        splits.len() - 1
    }

    /// Ends a split's threads.
    pub(super) fn leave(&mut self, warp: usize, at: usize) {
        let splits = &mut self.warps[warp].splits;
        let gone = splits[at].mask;
        if splits.len() == 1 {
            splits[0].state = State::Ended;
            splits[0].mask = 0;
        } else {
            splits.swap_remove(at);
        }
        self.warps[warp].live &= !gone;
        self.live -= gone.count_ones();
        if self.warps[warp].live != 0 {
            self.regather(warp);
        }
    }

    /// Moves lanes to their targets in a table.
    fn branch_index(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        (warp, at): (usize, usize),
        inst: &Inst,
    ) -> Option<()> {
        let table = &launch.program.decoded.tables[inst.imm as usize];
        let split = self.warps[warp].splits[at].clone();
        let index = self.read(launch, warp, split.base, Bank::Word, inst.slots[0]);
        let mut left = split.mask;
        let mut parts = Vec::new();
        while left != 0 {
            let lane = left.trailing_zeros();
            let value = index[lane as usize];
            let same = (0..LANES).fold(0, |mask, other| {
                mask | u32::from(left >> other & 1 != 0 && index[other] == value) << other
            });
            left &= !same;
            let Some(target) = table.get(value as usize) else {
                let detail = "branch index outside its list of targets";
                cx.note(FaultKind::IllegalInstruction, None, lane, detail);
                return Some(());
            };
            parts.push(Split {
                pc: *target,
                mask: same,
                ..split.clone()
            });
        }
        let splits = &mut self.warps[warp].splits;
        splits.swap_remove(at);
        splits.extend(parts);
        Some(())
    }
}
