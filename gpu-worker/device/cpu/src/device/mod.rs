//! The CPU as a worker's device: module cache, sessions, slices in turn.
//!
//! One session runs at a time: the most urgent that has work; equals take turns of a quantum. Work
//! that exceeds the quantum, or that is preempted, is parked as plain data and resumes where it
//! was. A kernel stops at its next backward jump, a copy after the current piece. Before less
//! urgent work runs, the device waits for a session that is likely to return at once: see [`Feed`].

mod cache;
mod exchange;
mod exports;
mod failure;
mod launched;
mod launches;
mod maps;
mod model;
mod modules;
mod moves;
mod properties;
mod session;
mod sharing;
mod swapping;

use crate::engine::{Engine, EngineConfig};
use crate::lane_loop::Isa;
use crate::memory::PhysicalMemory;
use crate::shared::{Store, StoreKeeper};
use bus_schemas::{Code, Failure, ModuleHash, SessionId, Spares, Window};
use cache::{Cache, Prepared};
use device::{
    Compiler, Completion, Device, DeviceInfo, ExportMemory, Feed, HostKeeper, Interrupt, Keeper,
    Moved, PreparedModule, Recharged, SharingDomain, Slice, SwapUse, TenantNumber, Unwatched,
};
use device_swap::Away;
use exports::Exports;
pub use model::DeviceModel;
use session::{Advance, Session, Sessions};
use sharing::{Shares, Sharing};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The configuration of a CPU device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuConfig {
    /// Number of threads that run the blocks of one launch.
    pub threads: usize,
    /// Bytes that all sessions can allocate together.
    pub capacity: u64,
    /// Processor time after which a launch is ended. Twenty times as much elapsed time also ends
    /// it; parked time does not count.
    pub watchdog: Duration,
    /// Build target of modules: the interpreter's lane loops alone, or native code as well.
    pub isa: Isa,
    /// The GPU that the device reports to be.
    pub model: DeviceModel,
}

impl Default for CpuConfig {
    fn default() -> Self {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            threads,
            capacity: 4 << 30,
            watchdog: Duration::from_secs(10),
            isa: Isa::detect(),
            model: DeviceModel::default(),
        }
    }
}

/// Time that a session runs while others wait.
const QUANTUM: Duration = Duration::from_millis(2);
/// Maximum number of buffers of transfers and answers that are kept for reuse.
const SPARES: usize = 64;

/// PTX on the CPU, as a device.
#[derive(Debug)]
pub struct CpuDevice {
    info: DeviceInfo,
    config: CpuConfig,
    engine: Engine,
    modules: Arc<Cache>,
    /// Pages for its sessions' memory, or the host's error.
    physical: Result<Arc<PhysicalMemory>, Failure>,
    sessions: Sessions,
    /// Sessions that are swapped out or being moved.
    away: Away<Session>,
    /// Store of units that sessions share and of chunks that may be copied; `None` if the host does
    /// not support it.
    store: Option<Arc<Store>>,
    sharing: RefCell<Sharing>,
    exports: RefCell<Exports>,
    /// Sessions that have slices, in turn.
    turn: VecDeque<SessionId>,
    feed: Feed,
    interrupt: Arc<Interrupt>,
    /// Time at which its clock began.
    began: Instant,
    spares: Arc<Mutex<Spares>>,
}

impl CpuDevice {
    /// A device with no sessions.
    #[must_use]
    pub fn new(config: CpuConfig) -> Self {
        let (threads, isa) = (config.threads.max(1), config.isa);
        let engine = EngineConfig {
            threads,
            ..EngineConfig::default()
        };
        let mut properties = properties::of(threads, config.capacity);
        config.model.apply(&mut properties);
        properties.resident_blocks = u32::try_from(threads * engine.resident).unwrap_or(u32::MAX);
        let info = DeviceInfo {
            properties,
            units: u32::try_from(threads).unwrap_or(u32::MAX),
            capacity: config.capacity,
            preemptive: true,
            overlaps: false,
            blocks: (threads * engine.resident) as u64,
        };
        let store = Store::of(config.capacity);
        Self {
            info,
            config,
            engine: Engine::new(engine),
            modules: Arc::new(Cache::new(isa)),
            physical: PhysicalMemory::new().map(Arc::new).map_err(|error| {
                let detail = format!("the host gives no file in memory (memfd_create): {error}");
                Failure::new(Code::OutOfMemory, detail)
            }),
            sessions: Sessions::new(),
            away: Away::new(None),
            store,
            sharing: RefCell::default(),
            exports: RefCell::default(),
            turn: VecDeque::new(),
            feed: Feed::default(),
            interrupt: Arc::default(),
            began: Instant::now(),
            spares: Arc::new(Mutex::new(Spares::new(SPARES))),
        }
    }

    /// Returns the device, if the host can serve it; a device without host support opens no
    /// session.
    ///
    /// # Errors
    /// If the host does not support files in memory, or denies us one.
    pub fn usable(self) -> Result<Self, Failure> {
        match &self.physical {
            Ok(_) => Ok(self),
            Err(failure) => Err(failure.clone()),
        }
    }

    /// Position in the turn of the next session to run, and its urgency.
    fn next(&self) -> Option<(usize, u8)> {
        let priority = |session: &RefCell<Session>| session.borrow().priority();
        let urgency = |id| self.sessions.get(id).map_or(u8::MAX, priority);
        let urgencies = self.turn.iter().map(urgency).enumerate();
        urgencies.min_by_key(|(_, priority)| *priority)
    }

    /// Nanoseconds of its clock.
    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Waits while the feed holds this urgency back, until `end` or an interrupt. True if it may
    /// run now.
    fn may_run(&self, urgency: u8, end: Instant) -> bool {
        while !self.feed.gate(self.now()).admits(urgency) {
            if self.interrupt.is_raised() || Instant::now() >= end {
                return false;
            }
            // Sleeping would take longer than the wait; a process that needs the core gets it.
            std::thread::yield_now();
        }
        true
    }

    /// Lets a session run until `end` at most.
    fn advance(&mut self, id: SessionId, end: Instant, completions: &mut Vec<Completion>) {
        let others: u64 = {
            let other = self.sessions.iter().filter(|(other, _)| **other != id);
            other.map(|(_, session)| session.borrow().allocated()).sum()
        };
        let Some(session) = self.sessions.get(&id) else {
            return;
        };
        let mut session = session.borrow_mut();
        let begun = self.sharing.borrow().shares(id).then(Instant::now);
        let now = Instant::now();
        let until = match self.turn.is_empty() {
            true => end,
            false => end.min(now + QUANTUM),
        };
        let latest = now + QUANTUM;
        let run = session::Run {
            engine: &self.engine,
            modules: &self.modules,
            watchdog: self.config.watchdog,
            threads: self.config.threads.max(1),
            room: self
                .info
                .capacity
                .saturating_sub(others + self.away.moving()),
            until,
            latest,
            interrupt: &self.interrupt,
            began: self.began,
            spares: &self.spares,
            sharing: &self.sharing,
            exports: &self.exports,
            neighbours: &self.sessions,
        };
        let advance = session.advance(&run);
        if let (Some(begun), Some(mut guest)) = (begun, session.guest()) {
            let ran = session::nanos(begun.elapsed());
            self.sharing.borrow_mut().ran(&mut guest, ran);
        }
        if !session.is_idle() {
            self.turn.push_back(id);
        }
        if let Advance::Completed(completion) = advance {
            let answered = !completion.results.is_empty();
            self.feed.ended(self.now(), id, answered);
            completions.push(completion);
        }
    }
}

impl Device for CpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn open(
        &mut self,
        session: SessionId,
        window: Window,
        domain: Option<SharingDomain>,
    ) -> Result<(), Failure> {
        let overlaps = |other: Window| window.base < other.end() && other.base < window.end();
        let here = self.sessions.values().map(|other| other.borrow().window);
        let is_open = self.sessions.contains_key(&session) || self.away.has(session);
        if is_open || here.chain(self.away.windows()).any(overlaps) {
            let detail = format!("the window at {:#x} is taken", window.base);
            return Err(Failure::new(Code::BadAddress, detail));
        }
        let memory = (
            Arc::clone(self.physical.as_ref().map_err(Failure::clone)?),
            self.info.capacity,
        );
        let opened = Session::open(session, window, domain, memory)?;
        if domain.is_some() {
            self.sharing.get_mut().begin(self.store.as_ref());
        }
        self.sessions.insert(session, RefCell::new(opened));
        Ok(())
    }

    fn belongs(&mut self, session: SessionId, tenant: TenantNumber) {
        if let Some(opened) = self.sessions.get_mut(&session) {
            opened.get_mut().memory.belongs(tenant);
        }
    }

    fn close(&mut self, session: SessionId) {
        // Importers lose access before the exported pages go.
        self.end_exports(session);
        // The session's mappings must go before sharing records that no session maps the units.
        if let Some(closed) = self.sessions.remove(&session) {
            closed.into_inner().drop_launch();
        }
        self.away.close(session);
        self.sharing.get_mut().closed(session);
        self.feed.closed(session);
        self.turn.retain(|waiting| *waiting != session);
    }

    fn stop(&mut self, session: SessionId, why: Failure) {
        match self.sessions.get_mut(&session) {
            Some(stopped) => stopped.get_mut().stop(why),
            None => drop(self.away.stop(session, why)),
        }
    }

    fn prepare(&mut self, hash: ModuleHash, image: &[u8]) -> Result<PreparedModule, Failure> {
        self.modules.compile(hash, image, &Unwatched)
    }

    fn forget(&mut self, hash: ModuleHash) {
        self.modules.forget(hash);
    }

    fn compiler(&self) -> Option<Arc<dyn Compiler>> {
        Some(Arc::clone(&self.modules) as Arc<dyn Compiler>)
    }

    fn interrupt(&self) -> Option<Arc<Interrupt>> {
        Some(Arc::clone(&self.interrupt))
    }

    fn spares(&self) -> Option<Arc<Mutex<Spares>>> {
        Some(Arc::clone(&self.spares))
    }

    fn keeper(&self) -> Arc<dyn Keeper> {
        match &self.store {
            Some(store) => Arc::new(StoreKeeper(Arc::clone(store))),
            None => Arc::new(HostKeeper),
        }
    }

    fn submit(&mut self, slice: Slice) {
        let now = self.now();
        // A session that was closed meanwhile gets no completion: its close was its answer.
        if let Some(session) = self.sessions.get_mut(&slice.session) {
            let session = session.get_mut();
            self.feed.submitted(now, slice.session, slice.priority);
            if session.is_idle() {
                self.turn.push_back(slice.session);
            }
            session.submit(slice);
        } else {
            self.away.submit(slice);
        }
    }

    fn poll(&mut self, budget: Duration, completions: &mut Vec<Completion>) {
        let end = Instant::now() + budget;
        self.away.completed(completions);
        let mut served = None;
        while let Some((place, priority)) = self.next() {
            // Before less urgent work runs, return to read commands. They may bring more urgent
            // work, and no interrupt would announce it.
            if served.is_some_and(|served| priority > served) {
                break;
            }
            if served != Some(priority) {
                self.interrupt.runs(Some(priority));
                served = Some(priority);
            }
            if !self.may_run(priority, end) {
                break;
            }
            if let Some(id) = self.turn.remove(place) {
                self.advance(id, end, completions);
            }
            if self.interrupt.is_raised() || Instant::now() >= end {
                break;
            }
        }
        self.interrupt.runs(None);
    }

    fn is_busy(&self) -> bool {
        !self.turn.is_empty() || self.away.is_busy()
    }

    fn tend(&mut self) -> bool {
        let leaving = self.away.is_leaving();
        self.sharing.get_mut().tend(&mut self.sessions) || leaving
    }

    fn recharged(&mut self, changed: &mut Vec<Recharged>) {
        let sharing = self.sharing.get_mut();
        for id in sharing.take_changed() {
            if let Some(session) = self.sessions.get_mut(&id) {
                let session = session.get_mut();
                let charged = session.resident(sharing);
                changed.push(Recharged {
                    session: id,
                    charged,
                    saved: session.allocated().saturating_sub(charged),
                });
            }
        }
    }

    fn saved(&self) -> u64 {
        self.sharing.borrow().saved()
    }

    fn swap_out(&mut self, session: SessionId) {
        self.take_out(session);
    }

    fn swap_in(&mut self, session: SessionId) {
        let room = self.info.capacity.saturating_sub(self.allocated());
        self.away.swap_in(session, room);
    }

    fn moved(&mut self, ended: &mut Vec<Moved>) -> bool {
        self.take_returned(ended);
        self.away.is_moving()
    }

    fn swap_use(&self) -> Option<SwapUse> {
        self.away.used()
    }

    fn exports(&mut self) -> Option<&mut dyn ExportMemory> {
        Some(self)
    }
}
