//! Execution of a warp: its splits in turn, the deepest and earliest first, merged where they meet.

#![expect(
    unsafe_code,
    reason = "hands slots that decode produced to the lane loops"
)]

use super::block::{Base, Block, State};
use super::code::{Kind, Step, UNGUARDED};
use super::context::Context;
use super::control::SPLIT_JUMPS;
use super::gather::named;
use super::launch::Launch;
use super::order::Order;
use super::warp_budget::{Stop, WarpBudget};
use crate::lane_value::{FULL, LANES};
#[cfg(all(target_arch = "x86_64", unix))]
use crate::native::Ending;

/// The lanes in which an instruction's guard is true.
///
/// # Safety
/// The context points at the frame of a warp that is at this instruction.
#[inline(always)]
unsafe fn guarded(step: &Step, cx: &Context<'_>, lanes: u32) -> u32 {
    if step.guard == UNGUARDED {
        return lanes;
    }
    // SAFETY: decode gave the guard a predicate of this frame.
    lanes & (unsafe { *cx.preds.add(step.guard as usize) } ^ step.flip)
}

/// The first instruction at fault, after native code recorded a fault at `at`. The straight line
/// begins at `begun`. Native code runs eight lanes to the line's end before the next eight begin.
/// Later lanes have not run yet, and one of them may fail at an earlier instruction, so they are
/// run up to there.
#[cfg(all(target_arch = "x86_64", unix))]
#[cold]
fn blamed(launch: &Launch, cx: &mut Context<'_>, begun: u32, at: u32) -> u32 {
    let Some(noted) = cx.noted.take() else {
        return at;
    };
    let steps = launch.program.steps.as_slice();
    let mut later = FULL.checked_shl(noted.lane / 8 * 8 + 8).unwrap_or(0);
    let mut pc = begun;
    while pc < at && later != 0 {
        let step = &steps[pc as usize];
        // SAFETY: the context points at the frame of this warp.
        let lanes = unsafe { guarded(step, cx, later) };
        match step.kind {
            // Lanes that jump over the following code do not run it.
            Kind::Branch => later &= !lanes,
            // SAFETY: decode gave every slot a place in this frame, which `fit` sized.
            _ if lanes != 0 && !unsafe { (step.handler)(cx, &step.inst, lanes) } => return pc,
            _ => {}
        }
        pc += 1;
    }
    cx.noted = Some(noted);
    at
}

/// Reason why a split stopped running.
enum SplitStop {
    /// At an instruction where another split is, or may be.
    At(u32),
    /// At an instruction where the warp must stop.
    Spun(u32),
    /// At an instruction that moves lanes between splits.
    Control(u32),
    /// All its threads are done.
    Ended,
    /// A fault was recorded; the instruction at fault.
    Fault(u32),
}

/// Runs the native code for the instruction at `pc`, if any: for the whole warp, or for a straight
/// line of instructions. `Ok` is the instruction to continue at, if any code ran. `first` is the
/// first instruction that is not counted yet.
///
/// # Safety
/// The context points at the frame of a full warp at that instruction.
#[cfg(all(target_arch = "x86_64", unix))]
#[inline(always)]
unsafe fn native_step(
    launch: &Launch,
    cx: &mut Context<'_>,
    whole: bool,
    (first, pc): (&mut u32, u32),
    budget: &mut WarpBudget<'_>,
) -> Result<Option<u32>, SplitStop> {
    let step = &launch.program.steps[pc as usize];
    if whole && let Some(native) = step.warp {
        budget.executed += u64::from(pc - *first);
        *first = pc;
        // SAFETY: the caller vouches for the context.
        let (ending, (at, begun), ran) = unsafe { budget.native(native, cx) };
        match ending {
            Ending::Left if ran == 0 => {}
            Ending::Left => {
                *first = at;
                return Ok(Some(at));
            }
            Ending::Spun => return Err(SplitStop::Spun(at)),
            Ending::Ended => return Err(SplitStop::Ended),
            Ending::Fault => return Err(SplitStop::Fault(blamed(launch, cx, begun, at))),
        }
    }
    let Some(native) = step.native else {
        return Ok(None);
    };
    // SAFETY: the caller vouches for the context.
    match unsafe { native.call(cx) } {
        Ok(()) => Ok(Some(pc + native.len)),
        Err(at) => {
            let at = blamed(launch, cx, pc, pc + at);
            budget.executed += u64::from(at - *first);
            Err(SplitStop::Fault(at))
        }
    }
}

impl Block {
    /// Points the context at a split's frame.
    fn enter(&mut self, launch: &Launch, cx: &mut Context<'_>, warp: usize, base: Base) {
        let stack = &launch.stack;
        let words = warp * stack.words as usize + base.words as usize;
        let doubles = warp * stack.doubles as usize + base.doubles as usize;
        let preds = warp * stack.preds as usize + base.preds as usize;
        cx.words[0] = self.words.as_mut_ptr().cast::<u8>().wrapping_add(words);
        cx.doubles[0] = self.doubles.as_mut_ptr().cast::<u8>().wrapping_add(doubles);
        cx.preds = self.preds.as_mut_ptr().wrapping_add(preds);
        cx.local_frame = u64::from(base.local);
        cx.local_len = u64::from(stack.local);
        let local = warp * LANES * stack.local as usize;
        cx.local = self.local.as_mut_ptr().cast::<u8>().wrapping_add(local);
    }

    /// Merges splits at the same instruction, then picks the next to run.
    fn pick(&mut self, order: &Order, warp: usize) -> Option<usize> {
        let splits = &mut self.warps[warp].splits;
        if splits.len() == 1 {
            let ready = matches!(splits[0].state, State::Ready | State::Gathered);
            return ready.then_some(0);
        }
        let mut at = 0;
        while at < splits.len() {
            let mut other = at + 1;
            while other < splits.len() {
                let (a, b) = (&splits[at], &splits[other]);
                let together = a.pc == b.pc
                    && a.state == State::Ready
                    && b.state == State::Ready
                    && a.base == b.base
                    && a.calls == b.calls;
                if together {
                    let gone = splits.swap_remove(other);
                    splits[at].mask |= gone.mask;
                    splits[at].age = splits[at].age.max(gone.age);
                } else {
                    other += 1;
                }
            }
            at += 1;
        }
        let ready = splits
            .iter()
            .enumerate()
            .filter(|(_, split)| matches!(split.state, State::Ready | State::Gathered));
        let best = ready.min_by_key(|(_, split)| {
            (
                split.age / SPLIT_JUMPS,
                usize::MAX - split.calls.len(),
                order.place(split.pc),
                split.mask,
            )
        });
        best.map(|(at, _)| at)
    }

    /// The next instruction above a split at which another split waits or may come first.
    fn limit(&self, order: &Order, warp: usize, current: usize) -> u32 {
        let splits = &self.warps[warp].splits;
        if splits.len() == 1 {
            return u32::MAX;
        }
        let own = &splits[current];
        let above = splits.iter().enumerate().filter(|(at, split)| {
            *at != current && split.state == State::Ready && split.pc > own.pc
        });
        let next = above.map(|(_, split)| split.pc).min();
        next.unwrap_or(u32::MAX).min(order.seam(own.pc))
    }

    /// Runs a warp of undiverged lanes in native code, if there is any for its instruction. Most
    /// warps of short kernels start and end here. `None` if the interpreter must continue.
    #[cfg(all(target_arch = "x86_64", unix))]
    #[inline]
    fn run_whole(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        warp: usize,
        budget: &mut WarpBudget<'_>,
    ) -> Option<Stop> {
        let [split] = self.warps[warp].splits.as_slice() else {
            return None;
        };
        let together = split.mask == FULL && split.state == State::Ready;
        if !together || !launch.linear || split.base != Base::default() {
            return None;
        }
        let native = launch.program.steps[split.pc as usize].warp?;
        self.enter(launch, cx, warp, Base::default());
        // SAFETY: the context points at the frame of this full warp, which is at this instruction.
        let (ending, (at, begun), _) = unsafe { budget.native(native, cx) };
        let state = &mut self.warps[warp];
        match ending {
            Ending::Ended => {
                // The split is kept for the next block's first.
                state.splits[0].state = State::Ended;
                state.splits[0].mask = 0;
                state.live = 0;
                self.live -= FULL.count_ones();
                return Some(Stop::Waits);
            }
            Ending::Fault => return Some(Stop::Fault(blamed(launch, cx, begun, at))),
            Ending::Left | Ending::Spun => state.splits[0].pc = at,
        }
        (ending == Ending::Spun).then_some(Stop::Spun)
    }

    /// Runs a warp until it waits, spins, or faults.
    pub(crate) fn run_warp(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        warp: usize,
        budget: &mut WarpBudget<'_>,
    ) -> Stop {
        #[cfg(all(target_arch = "x86_64", unix))]
        if let Some(stop) = self.run_whole(launch, cx, warp, budget) {
            return stop;
        }
        cx.carry = self.warps[warp].carry;
        let stop = loop {
            let Some(current) = self.pick(&launch.program.order, warp) else {
                break Stop::Waits;
            };
            let stop = self.run_split(launch, cx, (warp, current), budget);
            if let SplitStop::At(pc) | SplitStop::Spun(pc) | SplitStop::Control(pc) = stop {
                let split = &mut self.warps[warp].splits[current];
                split.state = State::Ready;
                split.pc = pc;
            }
            match stop {
                SplitStop::At(_) => {}
                SplitStop::Spun(_) => break Stop::Spun,
                SplitStop::Control(pc) => {
                    let step = &launch.program.steps[pc as usize];
                    let mask = self.warps[warp].splits[current].mask;
                    // SAFETY: the context points at the frame of this split, which is at this
                    // instruction.
                    let lanes = unsafe { guarded(step, cx, mask) };
                    if let Some(end) = self.control(launch, cx, (warp, current), lanes, budget) {
                        break end;
                    }
                }
                SplitStop::Ended => self.leave(warp, current),
                SplitStop::Fault(pc) => break Stop::Fault(pc),
            }
        };
        self.warps[warp].carry = cx.carry;
        stop
    }

    /// Counts a split's jump; returns the end of its turn, if the jump ends it.
    #[inline(always)]
    fn jumped(
        &mut self,
        (warp, at): (usize, usize),
        (from, to): (u32, u32),
        budget: &mut WarpBudget<'_>,
    ) -> Option<SplitStop> {
        let splits = &mut self.warps[warp].splits;
        let alone = splits.len() == 1;
        if to <= from && !cfg!(unchecked_access) {
            if budget.jump() {
                return Some(SplitStop::Spun(to));
            }
            if !alone {
                splits[at].age += 1;
            }
        }
        (!alone).then_some(SplitStop::At(to))
    }

    /// True if a split waits at an instruction for lanes that it names, or for a part of itself.
    #[inline(always)]
    fn waits(
        &self,
        launch: &Launch,
        place: (usize, Base),
        step: &Step,
        (lanes, mask): (u32, u32),
    ) -> bool {
        let Kind::Gather(slot) = step.kind else {
            return false;
        };
        let members = self.word(launch, place, step.inst.slots[slot]);
        let need = named(members, lanes) & self.warps[place.0].live;
        lanes != 0 && (lanes != mask || need & !lanes != 0)
    }

    /// Runs one split of a warp until others must have their turn, or until it cannot continue by
    /// itself.
    #[inline(always)]
    fn run_split(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        (warp, current): (usize, usize),
        budget: &mut WarpBudget<'_>,
    ) -> SplitStop {
        let steps = launch.program.steps.as_slice();
        let split = &self.warps[warp].splits[current];
        let (base, mut pc, mask) = (split.base, split.pc, split.mask);
        // True if the lanes that its instruction waits for are there.
        let mut gathered = split.state == State::Gathered;
        let limit = self.limit(&launch.program.order, warp, current);
        self.enter(launch, cx, warp, base);
        let at = (warp, base);
        // The first instruction that is not counted yet.
        let mut first = pc;
        #[cfg(all(target_arch = "x86_64", unix))]
        let whole = mask == FULL && launch.linear && base == Base::default();
        loop {
            let step = &steps[pc as usize];
            #[cfg(all(target_arch = "x86_64", unix))]
            if mask == FULL {
                // SAFETY: the context points at the frame of this full warp, which is at this
                // instruction.
                match unsafe { native_step(launch, cx, whole, (&mut first, pc), budget) } {
                    Ok(Some(next)) => {
                        pc = next;
                        continue;
                    }
                    Ok(None) => {}
                    Err(stop) => return stop,
                }
            }
            // SAFETY: the context points at the frame of this split, which is at this instruction.
            let lanes = unsafe { guarded(step, cx, mask) };
            match step.kind {
                Kind::Gather(_) if !gathered && self.waits(launch, at, step, (lanes, mask)) => {
                    break;
                }
                Kind::Lanes | Kind::Gather(_) => {
                    // SAFETY: decode gave every slot a place in this frame, which `fit` sized.
                    if lanes != 0 && !unsafe { (step.handler)(cx, &step.inst, lanes) } {
                        budget.executed += u64::from(pc - first);
                        return SplitStop::Fault(pc);
                    }
                    gathered = false;
                    pc += 1;
                }
                Kind::Branch if lanes == 0 => pc += 1,
                Kind::Branch if lanes == mask => {
                    let target = step.inst.target;
                    budget.executed += u64::from(pc - first + 1);
                    if let Some(stop) = self.jumped((warp, current), (pc, target), budget) {
                        return stop;
                    }
                    (first, pc) = (target, target);
                }
                Kind::Branch | Kind::Control => break,
            }
            if pc == limit {
                budget.executed += u64::from(pc - first);
                return SplitStop::At(pc);
            }
        }
        budget.executed += u64::from(pc - first + 1);
        SplitStop::Control(pc)
    }
}
