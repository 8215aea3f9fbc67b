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

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{Code, Failure, OpNumber, SessionId, Tenant, invariant};

use crate::Nanos;

/// Allocations are charged in multiples of this, bytes.
pub const GRANULE: u64 = 256;

/// The effect of one op of a slice on its session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// See [`bus_schemas::Op::Alloc`].
    Alloc {
        /// The op.
        op: OpNumber,
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// See [`bus_schemas::Op::Free`].
    Free {
        /// First address.
        address: u64,
    },
    /// See [`bus_schemas::Op::Launch`]: launches from this op on.
    Launch {
        /// The op.
        op: OpNumber,
        /// Bytes that one block takes; 0 where launches take what any may.
        least: u64,
        /// Bytes that its blocks in progress can use at most.
        most: u64,
    },
}

/// The answer to a slice's needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemoryDecision {
    /// The slice may run.
    Fits,
    /// Ask again once something that runs has completed; nothing is charged yet.
    Wait,
    /// The slice may run up to this op, which fails.
    Refused(OpNumber, Failure),
}

#[derive(Debug)]
struct SessionMemory {
    tenant: Tenant,
    quota: u64,
    /// Allocations once everything admitted has run: first address and charged bytes.
    allocations: BTreeMap<u64, u64>,
    /// Their sum.
    live: u64,
    /// The sum when the last completed slice had run.
    completed: u64,
    /// Slices admitted and not completed: first op, highest sum while it runs, sum behind it.
    running: VecDeque<(OpNumber, u64, u64)>,
    /// The most the session can hold now.
    charge: u64,
    usage: Residency,
}

impl SessionMemory {
    fn recharge(&mut self) -> (u64, u64) {
        let before = self.charge;
        let peaks = self.running.iter().map(|(_, peak, _)| *peak);
        self.charge = peaks.fold(self.completed, u64::max);
        (before, self.charge)
    }

    /// Takes back what a slice did that must wait: what was at each address, the latest last.
    fn restore(&mut self, live: u64, undo: Vec<(u64, Option<u64>)>) {
        self.live = live;
        for (address, bytes) in undo.into_iter().rev() {
            match bytes {
                Some(bytes) => self.allocations.insert(address, bytes),
                None => self.allocations.remove(&address),
            };
        }
    }
}

/// The needs of one slice, taken one after the other.
struct Tally<'a> {
    memory: &'a mut SessionMemory,
    capacity: u64,
    /// Bytes of other sessions once all that is admitted has run: on the device, of the tenant.
    others: (u64, u64),
    /// The most that those can hold now, and so while the slice runs: on the device, of the tenant.
    beside: (u64, u64),
    /// The most that the session holds while the slice runs.
    peak: u64,
    /// What was at each address before.
    undo: Vec<(u64, Option<u64>)>,
    granted: &'a mut Vec<(OpNumber, u64)>,
}

impl Tally<'_> {
    /// Takes a need; the op and why, where it cannot be met however long it waits.
    fn take(&mut self, need: &Need) -> Result<(), (OpNumber, Failure)> {
        match *need {
            Need::Alloc { op, address, bytes } => self
                .allocate(address, bytes)
                .map_err(|failure| (op, failure)),
            Need::Free { address } => {
                let old = self.memory.allocations.remove(&address);
                self.undo.push((address, old));
                self.memory.live -= old.unwrap_or(0);
                Ok(())
            }
            Need::Launch { op, least, most } => {
                let bytes = self.launch(least, most).map_err(|failure| (op, failure))?;
                self.granted.push((op, bytes));
                Ok(())
            }
        }
    }

    fn allocate(&mut self, address: u64, bytes: u64) -> Result<(), Failure> {
        let memory = &mut *self.memory;
        let charged = bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
        let would = memory.live.saturating_add(charged);
        let (device, tenant) = self.others;
        if tenant.saturating_add(would) > memory.quota {
            return Err(over_quota(bytes, memory.quota, tenant + memory.live));
        }
        if device.saturating_add(would) > self.capacity {
            return Err(over_capacity(bytes, self.capacity, device + memory.live));
        }
        let old = memory.allocations.insert(address, charged);
        self.undo.push((address, old));
        memory.live = would - old.unwrap_or(0);
        self.peak = self.peak.max(would);
        Ok(())
    }

    /// Bytes that the blocks of a launch may take: what `most` of them use, as far as it is there
    /// while others run, and one block's in any case.
    fn launch(&mut self, least: u64, most: u64) -> Result<u64, Failure> {
        let (room, live, quota) = (self.room(self.others), self.memory.live, self.memory.quota);
        if least > room {
            let (device, tenant) = (self.others.0 + live, self.others.1 + live);
            let failure = match least > quota.saturating_sub(tenant) {
                true => over_quota(least, quota, tenant),
                false => over_capacity(least, self.capacity, device),
            };
            let detail = format!("one block of the kernel: {}", failure.detail);
            return Err(Failure::new(failure.code, detail));
        }
        let bytes = most.min(room).min(self.room(self.beside).max(least));
        self.peak = self.peak.max(live + bytes);
        Ok(bytes)
    }

    /// Bytes that the session may still take where others hold so much.
    fn room(&self, (device, tenant): (u64, u64)) -> u64 {
        let capacity = self.capacity.saturating_sub(device);
        let room = capacity.min(self.memory.quota.saturating_sub(tenant));
        room.saturating_sub(self.memory.live)
    }
}

/// Memory a session holds, as the device says, and what it has held over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Residency {
    /// Bytes resident now.
    pub resident: u64,
    since: Nanos,
    byte_ns: u128,
}

impl Residency {
    fn set(&mut self, now: Nanos, resident: u64) {
        self.byte_ns += u128::from(self.resident) * u128::from(now.saturating_sub(self.since));
        self.since = now.max(self.since);
        self.resident = resident;
    }

    /// Byte-milliseconds up to now.
    #[must_use]
    pub fn byte_ms(&self, now: Nanos) -> u64 {
        let open = u128::from(self.resident) * u128::from(now.saturating_sub(self.since));
        u64::try_from((self.byte_ns + open) / 1_000_000).unwrap_or(u64::MAX)
    }
}

#[derive(Debug, Default)]
struct Holding {
    live: u64,
    charge: u64,
}

/// The memory of one device.
#[derive(Debug)]
pub struct Pager {
    capacity: u64,
    sessions: BTreeMap<SessionId, SessionMemory>,
    tenants: BTreeMap<Tenant, Holding>,
    live: u64,
    charge: u64,
    device: Residency,
    /// What launches may take of the slice admitted last.
    granted: Vec<(OpNumber, u64)>,
}

impl Pager {
    /// A device with this much memory to give, bytes: its capacity minus the reserve.
    #[must_use]
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity,
            sessions: BTreeMap::new(),
            tenants: BTreeMap::new(),
            live: 0,
            charge: 0,
            device: Residency::default(),
            granted: Vec::new(),
        }
    }

    /// What the launches of the slice admitted last may take, bytes, by the op from which on it holds.
    pub fn take_granted(&mut self) -> Vec<(OpNumber, u64)> {
        std::mem::take(&mut self.granted)
    }

    /// A session begins. A quota of 0 is the device's capacity.
    pub fn open(&mut self, now: Nanos, session: SessionId, tenant: &Tenant, quota: u64) {
        let quota = if quota == 0 { self.capacity } else { quota };
        let memory = SessionMemory {
            tenant: tenant.clone(),
            quota,
            allocations: BTreeMap::new(),
            live: 0,
            completed: 0,
            running: VecDeque::new(),
            charge: 0,
            usage: Residency {
                since: now,
                ..Residency::default()
            },
        };
        self.sessions.entry(session).or_insert(memory);
        self.tenants.entry(tenant.clone()).or_default();
    }

    /// Admits the next slice of a session, from op `first` on, whose ops need this, in op order.
    pub fn admit(&mut self, first: OpNumber, session: SessionId, needs: &[Need]) -> MemoryDecision {
        let Some(memory) = self.sessions.get_mut(&session) else {
            return MemoryDecision::Fits;
        };
        let Some(tenant) = self.tenants.get_mut(&memory.tenant) else {
            return MemoryDecision::Fits;
        };
        self.granted.clear();
        let before = memory.live;
        let mut tally = Tally {
            capacity: self.capacity,
            others: (self.live - before, tenant.live - before),
            beside: (self.charge - memory.charge, tenant.charge - memory.charge),
            peak: before,
            undo: Vec::new(),
            granted: &mut self.granted,
            memory,
        };
        let refused = needs.iter().try_for_each(|need| tally.take(need)).err();
        let (peak, undo) = (tally.peak, tally.undo);
        memory.running.push_back((first, peak, memory.live));
        let (old, new) = memory.recharge();
        let charge = (self.charge - old + new, tenant.charge - old + new);
        // Only what runs can stand in the way: what will be held fits.
        if new > old && (charge.0 > self.capacity || charge.1 > memory.quota) {
            memory.running.pop_back();
            memory.recharge();
            memory.restore(before, undo);
            return MemoryDecision::Wait;
        }
        (self.charge, tenant.charge) = charge;
        tenant.live = tenant.live - before + memory.live;
        self.live = self.live - before + memory.live;
        let (capacity, quota) = (self.capacity, memory.quota);
        invariant!(
            I8,
            charge.0 <= capacity && (new <= old || charge.1 <= quota),
            "{} bytes of {capacity} are charged, {} of the tenant's {quota}",
            charge.0,
            charge.1
        );
        let (device, own, grew) = (self.live, tenant.live, memory.live > before);
        invariant!(
            I8,
            device <= capacity && (!grew || own <= quota),
            "{device} bytes of {capacity} will be held, {own} of the tenant's {quota}"
        );
        refused.map_or(MemoryDecision::Fits, |(op, failure)| {
            MemoryDecision::Refused(op, failure)
        })
    }

    /// The slice from op `first` on has completed, to its end or to a fault; the device says what its
    /// session holds now.
    pub fn completed(
        &mut self,
        now: Nanos,
        first: OpNumber,
        session: SessionId,
        resident: u64,
        faulted: bool,
    ) {
        let Some(memory) = self.sessions.get_mut(&session) else {
            return;
        };
        if let Some((_, peak, held)) = memory.running.pop_front_if(|(at, _, _)| *at <= first) {
            // After a fault the slice's frees may not have run, and no later slice will.
            memory.completed = if faulted {
                memory.charge.max(peak)
            } else {
                held
            };
        }
        let (old, new) = memory.recharge();
        let raised = match faulted {
            // What a failed session holds stays held until it is closed: nobody waits for it.
            true => new.saturating_sub(memory.live),
            false => 0,
        };
        memory.live += raised;
        self.live += raised;
        let (live, capacity) = (self.live, self.capacity);
        invariant!(
            I8,
            live <= capacity,
            "{live} bytes of {capacity} stay held after a fault"
        );
        self.device
            .set(now, self.device.resident - memory.usage.resident + resident);
        memory.usage.set(now, resident);
        self.charge = self.charge - old + new;
        if let Some(tenant) = self.tenants.get_mut(&memory.tenant) {
            tenant.charge = tenant.charge - old + new;
            tenant.live += raised;
        }
    }

    /// What sessions are charged has changed, by what others did: those that shared with them came or
    /// went. The device says what each holds now; that of closed ones is ignored.
    pub fn recharged(&mut self, now: Nanos, changed: &[(SessionId, u64)]) {
        for (session, resident) in changed {
            let Some(memory) = self.sessions.get_mut(session) else {
                continue;
            };
            let others = self.device.resident - memory.usage.resident;
            self.device.set(now, others + resident);
            memory.usage.set(now, *resident);
        }
    }

    /// A session has ended and its memory is free. Gives what it had held over time, for the
    /// meter, byte-milliseconds.
    pub fn close(&mut self, now: Nanos, session: SessionId) -> u64 {
        let Some(mut memory) = self.sessions.remove(&session) else {
            return 0;
        };
        self.device
            .set(now, self.device.resident - memory.usage.resident);
        memory.usage.set(now, 0);
        self.charge -= memory.charge;
        self.live -= memory.live;
        if let Some(tenant) = self.tenants.get_mut(&memory.tenant) {
            tenant.charge -= memory.charge;
            tenant.live -= memory.live;
        }
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

    /// The most the device's sessions can hold now, bytes; never above its capacity.
    #[must_use]
    pub fn charged(&self) -> u64 {
        self.charge
    }

    /// The most a tenant's sessions can hold now, bytes; never above its quota.
    #[must_use]
    pub fn charged_to(&self, tenant: &Tenant) -> u64 {
        self.tenants.get(tenant).map_or(0, |holding| holding.charge)
    }
}

fn over_quota(bytes: u64, quota: u64, held: u64) -> Failure {
    Failure::new(
        Code::Quota,
        format!("{bytes} bytes do not fit: the tenant holds {held} of its quota of {quota}"),
    )
}

fn over_capacity(bytes: u64, capacity: u64, held: u64) -> Failure {
    Failure::new(
        Code::OutOfMemory,
        format!("{bytes} bytes do not fit: {held} of the device's {capacity} are held"),
    )
}
