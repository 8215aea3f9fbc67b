//! One session: its memory, its modules, its slices and its current launch.

use super::exports::Exports;
use super::failure::{hopper, memory_failure};
use super::launched::{Launched, Streak};
use super::sharing::{Guest, Shares, Sharing};
use super::{Cache, Prepared};
use crate::engine::instance::Placement;
use crate::engine::runtime::Printed;
use crate::engine::{Engine, Instance};
use crate::error::MemoryError;
use crate::memory::{Memory, PhysicalMemory};
use bus_schemas::{
    EventTime, Failure, KernelKey, Launch, Op, OpNumber, OpRef, Parcel, ResultKind, SessionId,
    Spares, Window,
};
use device::{Completion, Interrupt, OpResult, SharingDomain, Slice};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The sessions of a device. All but the running one can be borrowed.
pub(super) type Sessions = BTreeMap<SessionId, RefCell<Session>>;

/// Environment of a running session.
pub(super) struct Run<'d> {
    pub(super) engine: &'d Engine,
    pub(super) modules: &'d Cache,
    pub(super) watchdog: Duration,
    pub(super) threads: usize,
    /// Maximum bytes this session may hold, given what the others hold.
    pub(super) room: u64,
    /// Time at which it must stop.
    pub(super) until: Instant,
    /// Time at which a launch must stop even if it has executed few instructions, because those can
    /// take long.
    pub(super) latest: Instant,
    /// Signal to stop earlier.
    pub(super) interrupt: &'d Interrupt,
    /// Time at which the device's clock began.
    pub(super) began: Instant,
    pub(super) spares: &'d Mutex<Spares>,
    /// State of sharing; the other sessions are `neighbours`.
    pub(super) sharing: &'d RefCell<Sharing>,
    /// Exports of sessions.
    pub(super) exports: &'d RefCell<Exports>,
    pub(super) neighbours: &'d Sessions,
}

impl Run<'_> {
    /// Spare buffers for transfers and answers.
    pub(super) fn spares(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if work in progress must be parked.
    pub(super) fn is_over(&self) -> bool {
        self.interrupt.is_raised() || Instant::now() >= self.until
    }
}

/// Ops between two checks for the end of the session's turn.
const TURNS: u64 = 8;

/// Result of running a session.
pub(super) enum Advance {
    /// Its first slice is complete.
    Completed(Completion),
    /// Its time was up.
    Parked,
}

/// A slice in progress.
#[derive(Debug)]
pub(super) struct Progressing {
    pub(super) slice: Slice,
    /// Next span, and next op in it.
    at: (usize, usize),
    pub(super) next: OpNumber,
    pub(super) completion: Completion,
    /// Its own run time up to the last park.
    spent: Duration,
    /// The streak of the last ops, if they were equal launches.
    pub(super) streak: Option<Streak>,
    /// The last launch that ended; an equal one reuses its buffers.
    pub(super) ended: Option<Box<Launched>>,
    /// Bytes that the op in progress has moved.
    pub(super) moved: u64,
    /// Bytes that a copy to the host has read.
    pub(super) out: Parcel,
}

/// State of a session on the device.
#[derive(Debug)]
pub(super) struct Session {
    id: SessionId,
    pub(super) window: Window,
    /// Sharing domain of the session, if any.
    domain: Option<SharingDomain>,
    pub(super) memory: Memory,
    pub(super) slots: BTreeMap<u32, (Instance, Prepared)>,
    /// The module that is being loaded.
    pub(super) loading: Option<(Placement, Prepared)>,
    slices: VecDeque<Slice>,
    current: Option<Progressing>,
    pub(super) launched: Option<Box<Launched>>,
    /// The last launch's key; most launches repeat the previous one.
    pub(super) last: Option<(Launch, KernelKey)>,
    /// Output of its kernels since the last sync.
    pub(super) printed: Printed,
    /// The fault that ended it; later slices fail the same way.
    pub(super) fault: Option<Failure>,
}

/// Result of an op: done, or parked.
pub(super) enum Step {
    Done,
    Parked,
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Shares for Session {
    /// Its state for sharing, if it may share.
    fn guest(&mut self) -> Option<Guest<'_>> {
        let (id, memory) = (self.id, &mut self.memory);
        self.domain.map(|domain| Guest { id, domain, memory })
    }
}

impl Session {
    pub(super) fn open(
        id: SessionId,
        window: Window,
        domain: Option<SharingDomain>,
        (physical, capacity): (Arc<PhysicalMemory>, u64),
    ) -> Result<Self, Failure> {
        let place = (window.base, window.size);
        let memory = Memory::within(physical, place, capacity).map_err(memory_failure)?;
        Ok(Self {
            id,
            window,
            domain,
            memory,
            slots: BTreeMap::new(),
            loading: None,
            slices: VecDeque::new(),
            current: None,
            launched: None,
            last: None,
            printed: Printed::default(),
            fault: None,
        })
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    pub(super) fn is_idle(&self) -> bool {
        self.current.is_none() && self.slices.is_empty()
    }

    pub(super) fn submit(&mut self, slice: Slice) {
        self.slices.push_back(slice);
    }

    /// Its urgency: that of the most urgent of its slices, because they run in order.
    pub(super) fn priority(&self) -> u8 {
        if self.fault.is_some() {
            // It runs no more code: its remaining work is only reported.
            return 0;
        }
        let current = self.current.iter().map(|progress| &progress.slice);
        let priorities = current.chain(&self.slices).map(|slice| slice.priority);
        priorities.min().unwrap_or(u8::MAX)
    }

    /// Bytes that it has allocated: its charge without sharing.
    pub(super) fn allocated(&self) -> u64 {
        self.memory.used()
    }

    /// Bytes that it is charged.
    pub(super) fn resident(&self, sharing: &Sharing) -> u64 {
        sharing.charge(self.id, self.allocated())
    }

    /// Ends its current and all later work: each of its slices completes with this failure.
    pub(super) fn stop(&mut self, failure: Failure) {
        self.drop_launch();
        self.fault.get_or_insert(failure);
    }

    /// Runs its first slice until it is complete or the time is up.
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
                streak: None,
                ended: None,
                moved: 0,
                out: Parcel::default(),
            })
        }) else {
            return Advance::Parked;
        };
        let ended = self.ops(run, &mut progress, started);
        progress.end_streak();
        progress.forget(run);
        progress.spent += started.elapsed();
        match ended {
            Ok(Step::Parked) => {
                self.current = Some(progress);
                return Advance::Parked;
            }
            Ok(Step::Done) => {}
            Err(failure) => {
                self.drop_launch();
                self.fault = Some(failure.clone());
                progress.completion.printed = std::mem::take(&mut self.printed).concat();
                progress.completion.fault = Some((progress.next, failure));
            }
        }
        let mut completion = progress.completion;
        completion.device_ns = nanos(progress.spent);
        completion.resident = self.resident(&run.sharing.borrow());
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
            let mut ops = span.ops().iter();
            if let Some(last) = progress.at.1.checked_sub(1) {
                // Skips the ops that ran before it was parked.
                ops.nth(last);
            }
            for op in ops {
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
                let look = progress.next.is_multiple_of(TURNS) && Instant::now() >= run.latest;
                if (run.interrupt.is_raised() || look) && progress.next < end {
                    return Ok(Step::Parked);
                }
            }
            progress.at = (progress.at.0 + 1, 0);
        }
        Ok(Step::Done)
    }

    /// Drops the launch in progress and its buffers.
    pub(super) fn drop_launch(&mut self) {
        if let Some(launched) = self.launched.take() {
            launched.drop_buffers();
        }
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
            progress.end_streak();
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
            Op::Move {
                to,
                from,
                bytes,
                keep,
            } => moved = self.relocate(run, progress, (to, from, bytes), keep)?,
            Op::Map { to, from, bytes } => self.map_memory(run, (to, from, bytes))?,
            Op::Set {
                address,
                count,
                value,
                width,
            } => moved = self.set(run, progress, (address, value), (count, width))?,
            Op::LoadModule { slot, hash } => {
                progress.forget(run);
                moved = self.load(run, progress, slot, hash)?;
            }
            Op::UnloadModule { slot } => {
                progress.forget(run);
                moved = self.unload(run, progress, slot)?;
            }
            Op::Launch(ref launch) => return self.launch(run, progress, launch, op.payload),
            Op::TensorMap { .. } => return Err(hopper()),
            Op::Symbols { slot } => progress.out = self.symbols(slot)?[..].into(),
            Op::Event { event, timed: true } => {
                let ns = nanos(run.began.elapsed());
                let time = EventTime { event, ns };
                progress.completion.events.push((progress.next, time));
            }
            Op::Event { timed: false, .. } | Op::Sync => {}
        }
        if let Step::Done = moved {
            let device_ns = nanos(progress.spent + started.elapsed());
            self.report(progress, &op.op, device_ns);
        }
        Ok(moved)
    }

    /// Adds the result of an op that has one.
    fn report(&mut self, progress: &mut Progressing, op: &Op, device_ns: u64) {
        let kind = match op {
            Op::Sync => ResultKind::Sync,
            Op::CopyOut { .. } => ResultKind::CopyOut,
            Op::Symbols { .. } => ResultKind::Symbols,
            _ => return,
        };
        let sync = kind == ResultKind::Sync;
        let printed = if sync {
            std::mem::take(&mut self.printed).concat()
        } else {
            Vec::new()
        };
        progress.completion.results.push(OpResult {
            op: progress.next,
            kind,
            bytes: (!sync).then(|| std::mem::take(&mut progress.out)),
            printed,
            device_ns,
        });
    }

    fn alloc(&mut self, run: &Run<'_>, address: u64, bytes: u64) -> Result<(), Failure> {
        if !self.window.contains(address, bytes) || !address.is_multiple_of(256) {
            return Err(memory_failure(MemoryError::Occupied {
                addr: address,
                len: bytes,
            }));
        }
        if self.allocated().saturating_add(bytes) > run.room {
            return Err(memory_failure(MemoryError::OutOfMemory(bytes)));
        }
        self.memory.alloc(address, bytes).map_err(memory_failure)
    }
}
