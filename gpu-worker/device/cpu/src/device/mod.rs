//! The CPU as a worker's device: module cache, sessions, slices in turn.
//!
//! One session at a time runs: the most urgent that has work, and among equals each for a quantum.
//! What does not end within it, or is overtaken, is parked as plain data and goes on where it was.
//! A kernel stops at its next jump back, a copy behind the piece it is at. Before something less
//! urgent runs, a session that is likely to come back at once is waited for: see [`Feed`].

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
    /// Threads that run the blocks of one launch.
    pub threads: usize,
    /// Bytes that all sessions can allocate together.
    pub capacity: u64,
    /// Processor time after which a launch is ended; or twenty times as much time of any kind,
    /// that in which it was parked apart.
    pub watchdog: Duration,
    /// What modules are built for: the interpreter's lane loops alone, or native code as well.
    pub isa: Isa,
    /// What it says of itself.
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

/// How long a session runs while others wait.
const QUANTUM: Duration = Duration::from_millis(2);
/// Buffers of transfers and answers that are kept for later ones.
const SPARES: usize = 64;

/// PTX on the CPU, as a device.
#[derive(Debug)]
pub struct CpuDevice {
    info: DeviceInfo,
    config: CpuConfig,
    engine: Engine,
    modules: Arc<Cache>,
    /// What its sessions' memory lies in, or why the host gives none.
    physical: Result<Arc<PhysicalMemory>, Failure>,
    sessions: Sessions,
    /// Those whose memory is not here, or on its way.
    away: Away<Session>,
    /// Where units that sessions share lie, and chunks that may be copied; none where the host does not
    /// help.
    store: Option<Arc<Store>>,
    sharing: RefCell<Sharing>,
    exports: RefCell<Exports>,
    /// Sessions that have slices, in turn.
    turn: VecDeque<SessionId>,
    feed: Feed,
    interrupt: Arc<Interrupt>,
    /// Since when its clock runs.
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

    /// The device, where the host can serve it: one that cannot opens no session.
    ///
    /// # Errors
    /// If the host has no files in memory, or does not let us have one.
    pub fn usable(self) -> Result<Self, Failure> {
        match &self.physical {
            Ok(_) => Ok(self),
            Err(failure) => Err(failure.clone()),
        }
    }

    /// Where in the turn the next to run is, and how urgent it is.
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

    /// Waits while this urgency is held back, until `end` at most or interrupted. Gives whether it
    /// may run now.
    fn may_run(&self, urgency: u8, end: Instant) -> bool {
        while !self.feed.gate(self.now()).admits(urgency) {
            if self.interrupt.is_raised() || Instant::now() >= end {
                return false;
            }
            // Sleeping would take longer than what is waited for; who needs the core gets it.
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
        // Nobody reaches what it exported before its pages go.
        self.end_exports(session);
        // What it shows goes before it is said that nobody shows it.
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
            // Before anything less urgent runs, the commands are looked at: what they bring may be
            // more so, and nobody would say that it came.
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
        self.sharing.get_mut().tend(&mut self.sessions)
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
