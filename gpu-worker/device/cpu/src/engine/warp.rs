//! Running a warp: its splits in turn, the deepest and lowest first, merged where they meet.

#![expect(
    unsafe_code,
    reason = "hands slots that decode produced to the lane loops"
)]

use super::allowance::{Allowance, Stop};
use super::block::{Base, Block, State};
use super::code::{Kind, UNGUARDED};
use super::context::Context;
use super::control::PATIENCE;
use super::gather::named;
use super::launch::Launch;
use crate::lane::{FULL, LANES};
#[cfg(all(target_arch = "x86_64", unix))]
use crate::native::Ending;

/// The first instruction at fault where native code noted one at `at`, in a straight line that begins
/// at `begun`. That code runs eight lanes to the line's end before the next eight begin: later lanes
/// have not run yet, and one of them may fail at an earlier instruction. They are run up to there.
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
        let mut lanes = later;
        if step.guard != UNGUARDED {
            // SAFETY: decode gave the guard a predicate of this frame.
            lanes &= unsafe { *cx.preds.add(step.guard as usize) } ^ step.flip;
        }
        match step.kind {
            // Who jumps over what follows does not run it.
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

    /// Merges splits that stand at the same place, then picks the next to run.
    fn pick(&mut self, warp: usize) -> Option<usize> {
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
                split.age / PATIENCE,
                usize::MAX - split.calls.len(),
                split.pc,
                split.mask,
            )
        });
        best.map(|(at, _)| at)
    }

    /// The next place above a split where another one stands.
    fn limit(&self, warp: usize, current: usize) -> u32 {
        let splits = &self.warps[warp].splits;
        let own = &splits[current];
        let above = splits.iter().enumerate().filter(|(at, split)| {
            *at != current && split.state == State::Ready && split.pc > own.pc
        });
        above.map(|(_, split)| split.pc).min().unwrap_or(u32::MAX)
    }

    /// Runs a warp whose lanes are together in native code, if it stands where there is some: most
    /// warps of short kernels come and go here. `None` where the interpreter is to go on.
    #[cfg(all(target_arch = "x86_64", unix))]
    #[inline]
    fn run_whole(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        warp: usize,
        allowance: &mut Allowance<'_>,
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
        // SAFETY: the context points at the frame of this full warp, which stands here.
        let (ending, (at, begun), _) = unsafe { allowance.native(native, cx) };
        let state = &mut self.warps[warp];
        match ending {
            Ending::Ended => {
                // It stays as room for the next block's first.
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
        allowance: &mut Allowance<'_>,
    ) -> Stop {
        #[cfg(all(target_arch = "x86_64", unix))]
        if let Some(stop) = self.run_whole(launch, cx, warp, allowance) {
            return stop;
        }
        let steps = launch.program.steps.as_slice();
        cx.carry = self.warps[warp].carry;
        let stop = 'warp: loop {
            let Some(current) = self.pick(warp) else {
                break Stop::Waits;
            };
            let split = &self.warps[warp].splits[current];
            let (base, mut pc, mask) = (split.base, split.pc, split.mask);
            let mut gathered = split.state == State::Gathered;
            let limit = self.limit(warp, current);
            let alone = self.warps[warp].splits.len() == 1;
            self.enter(launch, cx, warp, base);
            let mut first = pc;
            #[cfg(all(target_arch = "x86_64", unix))]
            let whole = mask == FULL && launch.linear && base == Base::default();
            let outcome = loop {
                let step = &steps[pc as usize];
                #[cfg(all(target_arch = "x86_64", unix))]
                if whole && let Some(native) = step.warp {
                    allowance.executed += u64::from(pc - first);
                    first = pc;
                    // SAFETY: the context points at the frame of this full warp, which stands here.
                    let (ending, (at, begun), ran) = unsafe { allowance.native(native, cx) };
                    match ending {
                        Ending::Left if ran == 0 => {}
                        Ending::Left => {
                            (first, pc) = (at, at);
                            continue;
                        }
                        Ending::Spun => {
                            first = at;
                            break Some((at, Some(Stop::Spun)));
                        }
                        Ending::Ended => {
                            self.leave(warp, current);
                            continue 'warp;
                        }
                        Ending::Fault => break 'warp Stop::Fault(blamed(launch, cx, begun, at)),
                    }
                }
                #[cfg(all(target_arch = "x86_64", unix))]
                if mask == FULL
                    && let Some(native) = step.native
                {
                    // SAFETY: the context points at the frame of this warp, which stands here.
                    if let Err(at) = unsafe { native.call(cx) } {
                        let at = blamed(launch, cx, pc, pc + at);
                        allowance.executed += u64::from(at - first);
                        return Stop::Fault(at);
                    }
                    pc += native.len;
                    continue;
                }
                let mut lanes = mask;
                if step.guard != UNGUARDED {
                    // SAFETY: decode gave the guard a predicate of this frame.
                    lanes &= unsafe { *cx.preds.add(step.guard as usize) } ^ step.flip;
                }
                match step.kind {
                    Kind::Lanes => {
                        // SAFETY: decode gave every slot a place in this frame, which `fit` sized.
                        if lanes != 0 && !unsafe { (step.handler)(cx, &step.inst, lanes) } {
                            allowance.executed += u64::from(pc - first);
                            return Stop::Fault(pc);
                        }
                        pc += 1;
                    }
                    Kind::Branch if lanes == 0 => pc += 1,
                    Kind::Branch if lanes == mask => {
                        let target = step.inst.target;
                        allowance.executed += u64::from(pc - first + 1);
                        first = target;
                        if target <= pc && !cfg!(unchecked_access) {
                            if allowance.jump() {
                                break Some((target, Some(Stop::Spun)));
                            }
                            if !alone {
                                self.warps[warp].splits[current].age += 1;
                            }
                        }
                        pc = target;
                        if !alone {
                            break Some((pc, None));
                        }
                    }
                    Kind::Gather(slot) => {
                        let members = self.members(launch, (warp, base), &step.inst, slot);
                        let need = named(members, lanes) & self.warps[warp].live;
                        if lanes == mask && (gathered || need & !lanes == 0) {
                            gathered = false;
                            // SAFETY: as above.
                            if !unsafe { (step.handler)(cx, &step.inst, lanes) } {
                                return Stop::Fault(pc);
                            }
                            pc += 1;
                        } else if lanes == 0 {
                            pc += 1;
                        } else {
                            break None;
                        }
                    }
                    Kind::Branch | Kind::Control => break None,
                }
                if pc == limit {
                    break Some((pc, None));
                }
            };
            let split = &mut self.warps[warp].splits[current];
            split.state = State::Ready;
            match outcome {
                Some((at, end)) => {
                    allowance.executed += u64::from(at.saturating_sub(first));
                    split.pc = at;
                    if let Some(end) = end {
                        break end;
                    }
                }
                None => {
                    allowance.executed += u64::from(pc - first + 1);
                    split.pc = pc;
                    let step = &steps[pc as usize];
                    let mut lanes = mask;
                    if step.guard != UNGUARDED {
                        // SAFETY: as above.
                        lanes &= unsafe { *cx.preds.add(step.guard as usize) } ^ step.flip;
                    }
                    if let Some(end) = self.control(launch, cx, (warp, current), lanes, allowance) {
                        break end;
                    }
                }
            }
        };
        self.warps[warp].carry = cx.carry;
        stop
    }
}
