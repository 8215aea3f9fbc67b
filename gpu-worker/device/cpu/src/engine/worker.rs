//! One thread's share of a launch: its blocks in turn, until they end or it is to stop.

use super::block::{Block, State};
use super::context::{Context, Noted};
use super::launch::Launch;
use super::runtime::Printed;
use super::warp::{Allowance, Stop};
use super::{BlockOrder, EngineConfig};
use crate::error::{Fault, FaultKind};
use crate::memory::{Live, Memory};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Jumps back of one warp before another warp of its block runs.
const WARP_JUMPS: u32 = 1024;
/// Rounds over a block's warps without an end before another block runs.
const BLOCK_ROUNDS: u32 = 4;
/// Warp instructions between two looks at the kill flag.
const LOOK: u64 = 1 << 14;

/// One thread's blocks. Boxed: a small launch would spend most of its time moving them.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "a block moves from list to list, and is hundreds of bytes"
)]
pub(super) struct Worker {
    /// Blocks in progress, in turn.
    active: Vec<Box<Block>>,
    /// Scratch sized and cleared for this launch.
    fitted: Vec<Box<Block>>,
    /// Scratch of earlier launches.
    stale: Vec<Box<Block>>,
    turn: usize,
    clock: u64,
    pub(super) executed: u64,
    pub(super) blocks: u64,
    /// What its blocks printed, by block.
    pub(super) printed: BTreeMap<u64, Printed>,
    pub(super) printed_bytes: usize,
}

/// How long a worker runs.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    /// Warp instructions.
    pub(super) budget: u64,
    /// Ends the launch.
    pub(super) kill: &'a AtomicBool,
    /// Parks it.
    pub(super) stop: &'a AtomicBool,
}

impl Limits<'_> {
    fn are_over(&self, executed: u64, until: u64) -> bool {
        executed >= until || self.stop.load(Ordering::Relaxed)
    }
}

/// How a worker's turn ended.
pub(super) enum Turn {
    Done,
    Budget,
    Fault(Box<Fault>, u64),
}

impl Worker {
    pub(super) fn reset(&mut self) {
        self.stale.append(&mut self.active);
        self.stale.append(&mut self.fitted);
        self.turn = 0;
        self.clock = 0;
        self.executed = 0;
        self.blocks = 0;
        self.printed.clear();
        self.printed_bytes = 0;
    }

    /// Keeps what a block printed; blocks that went before it give way, as `Printed` says.
    fn keep_printed(&mut self, block: &mut Block) {
        if block.printed.is_empty() {
            return;
        }
        let printed = std::mem::take(&mut block.printed);
        self.printed_bytes += printed.bytes();
        self.printed.insert(block.index, printed);
        while let Some(first) = self.printed.first_entry()
            && self.printed_bytes - first.get().bytes() >= Printed::LIMIT
        {
            self.printed_bytes -= first.remove().bytes();
        }
    }

    /// Starts the grid's next block, if there is one.
    fn admit(&mut self, launch: &Launch, order: BlockOrder, next: &AtomicU64) -> bool {
        if next.load(Ordering::Relaxed) >= launch.blocks {
            return false;
        }
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= launch.blocks {
            return false;
        }
        let mut block = self.fitted.pop().unwrap_or_else(|| {
            let mut block = self.stale.pop().unwrap_or_default();
            block.fit(launch);
            block
        });
        block.start(launch, order.index(index, launch.blocks));
        self.active.push(block);
        self.turn = self.active.len() - 1;
        true
    }

    pub(super) fn run(
        &mut self,
        launch: &Launch,
        config: EngineConfig,
        memory: &Memory,
        next: &AtomicU64,
        limits: Limits<'_>,
    ) -> Turn {
        let until = self.executed.saturating_add(limits.budget);
        loop {
            if self.active.is_empty() {
                let left = next.load(Ordering::Relaxed) < launch.blocks;
                let killed = limits.kill.load(Ordering::Relaxed);
                if left && !killed && limits.are_over(self.executed, until) {
                    return Turn::Budget;
                }
                if !self.admit(launch, config.order, next) {
                    return Turn::Done;
                }
            }
            let turn = self.turn;
            let mut cx = context(&mut self.active[turn], launch, memory, self.clock);
            let killed = limits.kill.load(Ordering::Relaxed);
            let look = until.min(self.executed.saturating_add(LOOK));
            let mut allowance = Allowance {
                jumps: WARP_JUMPS,
                executed: self.executed,
                until: look,
                stop: limits.stop,
            };
            let block = &mut self.active[turn];
            let pass = if killed || self.executed >= config.fuel {
                let detail = if killed {
                    "the launch was ended"
                } else {
                    "out of fuel"
                };
                Pass::Stuck(detail)
            } else {
                block.round(launch, &mut cx, &mut allowance)
            };
            self.clock = cx.clock.max(self.clock);
            self.executed = allowance.executed;
            match pass {
                Pass::Ended => {
                    let mut block = self.active.swap_remove(turn);
                    self.keep_printed(&mut block);
                    self.fitted.push(block);
                    self.blocks += 1;
                    self.turn = 0;
                }
                // It is not the block that has spun.
                Pass::Spun if limits.stop.load(Ordering::Relaxed) => {}
                Pass::Spun => {
                    let block = &mut self.active[turn];
                    block.spins += 1;
                    if block.spins.is_multiple_of(BLOCK_ROUNDS) {
                        // Perhaps it waits for another block: let one run.
                        let room = self.active.len() < launch.resident(config.resident);
                        if !(room && self.admit(launch, config.order, next)) {
                            self.turn = (turn + 1) % self.active.len();
                        }
                    }
                }
                Pass::Interrupted => {}
                Pass::Stuck(detail) => {
                    let block = &self.active[turn];
                    return blame(launch, block, waiting(block), FaultKind::Timeout, detail);
                }
                Pass::Fault(warp, pc, noted) => {
                    let said = cx.said.take();
                    let mut turn = fault(launch, &self.active[turn], (warp, pc), noted);
                    if let (Turn::Fault(fault, _), Some(said)) = (&mut turn, said) {
                        fault.detail = said;
                    }
                    return turn;
                }
            }
            if !self.active.is_empty() && limits.are_over(self.executed, until) {
                return Turn::Budget;
            }
        }
    }
}

/// How one round over a block's warps ended.
enum Pass {
    Ended,
    Spun,
    Interrupted,
    Stuck(&'static str),
    Fault(usize, u32, Noted),
}

impl Block {
    /// Runs each warp until it waits or spins.
    fn round(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        allowance: &mut Allowance<'_>,
    ) -> Pass {
        let mut spun = false;
        let mut ran = false;
        for _ in 0..self.warps.len() {
            let warp = self.turn;
            self.turn = if warp + 1 == self.warps.len() {
                0
            } else {
                warp + 1
            };
            let ready = self.warps[warp]
                .splits
                .iter()
                .any(|split| matches!(split.state, State::Ready | State::Gathered));
            if !ready {
                continue;
            }
            ran = true;
            allowance.jumps = WARP_JUMPS;
            match self.run_warp(launch, cx, warp, allowance) {
                Stop::Waits => {}
                Stop::Spun => spun = true,
                Stop::Fault(pc) => {
                    let noted = cx.noted.take().unwrap_or(Noted {
                        kind: FaultKind::IllegalInstruction,
                        address: None,
                        lane: 0,
                        detail: "",
                    });
                    return Pass::Fault(warp, pc, noted);
                }
            }
            if spun && allowance.is_over() {
                // The next warp is next: this one may be waiting for it.
                return Pass::Spun;
            }
            if self.live > 0 && allowance.stop.load(Ordering::Relaxed) {
                return Pass::Interrupted;
            }
        }
        if self.live == 0 {
            return Pass::Ended;
        }
        if self.open_barriers(launch) || (ran && !spun) {
            return Pass::Interrupted;
        }
        if spun {
            return Pass::Spun;
        }
        if self.force() {
            return Pass::Interrupted;
        }
        Pass::Stuck("every thread waits for something that cannot happen")
    }
}

fn context<'m>(
    block: &mut Block,
    launch: &'m Launch,
    memory: &'m Memory,
    clock: u64,
) -> Context<'m> {
    let words = launch.words.as_ptr().cast::<u8>().cast_mut();
    let doubles = launch.doubles.as_ptr().cast::<u8>().cast_mut();
    Context {
        words: [words, words],
        doubles: [doubles, doubles],
        preds: std::ptr::null_mut(),
        preds_mask: launch.preds_mask,
        operands: &launch.program.decoded.operands,
        carry: 0,
        memory,
        live: Live {
            start: 1,
            end: 1,
            writable: false,
        },
        delta: memory.delta(),
        shared: block.shared.as_mut_ptr().cast(),
        shared_len: u64::from(launch.shared),
        local: std::ptr::null_mut(),
        local_len: 0,
        local_frame: 0,
        params: launch.params.as_ptr(),
        params_len: launch.params.len() as u64,
        clock,
        noted: None,
        spent: 0,
        said: None,
        #[cfg(all(target_arch = "x86_64", unix))]
        sites: Default::default(),
    }
}

/// A thread that waits, for the blame of a timeout: warp, lane, instruction.
fn waiting(block: &Block) -> (usize, u32, u32) {
    for (warp, state) in block.warps.iter().enumerate() {
        if let Some(split) = state.splits.first() {
            return (warp, split.mask.trailing_zeros(), split.pc);
        }
    }
    (0, 0, 0)
}

fn blame(
    launch: &Launch,
    block: &Block,
    (warp, lane, pc): (usize, u32, u32),
    kind: FaultKind,
    detail: &str,
) -> Turn {
    let noted = Noted {
        kind,
        address: None,
        lane,
        detail: "",
    };
    let mut turn = fault(launch, block, (warp, pc), noted);
    if let Turn::Fault(fault, _) = &mut turn {
        detail.clone_into(&mut fault.detail);
    }
    turn
}

fn fault(launch: &Launch, block: &Block, (warp, pc): (usize, u32), noted: Noted) -> Turn {
    let program = &launch.program;
    let line = program
        .steps
        .get(pc as usize)
        .map_or(0, |step| step.inst.line);
    let fault = Fault {
        kind: noted.kind,
        kernel: program.decoded.entries[launch.entry].name.clone(),
        line,
        block: block.ctaid,
        thread: launch.thread(warp, noted.lane),
        address: noted.address,
        detail: noted.detail.to_owned(),
    };
    Turn::Fault(Box::new(fault), block.index)
}
