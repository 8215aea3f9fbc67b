//! One thread's share of a launch: runs its blocks in turn, until they end or it must stop.

use super::block::{Block, Round, Split, State};
use super::config::{BlockOrder, EngineConfig};
use super::context::{Context, LIVES, Noted};
use super::launch::Launch;
use super::printed::Printed;
use super::warp_budget::{Stop, WarpBudget};
use crate::error::{Fault, FaultKind};
use crate::memory::{Live, Memory};
use bus_schemas::SourceLine;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// Backward jumps of one warp before another warp of its block runs.
const WARP_JUMPS: u32 = 1024;
/// Rounds over a block's warps that do not end it, before another block runs.
const BLOCK_ROUNDS: u32 = 4;
/// Warp instructions between two checks of the kill flag.
const LOOK: u64 = 1 << 14;
/// Turns of blocks between two checks of the time, even if they ran fewer instructions.
const TURNS: u32 = 16;
/// Maximum warp instructions that a thread spends on earlier blocks after a fault of another one;
/// they may be waiting for that one.
const DRAIN: u64 = 1 << 24;

/// One thread's blocks. They are boxed, because a small launch would spend most of its time moving
/// them.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "a block moves from list to list, and is hundreds of bytes"
)]
pub(super) struct BlockRunner {
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
    /// Output of its blocks by block, with their places.
    pub(super) printed: BTreeMap<u64, (u64, Printed)>,
    pub(super) printed_bytes: usize,
    /// The fault of the earliest faulted block of this thread, and that block's place.
    pub(super) fault: Option<(Box<Fault>, u64)>,
    /// Instructions executed when it first noticed a faulted block.
    draining: Option<u64>,
}

/// The blocks of a launch, shared by all its threads.
#[derive(Debug)]
pub(super) struct BlockQueue {
    /// The next block to begin.
    next: AtomicU64,
    /// Place of the first faulted block. Blocks before it run to their end, and blocks after it are
    /// ignored. So the reported fault and the output before it do not depend on timing.
    end: AtomicU64,
    /// True if several threads take blocks.
    shared: bool,
}

impl BlockQueue {
    /// A queue with no block started yet.
    pub(super) fn new(shared: bool) -> Self {
        Self {
            next: AtomicU64::new(0),
            end: AtomicU64::new(u64::MAX),
            shared,
        }
    }

    /// The place of the last block that counts.
    pub(super) fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    fn has_fault(&self) -> bool {
        self.end() != u64::MAX
    }

    fn is_left(&self, launch: &Launch) -> bool {
        let end = self.end().min(launch.blocks);
        self.next.load(Ordering::Relaxed) < end
    }

    /// Takes the next block.
    fn take(&self, launch: &Launch) -> Option<u64> {
        if !self.is_left(launch) {
            return None;
        }
        let place = if self.shared {
            self.next.fetch_add(1, Ordering::Relaxed)
        } else {
            let place = self.next.load(Ordering::Relaxed);
            self.next.store(place + 1, Ordering::Relaxed);
            place
        };
        (place < launch.blocks).then_some(place)
    }
}

/// Limits of a worker's turn.
#[derive(Clone, Copy)]
pub(super) struct Limits<'a> {
    /// Warp instructions.
    pub(super) budget: u64,
    /// Ends the launch.
    pub(super) kill: &'a AtomicBool,
    /// Parks the launch.
    pub(super) stop: &'a AtomicBool,
    /// Also parks it, because few instructions may take long.
    pub(super) until: Option<Instant>,
    /// Maximum number of blocks in progress on a thread.
    pub(super) resident: usize,
}

impl Limits<'_> {
    fn are_over(&self, executed: u64, until: u64) -> bool {
        executed >= until || self.stop.load(Ordering::Relaxed)
    }
}

/// Result of a worker's turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Its blocks have ended, by success or by a fault.
    Done,
    Budget,
}

impl BlockRunner {
    pub(super) fn reset(&mut self) {
        self.stale.append(&mut self.fitted);
        self.restart();
    }

    /// As `reset`, if the next launch can use the scratch unchanged.
    pub(super) fn restart(&mut self) {
        self.stale.append(&mut self.active);
        self.turn = 0;
        self.clock = 0;
        self.executed = 0;
        self.blocks = 0;
        if !self.printed.is_empty() {
            self.printed.clear();
        }
        self.printed_bytes = 0;
        self.fault = None;
        self.draining = None;
    }

    /// Bytes of memory that its blocks take.
    pub(super) fn bytes(&self) -> u64 {
        let lists = [&self.active, &self.fitted, &self.stale];
        let blocks = lists.into_iter().flatten();
        blocks.map(|block| block.bytes()).sum()
    }

    /// Keeps the output of a block; output of earlier blocks is dropped beyond the limit of
    /// `Printed`.
    fn keep_printed(&mut self, block: &mut Block) {
        if block.printed.is_empty() {
            return;
        }
        let printed = std::mem::take(&mut block.printed);
        self.printed_bytes += printed.bytes();
        self.printed.insert(block.index, (block.place, printed));
        while let Some(first) = self.printed.first_entry()
            && self.printed_bytes - first.get().1.bytes() >= Printed::LIMIT
        {
            self.printed_bytes -= first.remove().1.bytes();
        }
    }

    /// Removes a block from those in progress.
    fn retire(&mut self, at: usize) {
        let mut block = self.active.swap_remove(at);
        self.keep_printed(&mut block);
        self.fitted.push(block);
        self.turn = 0;
    }

    /// Ends a block that has faulted, and all blocks after it.
    fn faulted(&mut self, at: usize, queue: &BlockQueue, fault: Box<Fault>) {
        let place = self.active[at].place;
        self.retire(at);
        queue.end.fetch_min(place, Ordering::Relaxed);
        if self.fault.as_ref().is_none_or(|(_, known)| place < *known) {
            self.fault = Some((fault, place));
        }
    }

    /// After a fault, only the blocks before the faulted one continue.
    fn drain(&mut self, queue: &BlockQueue) {
        if !queue.has_fault() {
            return;
        }
        let since = *self.draining.get_or_insert(self.executed);
        let enough = self.executed - since >= DRAIN;
        let end = queue.end();
        while let Some(at) = self.active.iter().position(|it| enough || it.place > end) {
            self.retire(at);
        }
    }

    /// Starts the grid's next block, if any.
    fn admit(&mut self, launch: &Launch, order: BlockOrder, queue: &BlockQueue) -> bool {
        let Some(place) = queue.take(launch) else {
            return false;
        };
        let mut block = self.fitted.pop().unwrap_or_else(|| {
            let mut block = self.stale.pop().unwrap_or_default();
            block.fit(launch);
            block
        });
        block.start(launch, order.index(place, launch.blocks));
        block.place = place;
        self.active.push(block);
        self.turn = self.active.len() - 1;
        true
    }

    pub(super) fn run(
        &mut self,
        launch: &Launch,
        config: &EngineConfig,
        memory: &Memory,
        queue: &BlockQueue,
        limits: &Limits<'_>,
    ) -> Turn {
        let until = self.executed.saturating_add(limits.budget);
        let mut cx = context(launch, memory, self.clock);
        let mut late = false;
        let (mut looked, mut turns) = (self.executed, 0);
        loop {
            self.drain(queue);
            if self.active.is_empty() {
                let killed = limits.kill.load(Ordering::Relaxed);
                let over = late || limits.are_over(self.executed, until);
                if queue.is_left(launch) && !killed && over {
                    return Turn::Budget;
                }
                if !self.admit(launch, config.order, queue) {
                    return Turn::Done;
                }
            }
            let turn = self.turn;
            let killed = limits.kill.load(Ordering::Relaxed);
            let look = until.min(self.executed.saturating_add(LOOK));
            let mut budget = WarpBudget {
                jumps: WARP_JUMPS,
                executed: self.executed,
                until: look,
                stop: limits.stop,
                until_time: limits.until,
            };
            let block = &mut self.active[turn];
            cx.shared = block.shared.as_mut_ptr().cast();
            let end = if killed {
                RoundEnd::Stuck("the launch was ended")
            } else if self.executed >= config.fuel {
                RoundEnd::Stuck("out of fuel")
            } else {
                block.round(launch, &mut cx, &mut budget)
            };
            self.clock = cx.clock;
            self.executed = budget.executed;
            let interrupted = matches!(end, RoundEnd::Interrupted);
            if let RoundEnd::Spun = end {
                // It may wait for another block, so run one.
                let block = &mut self.active[turn];
                block.spins += 1;
                let others = block.spins.is_multiple_of(BLOCK_ROUNDS);
                let room = others && self.active.len() < limits.resident;
                if others && !(room && self.admit(launch, config.order, queue)) {
                    self.turn = (turn + 1) % self.active.len();
                }
            } else {
                self.conclude(launch, queue, end, cx.noted_detail.take());
            }
            turns += 1;
            if self.executed - looked >= LOOK || turns >= TURNS || interrupted {
                late |= budget.is_late();
                (looked, turns) = (self.executed, 0);
            }
            if !self.active.is_empty() && (late || limits.are_over(self.executed, until)) {
                return Turn::Budget;
            }
        }
    }
}

impl BlockRunner {
    /// Removes the current block from those in progress if its round ended it. `detail` is the
    /// detail of its fault, if that depends on the run.
    fn conclude(
        &mut self,
        launch: &Launch,
        queue: &BlockQueue,
        end: RoundEnd,
        detail: Option<String>,
    ) {
        let turn = self.turn;
        match end {
            RoundEnd::Ended => {
                self.retire(turn);
                self.blocks += 1;
            }
            RoundEnd::Spun | RoundEnd::Interrupted => {}
            RoundEnd::Stuck(_) if queue.has_fault() => self.retire(turn),
            RoundEnd::Stuck(detail) => {
                let fault = stuck(launch, &self.active[turn], detail);
                self.faulted(turn, queue, fault);
            }
            RoundEnd::Fault(warp, pc, noted) => {
                let mut fault = fault(launch, &self.active[turn], (warp, pc), noted);
                if let Some(detail) = detail {
                    fault.detail = detail;
                }
                self.faulted(turn, queue, fault);
            }
        }
    }
}

/// Result of one round over a block's warps.
enum RoundEnd {
    Ended,
    Spun,
    Interrupted,
    Stuck(&'static str),
    Fault(usize, u32, Noted),
}

impl Block {
    /// Runs each warp until it waits or spins. An interrupted round resumes where it was, so that
    /// the order in which a block's warps run does not depend on interrupts.
    fn round(
        &mut self,
        launch: &Launch,
        cx: &mut Context<'_>,
        budget: &mut WarpBudget<'_>,
    ) -> RoundEnd {
        while self.round.ran < self.warps.len() {
            let warp = self.round.ran;
            let ready = self.warps[warp]
                .splits
                .iter()
                .any(|split| matches!(split.state, State::Ready | State::Gathered));
            if ready {
                if !self.is_cleared(launch, warp, budget) {
                    return RoundEnd::Interrupted;
                }
                self.round.moved = true;
                budget.jumps = match std::mem::take(&mut self.round.jumps) {
                    0 => WARP_JUMPS,
                    left => left,
                };
                match self.run_warp(launch, cx, warp, budget) {
                    Stop::Waits => {}
                    Stop::Spun if budget.jumps > 0 => {
                        self.round.jumps = budget.jumps;
                        return RoundEnd::Interrupted;
                    }
                    Stop::Spun => self.round.spun = true,
                    Stop::Fault(pc) => {
                        let noted = cx.take_noted().unwrap_or(Noted {
                            kind: FaultKind::IllegalInstruction,
                            address: None,
                            lane: 0,
                            access: None,
                            detail: "",
                        });
                        return RoundEnd::Fault(warp, pc, noted);
                    }
                }
            }
            self.round.ran += 1;
            let over = self.round.spun && budget.is_over();
            if ready && self.live > 0 && (over || budget.stop.load(Ordering::Relaxed)) {
                return RoundEnd::Interrupted;
            }
        }
        let Round { moved, spun, .. } = std::mem::take(&mut self.round);
        if self.live == 0 {
            return RoundEnd::Ended;
        }
        if self.open_barriers(launch) || (moved && !spun) {
            return RoundEnd::Interrupted;
        }
        if spun {
            return RoundEnd::Spun;
        }
        if self.force() {
            return RoundEnd::Interrupted;
        }
        RoundEnd::Stuck("every thread waits for something that cannot happen")
    }
}

/// An allocation that contains nothing.
const NOWHERE: Live = Live {
    start: 1,
    end: 1,
    writable: false,
};

/// The context of a launch's blocks, one after the other. It is made in place: inlined, it was made
/// elsewhere and copied, which took as long as an empty kernel.
#[inline(never)]
fn context<'m>(launch: &'m Launch, memory: &'m Memory, clock: u64) -> Context<'m> {
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
        live: NOWHERE,
        lives: [NOWHERE; LIVES],
        delta: memory.delta(),
        shared: std::ptr::null_mut(),
        shared_len: u64::from(launch.shared),
        local: std::ptr::null_mut(),
        local_len: 0,
        local_frame: 0,
        params: launch.params.as_ptr(),
        params_len: launch.params.len() as u64,
        clock,
        noted: None,
        spent: 0,
        noted_detail: None,
        #[cfg(all(target_arch = "x86_64", unix))]
        jumps: 0,
        #[cfg(all(target_arch = "x86_64", unix))]
        executed: 0,
        #[cfg(all(target_arch = "x86_64", unix))]
        until: 0,
        #[cfg(all(target_arch = "x86_64", unix))]
        stop: std::ptr::null(),
        #[cfg(all(target_arch = "x86_64", unix))]
        sites: Default::default(),
    }
}

/// A waiting thread, to report for a timeout: warp, lane, instruction.
fn waiting(block: &Block) -> (usize, u32, u32) {
    for (warp, state) in block.warps.iter().enumerate() {
        let left = |split: &&Split| split.state != State::Ended;
        if let Some(split) = state.splits.iter().find(left) {
            return (warp, split.mask.trailing_zeros(), split.pc);
        }
    }
    (0, 0, 0)
}

/// The fault of a block that was ended while it waited, or that cannot continue.
fn stuck(launch: &Launch, block: &Block, detail: &str) -> Box<Fault> {
    let (warp, lane, pc) = waiting(block);
    let noted = Noted {
        kind: FaultKind::Timeout,
        address: None,
        lane,
        access: None,
        detail: "",
    };
    let mut fault = fault(launch, block, (warp, pc), noted);
    detail.clone_into(&mut fault.detail);
    fault
}

fn fault(launch: &Launch, block: &Block, (warp, pc): (usize, u32), noted: Noted) -> Box<Fault> {
    let program = &launch.program;
    let line = program
        .steps
        .get(pc as usize)
        .map_or(0, |step| step.inst.line);
    let source = program.decoded.lines.find(line);
    Box::new(Fault {
        kind: noted.kind,
        kernel: program.decoded.entries[launch.entry].name.clone(),
        line,
        source: source.and_then(|(file, line)| SourceLine::new(file, line)),
        block: block.ctaid,
        thread: launch.thread(warp, noted.lane),
        address: noted.address,
        access: noted.access,
        detail: noted.detail.to_owned(),
    })
}
