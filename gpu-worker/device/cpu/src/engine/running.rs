//! A launch in progress: plain data that can stop after any number of instructions and go on.

use super::block::{Block, Doubles, State, Words};
use super::context::{Context, Noted};
use super::launch::Launch;
use super::runtime::Printed;
use super::warp::{Allowance, Stop};
use super::{BlockOrder, EngineConfig, Grid, Instance, Stats};
use crate::error::{Fault, FaultKind, LaunchError};
use crate::memory::{Live, Memory};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Jumps back of one warp before another warp of its block runs.
const WARP_JUMPS: u32 = 1024;
/// Rounds over a block's warps without an end before another block runs.
const BLOCK_ROUNDS: u32 = 4;
/// Warp instructions between two looks at the kill flag.
const LOOK: u64 = 1 << 14;
/// Blocks below which one thread does.
const FEW_BLOCKS: u64 = 8;

/// How far a launch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The budget is used up; there is more to run.
    Running,
    /// Every block has ended.
    Done(Stats),
}

/// One thread's blocks. Boxed: a small launch would spend most of its time moving them.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "a block moves from list to list, and is hundreds of bytes"
)]
struct Worker {
    /// Blocks in progress, in turn.
    active: Vec<Box<Block>>,
    /// Scratch sized and cleared for this launch.
    fitted: Vec<Box<Block>>,
    /// Scratch of earlier launches.
    stale: Vec<Box<Block>>,
    turn: usize,
    clock: u64,
    executed: u64,
    blocks: u64,
    /// What its blocks printed, by block.
    printed: BTreeMap<u64, Printed>,
    printed_bytes: usize,
}

/// A launch in progress.
pub struct Running {
    launch: Launch,
    /// With the parameters, what the launch's constants were made of.
    globals: Vec<u64>,
    config: EngineConfig,
    workers: Vec<Worker>,
    threads: usize,
    next: AtomicU64,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

/// Nobody sets it.
static NEVER: AtomicBool = AtomicBool::new(false);

/// How long a worker runs.
#[derive(Clone, Copy)]
struct Limits<'a> {
    /// Warp instructions.
    budget: u64,
    /// Ends the launch.
    kill: &'a AtomicBool,
    /// Parks it.
    stop: &'a AtomicBool,
}

impl Limits<'_> {
    fn are_over(&self, executed: u64, until: u64) -> bool {
        executed >= until || self.stop.load(Ordering::Relaxed)
    }
}

/// How a worker's turn ended.
enum Turn {
    Done,
    Budget,
    Fault(Box<Fault>, u64),
}

impl Running {
    pub(crate) fn new(
        config: EngineConfig,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
    ) -> Result<Self, LaunchError> {
        let launch = Launch::new(instance, entry, grid, params, Default::default())?;
        let mut running = Self {
            launch,
            globals: instance.globals.clone(),
            config,
            workers: Vec::new(),
            threads: 1,
            next: AtomicU64::new(0),
        };
        running.begin();
        Ok(running)
    }

    /// Another launch in the buffers of this one, which has ended.
    pub(crate) fn renew(
        &mut self,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
    ) -> Result<(), LaunchError> {
        // Programs launch the same kernel again and again: then the constants are right already.
        if !self.is_of(instance, entry, grid, params) {
            let words: Vec<Words> = std::mem::take(&mut self.launch.words);
            let doubles: Vec<Doubles> = std::mem::take(&mut self.launch.doubles);
            self.launch = Launch::new(instance, entry, grid, params, (words, doubles))?;
            self.globals.clone_from(&instance.globals);
        }
        self.begin();
        Ok(())
    }

    /// Whether it was made for exactly this launch.
    fn is_of(&self, instance: &Instance, entry: usize, grid: Grid, params: &[u8]) -> bool {
        let launch = &self.launch;
        let shape = Grid {
            grid: launch.grid,
            block: launch.block,
            shared: launch.dynamic_shared,
        };
        Arc::ptr_eq(&launch.program, &instance.program)
            && launch.entry == entry
            && shape == grid
            && is_same(&launch.params, params)
            && is_same(&self.globals, &instance.globals)
    }

    fn begin(&mut self) {
        let few = self.launch.blocks < FEW_BLOCKS;
        self.threads = if few { 1 } else { self.config.threads.max(1) };
        let workers = self.workers.len().max(self.threads);
        self.workers.resize_with(workers, Worker::default);
        self.workers.iter_mut().for_each(Worker::reset);
        self.next = AtomicU64::new(0);
    }

    /// Runs about `budget` warp instructions (per worker thread) or to the end. A set `kill` ends
    /// the launch as a timeout at the next look.
    ///
    /// # Errors
    /// The kernel's fault; the launch is over then.
    pub fn step(
        &mut self,
        memory: &mut Memory,
        budget: u64,
        kill: &AtomicBool,
    ) -> Result<Progress, Box<Fault>> {
        self.step_unless(memory, budget, kill, &NEVER)
    }

    /// As [`Running::step`]. A set `stop` parks the launch: every thread of it stops at its next
    /// jump back, or behind the warp or block it is in.
    ///
    /// # Errors
    /// As [`Running::step`].
    pub fn step_unless(
        &mut self,
        memory: &mut Memory,
        budget: u64,
        kill: &AtomicBool,
        stop: &AtomicBool,
    ) -> Result<Progress, Box<Fault>> {
        let memory = &*memory;
        let (launch, config, next) = (&self.launch, self.config, &self.next);
        let limits = Limits { budget, kill, stop };
        let turns: Vec<Turn> = if self.threads == 1 {
            // No list on the heap for the common case of one.
            return match self.workers[0].run(launch, config, memory, next, limits) {
                Turn::Budget => Ok(Progress::Running),
                Turn::Fault(fault, _) => Err(fault),
                Turn::Done => Ok(Progress::Done(self.stats())),
            };
        } else {
            std::thread::scope(|scope| {
                let handles: Vec<_> = self.workers[..self.threads]
                    .iter_mut()
                    .map(|worker| {
                        scope.spawn(move || worker.run(launch, config, memory, next, limits))
                    })
                    .collect();
                let joined = handles.into_iter().map(std::thread::ScopedJoinHandle::join);
                joined
                    .map(|turn| turn.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                    .collect()
            })
        };
        let mut first: Option<(Box<Fault>, u64)> = None;
        let mut done = true;
        for turn in turns {
            match turn {
                Turn::Done => {}
                Turn::Budget => done = false,
                Turn::Fault(fault, block) => {
                    // The lowest block is blamed, so that the answer does not depend on timing
                    // where two faulted.
                    if first.as_ref().is_none_or(|(_, known)| block < *known) {
                        first = Some((fault, block));
                    }
                }
            }
        }
        match first {
            Some((fault, _)) => Err(fault),
            None if done => Ok(Progress::Done(self.stats())),
            None => Ok(Progress::Running),
        }
    }

    /// Moves what its ended blocks printed behind `printed`, in the order of blocks.
    pub(crate) fn take_printed(&mut self, printed: &mut Printed) {
        if self.workers.iter().all(|worker| worker.printed.is_empty()) {
            return;
        }
        let mut all = BTreeMap::new();
        for worker in &mut self.workers {
            all.append(&mut worker.printed);
            worker.printed_bytes = 0;
        }
        all.into_values().for_each(|of| printed.append(of));
    }

    /// What its ended blocks printed since the last call, in the order of blocks.
    pub fn printed(&mut self) -> Vec<u8> {
        let mut printed = Printed::default();
        self.take_printed(&mut printed);
        printed.concat()
    }

    /// What it has cost so far.
    pub fn stats(&self) -> Stats {
        Stats {
            instructions: self.workers.iter().map(|worker| worker.executed).sum(),
            blocks: self.workers.iter().map(|worker| worker.blocks).sum(),
        }
    }
}

impl Worker {
    fn reset(&mut self) {
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

    fn run(
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

/// Whether two lists are equal. Comparing nothing by way of `memcmp` costs a masked load from an
/// address that is none: a hundred nanoseconds on some processors.
fn is_same<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
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
        said: None,
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
