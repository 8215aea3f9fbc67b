//! The pager: it decides how much of a device's memory each session may hold (I8), and meters the memory held
//! over time.
//!
//! Slices are admitted in the order of their starts; those that wait for a module or a transfer, once it has
//! arrived. Only the order of admissions decides if an allocation is *refused*: it depends on the memory held
//! once everything admitted before has run. The device decides if the allocation must *wait*: memory that a
//! running slice frees, or may not have freed yet, counts as held until that slice has completed.
//!
//! The blocks of a launch in progress take memory too. There must be room for one block, and more blocks at a
//! time run as far as there is room. Their memory counts while the slice runs.
//!
//! Both rules count *allocated* memory. The *charge* of a session over time is the figure that the device
//! reports. If the device stores equal bytes once, each session that shares them pays its part, and other
//! sessions change that part.
//!
//! A client that asks before it allocates ([`MemoryRequested`]) gets a commitment as its answer: its
//! allocations within that are never refused here. A client of an older build does not ask.

mod account;
mod accounts;
mod admission;
mod byte_time;
mod commitment;
mod need;
mod overview;
mod quotas;
mod requests;
mod session;
mod sums;
mod swap;
mod tally;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{MoveTotals, OpNumber, SessionId, Tenant, invariant};
use device::Recharged;

pub use byte_time::ByteTime;
pub use need::{MemoryDecision, Need, VariableHolder};
pub use sums::GRANULE;
pub use swap::SwapAction;
pub use waiting::{MemoryAction, MemoryRequested, TenantMemory};

use crate::Nanos;
use account::Account;
use session::SessionMemory;
use sums::{Holding, Sums};
use swap::Swap;
use waiting::Waiting;

/// The memory of one device.
#[derive(Debug)]
pub struct Pager {
    /// Bytes that fit on the device.
    capacity: u64,
    /// Bytes that all sessions may hold together, swapped out or not.
    limit: u64,
    /// Bytes of a launch's first block that need no room, see [`Pager::with_first_block`].
    first_block: u64,
    /// Maximum bytes of first blocks in progress uncounted, and those in progress now.
    first_blocks: u64,
    uncounted: u64,
    sessions: BTreeMap<SessionId, SessionMemory>,
    tenants: BTreeMap<Tenant, Holding>,
    /// The quotas that a leader named last, also of tenants without sessions on this worker.
    quotas: BTreeMap<Tenant, u64>,
    /// The sums of all tenants' holdings.
    all: Holding,
    device: ByteTime,
    /// Requests that wait for memory, the oldest first.
    waiting: Vec<Waiting>,
    /// Tenants that hold more than their lowered quota.
    over: BTreeSet<Tenant>,
    /// Bytes that launches of the slice admitted last may take.
    granted: Vec<(OpNumber, u64)>,
    swap: Swap,
    /// The accounts of tenants beside their charges, and the sum of all events.
    accounts: BTreeMap<Tenant, Account>,
    moves: MoveTotals,
    /// Tenants with sessions that are never swapped out.
    pinned_tenants: BTreeSet<Tenant>,
}

impl Pager {
    /// Creates a pager for this many bytes: the device's capacity minus the reserve.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            limit: capacity,
            first_block: 0,
            first_blocks: 0,
            uncounted: 0,
            sessions: BTreeMap::new(),
            tenants: BTreeMap::new(),
            quotas: BTreeMap::new(),
            all: Holding::default(),
            device: ByteTime::default(),
            waiting: Vec::new(),
            over: BTreeSet::new(),
            granted: Vec::new(),
            swap: Swap::new(0),
            accounts: BTreeMap::new(),
            moves: MoveTotals::default(),
            pinned_tenants: BTreeSet::new(),
        }
    }

    /// Lets all sessions together hold `limit` bytes, swapped out or not, if that is more than the device
    /// has. A session that has run nothing for `idle_ns` is idle.
    #[must_use]
    pub fn with_swap(self, limit: u64, idle_ns: Nanos) -> Self {
        Self {
            limit: limit.max(self.capacity),
            swap: Swap::new(idle_ns),
            ..self
        }
    }

    /// Leaves up to `first_block` bytes of each launch's first block uncounted, at most `all` together at a
    /// time. The device has these bytes beside those that it gives to sessions. So a program that has
    /// allocated all that it may can still launch kernels.
    #[must_use]
    pub fn with_first_block(self, first_block: u64, all: u64) -> Self {
        Self {
            first_block,
            first_blocks: all,
            ..self
        }
    }

    /// Takes the bytes that launches of the slice admitted last may take, each with the op from which on it
    /// holds.
    pub fn take_granted(&mut self) -> Vec<(OpNumber, u64)> {
        std::mem::take(&mut self.granted)
    }

    /// Adds a session. A quota of 0 stands for all of the device.
    pub fn open(&mut self, now: Nanos, session: SessionId, tenant: &Tenant, quota: u64) {
        let usage = ByteTime::since(now);
        let memory = self
            .sessions
            .entry(session)
            .or_insert_with(|| SessionMemory::new(tenant.clone(), usage));
        if memory.tenant != *tenant {
            return;
        }
        let holding = self.tenants.entry(tenant.clone()).or_default();
        holding.sessions.insert(session);
        // The leader's later quota takes precedence, because the grant may have waited long.
        let named = self.quotas.get(tenant).copied();
        if let Some(named) = named {
            holding.quota = named;
        } else if !holding.is_set {
            // A quota of all of the device is no quota.
            let is_limited = quota > 0 && quota < self.capacity;
            holding.quota = if is_limited { quota } else { self.limit };
        }
    }

    /// Changes a session, and updates the sums.
    fn update<R>(
        &mut self,
        session: SessionId,
        change: impl FnOnce(&mut SessionMemory) -> R,
    ) -> Option<R> {
        let memory = self.sessions.get_mut(&session)?;
        let before = memory.sums();
        let result = change(memory);
        let after = memory.sums();
        if let Some(tenant) = self.tenants.get_mut(&memory.tenant) {
            tenant.add(before, after);
        }
        self.all.add(before, after);
        Some(result)
    }

    /// Handles the end of the slice from op `first` through `last`, complete or after a fault. `resident` is
    /// the session's memory by the device's report.
    pub fn completed(
        &mut self,
        now: Nanos,
        (first, last): (OpNumber, OpNumber),
        session: SessionId,
        resident: u64,
        faulted: bool,
    ) {
        let uncounted = self.uncounted_of(session);
        let done = self.update(session, |memory| {
            if let Some(slice) = memory.running.pop_front_if(|slice| slice.first <= first) {
                // After a fault the slice's frees may not have run, and no later slice will.
                (memory.completed, memory.fixed_completed) = if faulted {
                    let fixed = memory.fixed_charge;
                    (memory.charge.saturating_sub(fixed), fixed)
                } else {
                    (slice.behind, slice.fixed_behind)
                };
            }
            memory.recharge();
            if faulted {
                // Memory of a failed session stays held until it is closed; no slice waits for it.
                let held = memory.live + memory.fixed;
                memory.live += memory.charge.saturating_sub(held);
            }
            if let Some(commitment) = &mut memory.commitment {
                commitment.done(last);
            }
            let before = memory.usage.resident;
            memory.usage.set(now, resident);
            before
        });
        self.uncounted = self.uncounted - uncounted + self.uncounted_of(session);
        self.used(now, session);
        let (live, limit) = (self.all.live, self.limit);
        invariant!(
            I8,
            live <= limit,
            "{live} bytes of {limit} are held or committed"
        );
        if let Some(before) = done {
            self.device
                .set(now, self.device.resident - before + resident);
        }
    }

    fn uncounted_of(&self, session: SessionId) -> u64 {
        let memory = self.sessions.get(&session);
        memory.map_or(0, |memory| memory.uncounted)
    }

    /// Takes charges that changed because sessions which share memory with these came or went. The device
    /// reports the bytes of each session; closed sessions are ignored.
    pub fn recharged(&mut self, now: Nanos, changed: &[Recharged]) {
        for charge in changed {
            self.charge(now, charge.session, charge.charged);
            self.save(now, charge.session, charge.saved);
        }
    }

    /// Takes the device's report of a session's charge.
    pub fn charge(&mut self, now: Nanos, session: SessionId, resident: u64) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            let others = self.device.resident - memory.usage.resident;
            self.device.set(now, others + resident);
            memory.usage.set(now, resident);
        }
    }

    /// Removes a session that has ended and freed its memory. Returns the byte-milliseconds that it has held,
    /// for the meter.
    pub fn close(&mut self, now: Nanos, session: SessionId) -> u64 {
        self.stop_waiting(now, session);
        let Some(mut memory) = self.sessions.remove(&session) else {
            return 0;
        };
        self.uncounted -= memory.uncounted;
        self.settle_account(now, &memory.tenant, memory.uncharged);
        self.device
            .set(now, self.device.resident - memory.usage.resident);
        memory.usage.set(now, 0);
        let claims = memory.sums();
        self.all.add(claims, Sums::default());
        if let Some(tenant) = self.tenants.get_mut(&memory.tenant) {
            tenant.add(claims, Sums::default());
            tenant.sessions.remove(&session);
        }
        self.waiting.retain(|waiting| waiting.session() != session);
        memory.usage.byte_ms(now)
    }

    /// Returns the memory that an open session holds and has held.
    #[must_use]
    pub fn residency(&self, session: SessionId) -> Option<ByteTime> {
        self.sessions.get(&session).map(|memory| memory.usage)
    }

    /// Returns the memory that all sessions hold and have held, closed ones included.
    #[must_use]
    pub fn device(&self) -> ByteTime {
        self.device
    }

    /// Maximum bytes that the device's sessions can hold now or were committed; never above its limit.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.all.charge
    }

    /// Maximum bytes that a tenant's sessions can hold now; not above its quota, unless that was lowered.
    #[must_use]
    pub fn charged_to(&self, tenant: &Tenant) -> u64 {
        self.tenants.get(tenant).map_or(0, |holding| holding.charge)
    }
}
