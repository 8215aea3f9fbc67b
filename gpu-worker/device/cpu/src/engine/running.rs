//! A launch in progress: plain data that can stop after any number of instructions and resume.

use super::block_runner::{BlockQueue, BlockRunner, Limits, Turn};
use super::clock::thread_time;
use super::config::EngineConfig;
use super::instance::Instance;
use super::launch::{Grid, Launch};
use super::printed::Printed;
use crate::error::{Fault, LaunchError};
use crate::lane_value::{Doubles, Words};
use crate::memory::Memory;
use bus_schemas::limits::LAUNCH_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Launches of fewer blocks use one thread.
const FEW_BLOCKS: u64 = 8;

/// The cost of a launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of executed warp instructions.
    pub instructions: u64,
    /// Number of executed blocks.
    pub blocks: u64,
}

/// The progress of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The budget is used up, and the launch has not ended.
    Running,
    /// Every block has ended.
    Done(Stats),
}

/// A launch in progress.
pub struct Running {
    launch: Launch,
    /// Start of the instance's variables. Together with the parameters it determines the launch's
    /// constants.
    base: u64,
    config: EngineConfig,
    workers: Vec<BlockRunner>,
    threads: usize,
    /// Maximum number of blocks in progress on each.
    resident: usize,
    /// Maximum bytes of its blocks.
    room: u64,
    queue: BlockQueue,
    /// True if it has run before this step.
    again: bool,
    busy: Duration,
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// A flag that is never set.
static NEVER: AtomicBool = AtomicBool::new(false);

impl Running {
    pub(crate) fn new(
        config: EngineConfig,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
        room: u64,
    ) -> Result<Self, LaunchError> {
        let launch = Launch::new(instance, entry, grid, params, Default::default())?;
        let mut running = Self {
            launch,
            base: instance.base,
            config,
            workers: Vec::new(),
            threads: 1,
            resident: 1,
            room,
            queue: BlockQueue::new(false),
            again: false,
            busy: Duration::ZERO,
        };
        running.begin(room)?;
        Ok(running)
    }

    /// Another launch in the buffers of this one, which has ended.
    pub(crate) fn renew(
        &mut self,
        instance: &Instance,
        entry: usize,
        grid: Grid,
        params: &[u8],
        room: u64,
    ) -> Result<(), LaunchError> {
        // Programs launch the same kernel repeatedly; then the constants are already right.
        if !self.is_of(instance, entry, grid, params) {
            let words: Vec<Words> = std::mem::take(&mut self.launch.words);
            let doubles: Vec<Doubles> = std::mem::take(&mut self.launch.doubles);
            self.launch = Launch::new(instance, entry, grid, params, (words, doubles))?;
            self.base = instance.base;
        }
        self.begin(room)
    }

    /// The same launch of the same instance once more after its end, perhaps with other parameters.
    pub(crate) fn again(&mut self, params: &[u8], room: u64) -> Result<(), LaunchError> {
        if room != self.room {
            let threads = self.threads;
            self.spread(room)?;
            if self.threads > threads {
                self.workers.iter_mut().for_each(BlockRunner::reset);
            }
        }
        if !is_same(&self.launch.params, params) {
            self.launch.set_params(params)?;
        }
        self.workers.iter_mut().for_each(BlockRunner::restart);
        self.rewind();
        Ok(())
    }

    /// True if it was made for exactly this launch.
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
            && self.base == instance.base
    }

    fn begin(&mut self, room: u64) -> Result<(), LaunchError> {
        self.spread(room)?;
        self.workers.iter_mut().for_each(BlockRunner::reset);
        self.rewind();
        Ok(())
    }

    /// Chooses the number of threads, and of blocks in progress on each, within the room.
    fn spread(&mut self, room: u64) -> Result<(), LaunchError> {
        let needed = self.launch.block_bytes().max(1);
        if needed > room {
            return Err(LaunchError::BlockMemory { needed, room });
        }
        let blocks = room.min(LAUNCH_BYTES) / needed;
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
        let few = self.launch.blocks < FEW_BLOCKS;
        let threads = if few { 1 } else { self.config.threads.max(1) };
        self.threads = blocks.clamp(1, threads);
        self.resident = (blocks / self.threads).clamp(1, self.config.resident.max(1));
        let workers = self.workers.len().max(self.threads);
        self.workers.resize_with(workers, BlockRunner::default);
        self.room = room;
        Ok(())
    }

    /// Bytes of memory of its blocks, including those of earlier launches in the same buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.workers.iter().map(BlockRunner::bytes).sum()
    }

    fn rewind(&mut self) {
        self.queue = BlockQueue::new(self.threads > 1);
        (self.again, self.busy) = (false, Duration::ZERO);
    }

    /// Runs about `budget` warp instructions per worker thread, or to the end. If `kill` is set,
    /// the launch ends as a timeout at the next check.
    ///
    /// # Errors
    /// The kernel's fault; the launch has then ended.
    pub fn step(
        &mut self,
        memory: &mut Memory,
        budget: u64,
        kill: &AtomicBool,
    ) -> Result<Progress, Box<Fault>> {
        self.step_unless(memory, budget, kill, &NEVER, None)
    }

    /// As [`Running::step`]. If `stop` is set, the launch is parked: each of its threads stops at
    /// its next backward jump, or after its current warp or block. It is also parked soon after
    /// `until`.
    ///
    /// # Errors
    /// As [`Running::step`].
    pub fn step_unless(
        &mut self,
        memory: &mut Memory,
        budget: u64,
        kill: &AtomicBool,
        stop: &AtomicBool,
        until: Option<Instant>,
    ) -> Result<Progress, Box<Fault>> {
        let memory = &*memory;
        let (launch, config, queue) = (&self.launch, &self.config, &self.queue);
        let limits = Limits {
            budget,
            kill,
            stop,
            until,
            resident: self.resident,
        };
        // Reading the clock costs as much as a small launch.
        let timed = self.again;
        let run = |worker: &mut BlockRunner| {
            let begun = timed.then(thread_time);
            let turn = worker.run(launch, config, memory, queue, &limits);
            let took = begun.map_or(Duration::ZERO, |begun| thread_time() - begun);
            (turn == Turn::Done, took)
        };
        let (done, took) = if self.threads == 1 {
            run(&mut self.workers[0])
        } else {
            let (own, others) = self.workers[..self.threads].split_at_mut(1);
            std::thread::scope(|scope| {
                let handles: Vec<_> = others
                    .iter_mut()
                    .map(|worker| scope.spawn(|| run(worker)))
                    .collect();
                // This thread runs its own share instead of waiting.
                let own = run(&mut own[0]);
                let joined = handles.into_iter().map(std::thread::ScopedJoinHandle::join);
                let turns = joined
                    .map(|turn| turn.unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                // Waits for all threads.
                turns.fold(own, |all, turn| (all.0 & turn.0, all.1.max(turn.1)))
            })
        };
        self.again = true;
        self.busy += took;
        if !done {
            return Ok(Progress::Running);
        }
        let faults = self.workers.iter_mut().filter_map(|it| it.fault.take());
        match faults.min_by_key(|(_, place)| *place) {
            Some((fault, _)) => Err(fault),
            None => Ok(Progress::Done(self.stats())),
        }
    }

    /// Appends the output of its ended blocks to `printed`, in the order of blocks. If one faulted,
    /// only its output and that of blocks that began before it.
    pub(crate) fn take_printed(&mut self, printed: &mut Printed) {
        if self.workers.iter().all(|worker| worker.printed.is_empty()) {
            return;
        }
        let mut all = BTreeMap::new();
        for worker in &mut self.workers {
            all.append(&mut worker.printed);
            worker.printed_bytes = 0;
        }
        let end = self.queue.end();
        let kept = all.into_values().filter(|(place, _)| *place <= end);
        kept.for_each(|(_, of)| printed.append(of));
    }

    /// Output of its ended blocks since the last call, in the order of blocks.
    pub fn printed(&mut self) -> Vec<u8> {
        let mut printed = Printed::default();
        self.take_printed(&mut printed);
        printed.concat()
    }

    /// Processor time of its busiest thread in each step, added up, except for the first step.
    pub fn busy(&self) -> Duration {
        self.busy
    }

    /// Its cost so far.
    pub fn stats(&self) -> Stats {
        Stats {
            instructions: self.workers.iter().map(|worker| worker.executed).sum(),
            blocks: self.workers.iter().map(|worker| worker.blocks).sum(),
        }
    }
}

/// True if two lists are equal. An empty comparison by `memcmp` costs a masked load from an invalid
/// address: a hundred nanoseconds on some processors.
fn is_same<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.len() == other.len() && (one.is_empty() || one == other)
}
