//! One session: its memory, its modules, its slices and the launch it is in.

use super::Prepared;
use crate::engine::runtime::Printed;
use crate::engine::{Engine, Grid, Instance, Progress, Running};
use crate::error::{Fault, FaultKind, LaunchError, MemoryError};
use crate::memory::Memory;
use bus_schemas::{Code, Failure, KernelKey, Launch, ModuleHash, Op, OpNumber, OpRef, Window};
use device::{Completion, OpResult, Slice};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Warp instructions per thread between two looks at the time: about half a millisecond.
const STRIDE: u64 = 50_000;

/// What a session runs with.
pub(super) struct Run<'d> {
    pub(super) engine: &'d Engine,
    pub(super) modules: &'d HashMap<ModuleHash, Prepared>,
    pub(super) watchdog: Duration,
    pub(super) threads: usize,
    /// Bytes this session may hold, given what the others hold.
    pub(super) room: u64,
    /// When to stop.
    pub(super) until: Instant,
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
struct Progressing {
    slice: Slice,
    /// Next span, and next op in it.
    at: (usize, usize),
    next: OpNumber,
    completion: Completion,
    /// Time of its own, up to the last park.
    spent: Duration,
    /// When the op before ended, if it was a launch: then the next one began. Reading the clock
    /// costs as much as a tenth of a small launch.
    mark: Option<Instant>,
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
    memory: Memory,
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
enum Step {
    Done,
    Parked,
}

fn memory_failure(error: MemoryError) -> Failure {
    let code = match error {
        MemoryError::IllegalAddress { .. } => Code::IllegalAddress,
        MemoryError::Misaligned(_) | MemoryError::Width(_) => Code::BadAddress,
        MemoryError::Occupied { .. } | MemoryError::NotAllocated(_) => Code::BadAddress,
        MemoryError::OutOfMemory(_) => Code::OutOfMemory,
    };
    Failure::new(code, error.to_string())
}

fn fault_failure(fault: &Fault) -> Failure {
    let code = match fault.kind {
        FaultKind::IllegalAddress => Code::IllegalAddress,
        FaultKind::Misaligned => Code::Misaligned,
        FaultKind::IllegalInstruction => Code::IllegalInstruction,
        FaultKind::Trap => Code::Trap,
        FaultKind::Assert => Code::Assert,
        FaultKind::Timeout => Code::Watchdog,
        FaultKind::StackOverflow => Code::StackOverflow,
    };
    Failure::new(code, fault.to_string())
}

fn launch_failure(error: LaunchError) -> Failure {
    let code = match &error {
        LaunchError::UnknownEntry(_) => Code::UnknownFunction,
        LaunchError::Grid(_) | LaunchError::Block(_) | LaunchError::Params { .. } => {
            Code::BadLaunch
        }
        LaunchError::BlockLimit { .. } | LaunchError::Shared(..) => Code::LaunchResources,
        LaunchError::Fault(fault) => return fault_failure(fault),
    };
    Failure::new(code, error.to_string())
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
            })
        }) else {
            return Advance::Parked;
        };
        let ended = self.ops(run, &mut progress, started);
        progress.spent += started.elapsed();
        match ended {
            Ok(Step::Parked) => {
                self.current = Some(progress);
                return Advance::Parked;
            }
            Ok(Step::Done) => {}
            Err(failure) => {
                self.launched = None;
                self.fault = Some(failure.clone());
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
        let mut bytes_out = None;
        if !matches!(op.op, Op::Launch(_)) {
            progress.mark = None;
        }
        match op.op {
            Op::Alloc { address, bytes } => self.alloc(run, address, bytes)?,
            Op::Free { address } => {
                if address >= self.memory.internal_base() {
                    return Err(memory_failure(MemoryError::NotAllocated(address)));
                }
                self.memory.free(address).map_err(memory_failure)?;
            }
            Op::CopyIn {
                address,
                bytes,
                transfer,
            } => {
                let staged = match transfer {
                    0 => op.payload,
                    id => {
                        let mut known = progress.slice.transfers.iter();
                        let found = known.find(|(known, _)| *known == id);
                        let Some((_, staged)) = found else {
                            let detail = format!("transfer {id} was not staged");
                            return Err(Failure::new(Code::Protocol, detail));
                        };
                        staged
                    }
                };
                if staged.len() as u64 != bytes {
                    let detail = format!("{} bytes given, {bytes} announced", staged.len());
                    return Err(Failure::new(Code::Protocol, detail));
                }
                self.memory.write(address, staged).map_err(memory_failure)?;
            }
            Op::CopyOut { address, bytes } => {
                // The range is checked before anything of its size is allocated.
                if !self.memory.contains(address, bytes) {
                    let error = MemoryError::IllegalAddress {
                        addr: address,
                        len: bytes,
                    };
                    return Err(memory_failure(error));
                }
                let mut out = vec![0; bytes as usize];
                self.memory
                    .read(address, &mut out)
                    .map_err(memory_failure)?;
                bytes_out = Some(out);
            }
            Op::Copy { to, from, bytes } => {
                self.memory.copy(to, from, bytes).map_err(memory_failure)?;
            }
            Op::Set {
                address,
                count,
                value,
                width,
            } => {
                let filled = self.memory.fill(address, value, u32::from(width), count);
                filled.map_err(memory_failure)?;
            }
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
        if op.op.has_result() {
            let device_ns = nanos(progress.spent + started.elapsed());
            let printed = match op.op {
                Op::Sync => std::mem::take(&mut self.printed).concat(),
                _ => Vec::new(),
            };
            let result = OpResult {
                op: progress.next,
                bytes: bytes_out,
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
        let Some(prepared) = run.modules.get(&hash) else {
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
        self.slots.insert(slot, (instance, prepared.clone()));
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
            match launched.running.step(&mut self.memory, stride, &kill) {
                Err(fault) => {
                    run.engine.recycle(launched.running);
                    return Err(fault_failure(&fault));
                }
                Ok(Progress::Done(_)) => break Instant::now(),
                Ok(Progress::Running) => {}
            }
            let now = Instant::now();
            if launched.spent + now.duration_since(begun) > run.watchdog {
                // The next look sees the flag and blames the thread that was running.
                kill.store(true, std::sync::atomic::Ordering::Relaxed);
            } else if now >= run.until {
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
