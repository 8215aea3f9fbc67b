//! One session: its memory, its modules, its slices and the launch it is in.

use super::failure::{fault_failure, launch_failure, memory_failure};
use super::{Cache, Prepared};
use crate::engine::runtime::Printed;
use crate::engine::{Engine, Grid, Instance, Progress, Running};
use crate::error::MemoryError;
use crate::memory::Memory;
use bus_schemas::{Code, Failure, KernelKey, Launch, ModuleHash, Op, OpNumber, OpRef, Window};
use device::{Completion, Interrupt, OpResult, Slice};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Warp instructions per thread between two looks at the time: about half a millisecond.
const STRIDE: u64 = 50_000;

/// The watchdog counts processor time: on a busy machine a kernel is no worse for it. Time that
/// passes without counts after so many times as much.
const WAITING: u32 = 20;

/// What a session runs with.
pub(super) struct Run<'d> {
    pub(super) engine: &'d Engine,
    pub(super) modules: &'d Cache,
    pub(super) watchdog: Duration,
    pub(super) threads: usize,
    /// Bytes this session may hold, given what the others hold.
    pub(super) room: u64,
    /// When to stop.
    pub(super) until: Instant,
    /// What says to stop before.
    pub(super) interrupt: &'d Interrupt,
}

impl Run<'_> {
    /// Whether to park what is in progress.
    pub(super) fn is_over(&self) -> bool {
        self.interrupt.is_raised() || Instant::now() >= self.until
    }
}

/// How far a session came.
pub(super) enum Advance {
    /// Its first slice is done.
    Completed(Completion),
    /// The time was up.
    Parked,
}

/// A slice in progress.
#[derive(Debug)]
pub(super) struct Progressing {
    pub(super) slice: Slice,
    /// Next span, and next op in it.
    at: (usize, usize),
    next: OpNumber,
    completion: Completion,
    /// Time of its own, up to the last park.
    spent: Duration,
    /// When the op before ended, if it was a launch: then the next one began. Reading the clock
    /// costs as much as a tenth of a small launch.
    mark: Option<Instant>,
    /// Bytes that the op in progress has moved.
    pub(super) moved: u64,
    /// What a copy to the host has read.
    pub(super) out: Vec<u8>,
}

/// A launch in progress.
#[derive(Debug)]
struct Launched {
    running: Box<Running>,
    key: KernelKey,
    blocks: u64,
    spent: Duration,
}

/// A session's side of the device.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) window: Window,
    pub(super) memory: Memory,
    slots: BTreeMap<u32, (Instance, Prepared)>,
    slices: VecDeque<Slice>,
    current: Option<Progressing>,
    launched: Option<Launched>,
    /// The last launch's key: most launches are like the one before.
    last: Option<(Launch, KernelKey)>,
    /// What its kernels printed since the last sync.
    printed: Printed,
    /// What ended it; later slices fail the same way.
    fault: Option<Failure>,
}

/// Whether an op is done.
pub(super) enum Step {
    Done,
    Parked,
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Session {
    pub(super) fn open(window: Window, capacity: u64) -> Result<Self, Failure> {
        let memory = Memory::new(window.base, window.size, capacity).map_err(memory_failure)?;
        Ok(Self {
            window,
            memory,
            slots: BTreeMap::new(),
            slices: VecDeque::new(),
            current: None,
            launched: None,
            last: None,
            printed: Printed::default(),
            fault: None,
        })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.slices.is_empty()
    }

    pub(super) fn submit(&mut self, slice: Slice) {
        self.slices.push_back(slice);
    }

    /// How urgent it is: as the most urgent of its slices, for they run in order.
    pub(super) fn priority(&self) -> u8 {
        let current = self.current.iter().map(|progress| &progress.slice);
        let priorities = current.chain(&self.slices).map(|slice| slice.priority);
        priorities.min().unwrap_or(u8::MAX)
    }

    /// Bytes it holds.
    pub(super) fn resident(&self) -> u64 {
        self.memory.used()
    }

    /// Runs its first slice until that is done or the time is up.
    pub(super) fn advance(&mut self, run: &Run<'_>) -> Advance {
        let started = Instant::now();
        let Some(mut progress) = self.current.take().or_else(|| {
            let slice = self.slices.pop_front()?;
            let completion = Completion {
                position: slice.position,
                session: slice.session,
                began: Some(started),
                ..Completion::default()
            };
            let next = slice.first;
            Some(Progressing {
                slice,
                at: (0, 0),
                next,
                completion,
                spent: Duration::ZERO,
                mark: None,
                moved: 0,
                out: Vec::new(),
            })
        }) else {
            return Advance::Parked;
        };
        let ended = self.ops(run, &mut progress, started);
        progress.spent += started.elapsed();
        match ended {
            Ok(Step::Parked) => {
                progress.mark = None;
                self.current = Some(progress);
                return Advance::Parked;
            }
            Ok(Step::Done) => {}
            Err(failure) => {
                self.launched = None;
                self.fault = Some(failure.clone());
                progress.completion.printed = std::mem::take(&mut self.printed).concat();
                progress.completion.fault = Some((progress.next, failure));
            }
        }
        let mut completion = progress.completion;
        completion.device_ns = nanos(progress.spent);
        completion.resident = self.resident();
        Advance::Completed(completion)
    }

    fn ops(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        started: Instant,
    ) -> Result<Step, Failure> {
        if let Some(failure) = &self.fault {
            return Err(failure.clone());
        }
        let counts = progress
            .slice
            .spans
            .iter()
            .map(|span| u64::from(span.count()));
        let end = progress.slice.first + counts.sum::<u64>();
        while let Some(span) = progress.slice.spans.get(progress.at.0).cloned() {
            for op in span.ops().iter().skip(progress.at.1) {
                if let Some((number, failure)) = &progress.slice.fail_at
                    && *number == progress.next
                {
                    return Err(failure.clone());
                }
                if let Step::Parked = self.op(run, progress, &op, started)? {
                    return Ok(Step::Parked);
                }
                progress.at.1 += 1;
                progress.next += 1;
                if run.interrupt.is_raised() && progress.next < end {
                    return Ok(Step::Parked);
                }
            }
            progress.at = (progress.at.0 + 1, 0);
        }
        Ok(Step::Done)
    }

    fn op(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        op: &OpRef<'_>,
        started: Instant,
    ) -> Result<Step, Failure> {
        let mut moved = Step::Done;
        if !matches!(op.op, Op::Launch(_)) {
            progress.mark = None;
        }
        match op.op {
            Op::Alloc { address, bytes } => self.alloc(run, address, bytes)?,
            Op::Free { address } => moved = self.free(run, progress, address)?,
            Op::CopyIn {
                address,
                bytes,
                transfer,
            } => moved = self.copy_in(run, progress, op, (address, bytes, transfer))?,
            Op::CopyOut { address, bytes } => {
                moved = self.copy_out(run, progress, (address, bytes))?;
            }
            Op::Copy { to, from, bytes } => moved = self.copy(run, progress, (to, from, bytes))?,
            Op::Set {
                address,
                count,
                value,
                width,
            } => moved = self.set(run, progress, (address, value), (count, width))?,
            Op::LoadModule { slot, hash } => self.load(run, slot, hash)?,
            Op::UnloadModule { slot } => {
                self.last = None;
                if let Some((instance, _)) = self.slots.remove(&slot) {
                    instance.release(&mut self.memory);
                }
            }
            Op::Launch(launch) => return self.launch(run, progress, &launch, op.payload),
            Op::Event { .. } | Op::Sync => {}
        }
        if let Step::Parked = moved {
            return Ok(moved);
        }
        if op.op.has_result() {
            let out = matches!(op.op, Op::CopyOut { .. });
            let device_ns = nanos(progress.spent + started.elapsed());
            let printed = match op.op {
                Op::Sync => std::mem::take(&mut self.printed).concat(),
                _ => Vec::new(),
            };
            let result = OpResult {
                op: progress.next,
                bytes: out.then(|| std::mem::take(&mut progress.out)),
                printed,
                device_ns,
            };
            progress.completion.results.push(result);
        }
        Ok(Step::Done)
    }

    fn alloc(&mut self, run: &Run<'_>, address: u64, bytes: u64) -> Result<(), Failure> {
        if !self.window.contains(address, bytes) || !address.is_multiple_of(256) {
            return Err(memory_failure(MemoryError::Occupied {
                addr: address,
                len: bytes,
            }));
        }
        if self.resident().saturating_add(bytes) > run.room {
            return Err(memory_failure(MemoryError::OutOfMemory(bytes)));
        }
        self.memory.alloc(address, bytes).map_err(memory_failure)
    }

    fn load(&mut self, run: &Run<'_>, slot: u32, hash: ModuleHash) -> Result<(), Failure> {
        let Some(prepared) = run.modules.get(hash) else {
            let detail = format!("module {hash} was not staged on this worker");
            return Err(Failure::new(Code::BadModule, detail));
        };
        if let Some((old, _)) = self.slots.remove(&slot) {
            old.release(&mut self.memory);
        }
        let instance =
            Instance::new(&prepared.program, &mut self.memory).map_err(memory_failure)?;
        if self.resident() > run.room {
            let bytes = self.resident() - run.room;
            instance.release(&mut self.memory);
            return Err(memory_failure(MemoryError::OutOfMemory(bytes)));
        }
        self.last = None;
        self.slots.insert(slot, (instance, prepared));
        Ok(())
    }

    /// Starts a launch, or goes on with the one that was parked.
    fn launch(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        launch: &Launch,
        params: &[u8],
    ) -> Result<Step, Failure> {
        let begun = progress.mark.take().unwrap_or_else(Instant::now);
        let mut launched = match self.launched.take() {
            Some(launched) => launched,
            None => self.start(run, launch, params)?,
        };
        let kill = AtomicBool::new(false);
        let stride = STRIDE * run.threads as u64;
        let ended = loop {
            let stop = run.interrupt.flag();
            let memory = &mut self.memory;
            match launched.running.step_unless(memory, stride, &kill, stop) {
                Err(fault) => {
                    launched.running.take_printed(&mut self.printed);
                    run.engine.recycle(launched.running);
                    return Err(fault_failure(&fault));
                }
                Ok(Progress::Done(_)) => break Instant::now(),
                Ok(Progress::Running) => {}
            }
            let now = Instant::now();
            let time = launched.spent + now.duration_since(begun);
            let exceeded = launched.running.busy() > run.watchdog;
            if exceeded || time > run.watchdog.saturating_mul(WAITING) {
                // The next look sees the flag and blames the thread that was running.
                kill.store(true, std::sync::atomic::Ordering::Relaxed);
            } else if now >= run.until || run.interrupt.is_raised() {
                launched.spent += now.duration_since(begun);
                self.launched = Some(launched);
                return Ok(Step::Parked);
            }
        };
        progress.mark = Some(ended);
        launched.running.take_printed(&mut self.printed);
        let time = nanos(launched.spent + ended.duration_since(begun));
        let sms = launched.blocks.min(run.threads as u64).max(1);
        progress.completion.count(launched.key, time, sms);
        run.engine.recycle(launched.running);
        Ok(Step::Done)
    }

    fn start(
        &mut self,
        run: &Run<'_>,
        launch: &Launch,
        params: &[u8],
    ) -> Result<Launched, Failure> {
        let Some((instance, prepared)) = self.slots.get(&launch.module) else {
            let detail = format!("no module in slot {}", launch.module);
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        let function = launch.function as usize;
        let Some(fingerprint) = prepared.fingerprints.get(function) else {
            let detail = format!("the module has no function number {function}");
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        let key = match self.last {
            Some((last, key)) if last == *launch => key,
            _ => fingerprint.key(launch.grid, launch.block, launch.shared),
        };
        self.last = Some((*launch, key));
        let grid = Grid {
            grid: launch.grid,
            block: launch.block,
            shared: launch.shared,
        };
        let running = run
            .engine
            .start(instance, function, grid, params)
            .map_err(launch_failure)?;
        let blocks = launch.grid.iter().map(|n| u64::from(*n)).product();
        Ok(Launched {
            running,
            key,
            blocks,
            spent: Duration::ZERO,
        })
    }
}
