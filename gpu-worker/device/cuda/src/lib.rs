//! The CUDA device: one context through the driver API, loaded at run time, so that the same binary starts
//! with or without a driver.
//!
//! Every session has a stream of its urgency, module instances and an address range of its own, backed
//! through the virtual-memory-management calls at the addresses its client picked.
//!
//! Two things that the CPU device can do, this one cannot. A kernel that faults takes the whole context with
//! it, as CUDA defines, so every session of the device fails with it. And a running kernel is not stopped.
//! More urgent work goes before work that has not begun: see [`Feed`].

mod clock;
mod closing;
mod driver;
mod exchange;
mod exports;
mod linked;
mod loader;
mod memory;
mod modules;
mod pools;
mod properties;
mod pump;
mod rest;
mod session;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bus_schemas::{Code, Failure, ModuleHash, SessionId, Spares, Window};
use device::{
    Compiler, Completion, Device, DeviceInfo, ExportMemory, Feed, Interrupt, Moved, PreparedModule,
    SharingDomain, Slice, SwapUse, Unwatched,
};
use device_swap::{Away, SwapSpace};

pub use clock::DeviceClock;

use clock::Clock;
use closing::{Closing, apart};
use driver::Context;
use exports::Exports;
use loader::Loader;
use modules::Modules;
use pools::Pools;
use rest::Rest;
use session::Session;

/// True if a CUDA driver is installed on this host; Warploom's own drop-in does not count.
#[must_use]
pub fn is_present() -> bool {
    driver::is_present() && !driver::is_drop_in()
}

/// True if Warploom's own drop-in is in place of the driver.
#[must_use]
pub fn is_drop_in() -> bool {
    driver::is_drop_in()
}

/// One GPU, owned by one thread.
#[derive(Debug)]
pub struct CudaDevice {
    context: Context,
    granularity: u64,
    info: DeviceInfo,
    modules: Arc<Modules>,
    sessions: BTreeMap<SessionId, Session>,
    /// Sessions with memory off the device, or on its way.
    away: Away<Session>,
    closing: Closing,
    feed: Feed,
    exports: Exports,
    pools: Pools,
    /// Ends a poll early when a command has come.
    interrupt: Arc<Interrupt>,
    rest: Rest,
    /// The failure that has ended its context, if any.
    lost: Option<Failure>,
    clock: Clock,
    /// Start of its time.
    began: Instant,
    /// Last, because sessions that are dropped hand it their modules.
    loader: Loader,
}

impl CudaDevice {
    /// Opens GPU number `ordinal`. Sessions may have `capacity` bytes together; by default the memory that is
    /// free now less `reserve`.
    ///
    /// # Errors
    /// When there is no driver or no such GPU.
    pub fn open(ordinal: u32, capacity: Option<u64>, reserve: u64) -> Result<Self, Failure> {
        Self::open_by(Clock::Host, ordinal, (capacity, reserve))
    }

    /// As [`CudaDevice::open`] without a reserve, in the time of another clock than the host's. For tests.
    ///
    /// # Errors
    /// As [`CudaDevice::open`].
    pub fn open_in_time(
        clock: Arc<dyn DeviceClock>,
        ordinal: u32,
        capacity: Option<u64>,
    ) -> Result<Self, Failure> {
        Self::open_by(Clock::Given(clock), ordinal, (capacity, 0))
    }

    fn open_by(
        clock: Clock,
        ordinal: u32,
        (capacity, reserve): (Option<u64>, u64),
    ) -> Result<Self, Failure> {
        if !is_present() {
            return Err(Failure::new(
                Code::Device,
                match driver::is_drop_in() {
                    true => "the CUDA driver found on this host is Warploom's own drop-in",
                    false => "no CUDA driver is installed on this host",
                },
            ));
        }
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        let context = Context::new(ordinal)?;
        let free = context.free_memory()?.saturating_sub(reserve);
        let properties = properties::of(&context)?;
        let info = DeviceInfo {
            units: properties.sms,
            properties,
            capacity: capacity.map_or(free, |bytes| bytes.min(free)),
            preemptive: true,
            overlaps: true,
            // The driver has memory of its own for blocks.
            blocks: 0,
        };
        let granularity = context.granularity()?;
        let modules = Modules::new(context, info.properties.driver, clock.clone());
        Ok(Self {
            context,
            granularity,
            info,
            modules: Arc::new(modules),
            sessions: BTreeMap::new(),
            away: Away::new(None),
            closing: Closing::default(),
            feed: Feed::default(),
            exports: Exports::default(),
            pools: Pools::new(),
            interrupt: Arc::default(),
            rest: Rest::new(clock.clone()),
            lost: None,
            began: clock.now(),
            loader: Loader::new(context, clock.clone())?,
            clock,
        })
    }

    /// Sets the room for the memory of sessions that is off the device. Without any, all memory stays.
    #[must_use]
    pub fn swapping(mut self, space: Option<SwapSpace>) -> Self {
        self.away = Away::new(space);
        self
    }

    /// Bytes that sessions take of the device, including those on their way and closed ones.
    fn held(&self) -> u64 {
        let here = self.sessions.values().map(Session::held).sum::<u64>();
        here + self.away.moving() + self.closing.held()
    }

    /// Nanoseconds of its clock.
    fn now(&self) -> u64 {
        u64::try_from(self.clock.since(self.began).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Checks after a failed slice if the context has ended, as it does with a faulting kernel. Work that the
    /// driver has not got yet will not run.
    fn look_whether_lost(&mut self) {
        if self.lost.is_some() {
            return;
        }
        self.lost = self.context.end();
        if let Some(why) = &self.lost {
            for session in self.sessions.values_mut() {
                session.give_up(why);
            }
            // Nothing of them runs any more.
            self.closing = Closing::default();
        }
    }

    /// Creates a session, unless its addresses are taken.
    fn make_session(&mut self, session: SessionId, window: Window) -> Result<Session, Failure> {
        self.context.enter()?;
        // A session that was closed while it worked or moved keeps its addresses until it is dropped.
        self.closing.vacate(window);
        self.away.wait_for_closed();
        let here = self.sessions.values().map(Session::window);
        let is_open = self.sessions.contains_key(&session) || self.away.has(session);
        let free = |other: Window| apart(other, window);
        if is_open || !here.chain(self.away.windows()).all(free) {
            let detail = format!("the window at {:#x} is taken", window.base);
            return Err(Failure::new(Code::BadAddress, detail));
        }
        let memory = (self.context, self.granularity);
        Session::new(session, window, memory, self.pools.clone(), self.now())
    }

    /// Checks after a failed call if the context has ended; returns the result of the call.
    fn noted<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        if result.is_err() {
            self.look_whether_lost();
        }
        result
    }
}

impl Device for CudaDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Shares nothing, whatever the domain. At the first kernel that writes to memory mapped without write
    /// permission, the whole context would end, and so every tenant's work. No fault could give the writer a
    /// copy.
    fn open(
        &mut self,
        session: SessionId,
        window: Window,
        _: Option<SharingDomain>,
    ) -> Result<(), Failure> {
        if let Some(why) = &self.lost {
            return Err(why.clone());
        }
        let made = self.make_session(session, window);
        let made = self.noted(made)?;
        self.sessions.insert(session, made);
        Ok(())
    }

    fn close(&mut self, session: SessionId) {
        self.feed.closed(session);
        // Its exports become unreachable before its memory goes.
        self.end_exports(session, None);
        self.exports.closed(session);
        if let Some(closed) = self.sessions.remove(&session) {
            self.closing.add(closed);
            self.drop_ended();
        }
        self.away.close(session);
    }

    fn stop(&mut self, session: SessionId, why: Failure) {
        // A session that is here runs to the end of the work that the driver has of it.
        self.away.stop(session, why);
    }

    fn forget(&mut self, hash: ModuleHash) {
        self.modules.forget(hash);
    }

    fn prepare(&mut self, hash: ModuleHash, image: &[u8]) -> Result<PreparedModule, Failure> {
        let prepared = self.modules.compile(hash, image, &Unwatched);
        self.noted(prepared)
    }

    /// Images are prepared on other threads, because linking and loading them wait.
    fn compiler(&self) -> Option<Arc<dyn Compiler>> {
        Some(Arc::clone(&self.modules) as Arc<dyn Compiler>)
    }

    /// Raised for every command: a poll runs no work, so ending it early costs nothing.
    fn interrupt(&self) -> Option<Arc<Interrupt>> {
        Some(Arc::clone(&self.interrupt))
    }

    fn spares(&self) -> Option<Arc<Mutex<Spares>>> {
        Some(self.pools.shared_spares())
    }

    fn submit(&mut self, slice: Slice) {
        let now = self.now();
        self.rest.stirred();
        if let Some(session) = self.sessions.get_mut(&slice.session) {
            self.feed.submitted(now, slice.session, slice.priority);
            session.submit(slice);
            match &self.lost {
                Some(why) => session.give_up(why),
                None => self.pump(),
            }
        } else {
            self.away.submit(slice);
        }
    }

    fn poll(&mut self, budget: Duration, completions: &mut Vec<Completion>) {
        let begun = self.clock.now();
        if self.away.is_busy() {
            self.away.completed(completions);
            return;
        }
        loop {
            for session in self.sessions.values_mut() {
                session.completed(completions);
            }
            if completions.iter().any(|done| done.fault.is_some()) {
                self.look_whether_lost();
            }
            let now = self.now();
            for done in completions.iter() {
                let answered = !done.results.is_empty();
                self.feed.ended(now, done.session, answered);
            }
            self.pump();
            if !completions.is_empty() {
                self.rest.stirred();
                return;
            }
            let ends = self.interrupt.is_raised() || self.clock.since(begun) >= budget;
            if ends || !self.is_busy() {
                return;
            }
            // Behind a kernel that is the last of few in flight, the next should follow at once.
            let hurried = self.sessions.values().any(Session::hurries);
            self.rest.pause(hurried, budget);
        }
    }

    fn is_busy(&self) -> bool {
        self.away.is_busy() || self.sessions.values().any(Session::is_busy)
    }

    fn swap_out(&mut self, session: SessionId) {
        let Some(leaving) = self.sessions.get(&session) else {
            return;
        };
        let charged = leaving.resident();
        let ready = match (leaving.is_busy(), leaving.has_exchanged()) {
            (false, false) => self.away.ready(),
            (false, true) => Err(Failure::new(
                Code::NotPinned,
                "a session that shares memory with others stays on the device",
            )),
            (true, _) => Err(Failure::new(
                Code::Protocol,
                "a session with work under way cannot be swapped out",
            )),
        };
        if let Err(why) = ready {
            self.away.refuse(session, true, charged, why);
        } else if let Some(leaving) = self.sessions.remove(&session)
            && let Some(stays) = self.away.swap_out(session, leaving, charged)
        {
            self.sessions.insert(session, stays);
        }
    }

    fn swap_in(&mut self, session: SessionId) {
        self.make_room_for(session);
        let room = self.info.capacity.saturating_sub(self.held());
        self.away.swap_in(session, room);
    }

    fn moved(&mut self, ended: &mut Vec<Moved>) -> bool {
        for mut returned in self.away.ended(ended) {
            if let Some(session) = returned.session {
                returned.moved.resident = session.resident();
                self.sessions.insert(returned.moved.session, session);
            }
            for slice in returned.slices {
                self.submit(slice);
            }
            if returned.moved.failure.is_some() {
                self.look_whether_lost();
            }
            ended.push(returned.moved);
        }
        self.away.is_moving()
    }

    fn exports(&mut self) -> Option<&mut dyn ExportMemory> {
        Some(self)
    }

    fn lost(&self) -> Option<Failure> {
        self.lost.clone().or_else(|| self.modules.ended())
    }

    fn tend(&mut self) -> bool {
        self.drop_ended();
        self.away.is_leaving() || !self.closing.is_empty()
    }

    fn swap_use(&self) -> Option<SwapUse> {
        self.away.used()
    }
}
