//! The pager: it decides who may hold how much of a device's memory (I8), and meters who held how much
//! for how long.
//!
//! Slices are admitted in the order they start, those that wait for a module or a transfer once it is
//! here. Whether an allocation is *refused* depends only on the order of admissions: on what would be
//! held once everything admitted before has run. Whether it must
//! *wait* depends on the device: memory that a running slice frees, or may not have freed yet,
//! counts as held until that slice has completed.
//!
//! The blocks of a launch take memory too, while it is in progress: room for one block must be there,
//! and for more of them at a time as far as it is. It counts while the slice runs.
//!
//! Both count what is *allocated*. What sessions are *charged* over time is what the device says that
//! they hold: where it stores equal bytes once, each pays its part, and others' doings change it.
//!
//! A client that asks before it allocates ([`MemoryRequested`]) is answered by a commitment: its
//! allocations within that are never refused here. One of an older build does not ask.

mod account;
mod accounts;
mod admission;
mod commitment;
mod need;
mod overview;
mod quotas;
mod requests;
mod residency;
mod session;
mod sums;
mod swap;
mod tally;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{MoveTotals, OpNumber, SessionId, Tenant, invariant};

pub use account::Charge;
pub use need::{MemoryDecision, Need, VariableHolder};
pub use residency::Residency;
pub use sums::GRANULE;
pub use swap::{MoveEnded, SwapAction, SwapUse};
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
    /// Bytes of first blocks that may be in progress uncounted, and that are.
    first_blocks: u64,
    uncounted: u64,
    sessions: BTreeMap<SessionId, SessionMemory>,
    tenants: BTreeMap<Tenant, Holding>,
    /// The quotas that a leader named last, of tenants without sessions here too.
    quotas: BTreeMap<Tenant, u64>,
    /// The sums of all tenants' holdings.
    all: Holding,
    device: Residency,
    /// Requests that wait for memory, the oldest first.
    waiting: Vec<Waiting>,
    /// Tenants that hold more than a quota that was lowered.
    over: BTreeSet<Tenant>,
    /// What launches may take of the slice admitted last.
    granted: Vec<(OpNumber, u64)>,
    swap: Swap,
    /// What is counted of tenants beside what they are charged, and the sum of what happened to memory.
    accounts: BTreeMap<Tenant, Account>,
    moves: MoveTotals,
    /// Tenants whose sessions are never swapped out.
    pinned_tenants: BTreeSet<Tenant>,
}

impl Pager {
    /// A device with this much memory to give, bytes: its capacity minus the reserve.
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
            device: Residency::default(),
            waiting: Vec::new(),
            over: BTreeSet::new(),
            granted: Vec::new(),
            swap: Swap::new(0),
            accounts: BTreeMap::new(),
            moves: MoveTotals::default(),
            pinned_tenants: BTreeSet::new(),
        }
    }

    /// With sessions that may hold so many bytes together, swapped out or not, where that is more than
    /// the device has; one that ran nothing for so long is idle.
    #[must_use]
    pub fn with_swap(self, limit: u64, idle_ns: Nanos) -> Self {
        Self {
            limit: limit.max(self.capacity),
            swap: Swap::new(idle_ns),
            ..self
        }
    }

    /// With so many bytes of each launch's first block that are not counted, `all` of them together at a
    /// time: the device has them beside what it gives to sessions. A program that has allocated all that
    /// it may launches kernels still.
    #[must_use]
    pub fn with_first_block(self, first_block: u64, all: u64) -> Self {
        Self {
            first_block,
            first_blocks: all,
            ..self
        }
    }

    /// What the launches of the slice admitted last may take, bytes, by the op from which on it holds.
    pub fn take_granted(&mut self) -> Vec<(OpNumber, u64)> {
        std::mem::take(&mut self.granted)
    }

    /// A session begins. A quota of 0 is what the device has.
    pub fn open(&mut self, now: Nanos, session: SessionId, tenant: &Tenant, quota: u64) {
        let usage = Residency::since(now);
        let memory = self
            .sessions
            .entry(session)
            .or_insert_with(|| SessionMemory::new(tenant.clone(), usage));
        if memory.tenant != *tenant {
            return;
        }
        let holding = self.tenants.entry(tenant.clone()).or_default();
        holding.sessions.insert(session);
        // A leader's later word holds: the grant may have waited long.
        let named = self.quotas.get(tenant).copied();
        if let Some(named) = named {
            holding.quota = named;
        } else if !holding.is_set {
            // All of the device is no quota.
            let is_limited = quota > 0 && quota < self.capacity;
            holding.quota = if is_limited { quota } else { self.limit };
        }
    }

    /// Changes a session, and the sums by it.
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

    /// The slice from op `first` through `last` has completed, to its end or to a fault; the device
    /// says what its session holds now.
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
                // What a failed session holds stays held until it is closed: nobody waits for it.
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

    /// What sessions are charged has changed, by what others did: those that shared with them came or
    /// went. The device says what each holds now; that of closed ones is ignored.
    pub fn recharged(&mut self, now: Nanos, changed: &[Charge]) {
        for charge in changed {
            self.charge(now, charge.session, charge.charged);
            self.save(now, charge.session, charge.saved);
        }
    }

    /// The device says what a session is charged now.
    pub fn charge(&mut self, now: Nanos, session: SessionId, resident: u64) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            let others = self.device.resident - memory.usage.resident;
            self.device.set(now, others + resident);
            memory.usage.set(now, resident);
        }
    }

    /// A session has ended and its memory is free. Gives what it had held over time, for the
    /// meter, byte-milliseconds.
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

    /// What an open session holds and has held.
    #[must_use]
    pub fn residency(&self, session: SessionId) -> Option<Residency> {
        self.sessions.get(&session).map(|memory| memory.usage)
    }

    /// What all sessions hold and have held, closed ones too.
    #[must_use]
    pub fn device(&self) -> Residency {
        self.device
    }

    /// The most the device's sessions can hold now or were committed, bytes; never above its limit.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.all.charge
    }

    /// The most a tenant's sessions can hold now, bytes; never above its quota.
    #[must_use]
    pub fn charged_to(&self, tenant: &Tenant) -> u64 {
        self.tenants.get(tenant).map_or(0, |holding| holding.charge)
    }
}
