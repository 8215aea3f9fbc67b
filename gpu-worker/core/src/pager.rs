//! Who may hold how much of a device's memory (I8), and who held how much for how long.
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

use bus_schemas::{Code, Failure, OpNumber, SessionId, Tenant};

use crate::Nanos;

/// Allocations are charged in multiples of this, bytes.
pub const GRANULE: u64 = 256;

/// What one op of a slice does to its session's memory.
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
        let (before, mut peak) = (memory.live, memory.live);
        let mut undo = Vec::new();
        let mut refused = None;
        self.granted.clear();
        // What may run beside it takes.
        let elsewhere = (self.charge - memory.charge, tenant.charge - memory.charge);
        for need in needs {
            match *need {
                Need::Alloc { op, address, bytes } => {
                    let charged = bytes.checked_next_multiple_of(GRANULE).unwrap_or(u64::MAX);
                    let others = tenant.live - before;
                    let device = self.live - before;
                    let would = memory.live.saturating_add(charged);
                    refused = if others.saturating_add(would) > memory.quota {
                        Some((op, over_quota(bytes, memory.quota, others + memory.live)))
                    } else if device.saturating_add(would) > self.capacity {
                        let held = device + memory.live;
                        Some((op, over_capacity(bytes, self.capacity, held)))
                    } else {
                        None
                    };
                    if refused.is_some() {
                        break;
                    }
                    let old = memory.allocations.insert(address, charged);
                    undo.push((address, old));
                    memory.live = would - old.unwrap_or(0);
                    peak = peak.max(would);
                }
                Need::Free { address } => {
                    let old = memory.allocations.remove(&address);
                    undo.push((address, old));
                    memory.live -= old.unwrap_or(0);
                }
                Need::Launch { op, least, most } => {
                    let (others, device) = (tenant.live - before, self.live - before);
                    let room = |held: (u64, u64)| {
                        let capacity = self.capacity.saturating_sub(held.0);
                        let room = capacity.min(memory.quota.saturating_sub(held.1));
                        room.saturating_sub(memory.live)
                    };
                    let held = (device + memory.live, others + memory.live);
                    if least > room((device, others)) {
                        let of_quota = least > memory.quota.saturating_sub(held.1);
                        let failure = match of_quota {
                            true => over_quota(least, memory.quota, held.1),
                            false => over_capacity(least, self.capacity, held.0),
                        };
                        let detail = format!("one block of the kernel: {}", failure.detail);
                        refused = Some((op, Failure::new(failure.code, detail)));
                        break;
                    }
                    let beside = room(elsewhere).max(least);
                    let bytes = most.min(room((device, others))).min(beside);
                    peak = peak.max(memory.live + bytes);
                    self.granted.push((op, bytes));
                }
            }
        }
        memory.running.push_back((first, peak, memory.live));
        let (old, new) = memory.recharge();
        let waits =
            self.charge - old + new > self.capacity || tenant.charge - old + new > memory.quota;
        // Only what runs can stand in the way: what will be held fits.
        if waits && new > old {
            memory.running.pop_back();
            memory.recharge();
            memory.live = before;
            for (address, bytes) in undo.into_iter().rev() {
                match bytes {
                    Some(bytes) => memory.allocations.insert(address, bytes),
                    None => memory.allocations.remove(&address),
                };
            }
            return MemoryDecision::Wait;
        }
        tenant.charge = tenant.charge - old + new;
        self.charge = self.charge - old + new;
        tenant.live = tenant.live - before + memory.live;
        self.live = self.live - before + memory.live;
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
