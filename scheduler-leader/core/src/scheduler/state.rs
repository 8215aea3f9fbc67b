//! The scheduler's state: tenants, workers, sessions and outstanding grants.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{
    CloseReason, GpuId, GpuPosition, GrantKind, Incarnation, InputNumber, OpNumber, SessionId,
    Tenant, TenantSettings, Window, invariant,
};

use super::recent::Recent;
use super::space::Space;
use super::standing_grant::Standing;
use crate::by_priority::ByPriority;
use crate::input::WorkerReport;
use crate::policy::{
    Balance, Budget, Cut, Lanes, Limits, Peak, Presence, SliceQueue, TagHeap, Turns,
};
use crate::slots::{Arena, FlowSlot, SessionSlot, Slot, TenantSlot, WorkerSlot};

/// Number of sessions that one leader can open: the lower digits of their ids.
pub(super) const IDS: u64 = 1 << 24;

#[derive(Debug)]
pub(super) struct TenantState {
    pub(super) name: Tenant,
    /// The last set values; kept for running sessions when the tenant is removed.
    pub(super) settings: TenantSettings,
    /// True if it is set and not removed.
    pub(super) known: bool,
    /// Its place among all tenants by name: it breaks ties between equal tags.
    pub(super) rank: u64,
    /// The highest ordinal used.
    pub(super) ordinal: u64,
    pub(super) sessions: u64,
    pub(super) granted: u64,
    pub(super) granted_ns: u64,
    pub(super) outstanding: u64,
    pub(super) flows: Vec<FlowSlot>,
    /// Number of its flows that its bound or its cap holds back.
    pub(super) blocked: u32,
}

/// One tenant on one worker: the unit that is scheduled.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) worker: WorkerSlot,
    pub(super) tenant: TenantSlot,
    pub(super) priority: u8,
    /// Start tag of its next slice: the finish tag of its last.
    pub(super) tag: u128,
    /// Sessions that are not closed.
    pub(super) open: u32,
    /// Bytes of their windows.
    pub(super) addresses: u64,
    /// Its eligible sessions, by tags of their own.
    pub(super) sessions: TagHeap<SessionSlot>,
    /// The start tag of its last granted session.
    pub(super) now: u128,
    /// True if it is held back by its tenant's bound on outstanding work, or by its cap.
    pub(super) blocked: bool,
    /// Its debt for work that ran longer than it was charged.
    pub(super) balance: Balance,
    /// Time that its tenant's cap leaves it.
    pub(super) budget: Budget,
    /// Tracks if its sessions have work.
    pub(super) presence: Presence,
    /// Estimated cost of a request of its sessions.
    pub(super) request: Peak,
    /// Peak cost of its slices.
    pub(super) slice: Peak,
    /// Charges of its slices, in this epoch.
    pub(super) granted_ns: u64,
    /// True if it is set aside: its next slice is too long for a target of a higher priority.
    pub(super) aside: bool,
    /// Ticks that it was set aside since its last grant.
    pub(super) waited: u32,
}

/// A grant that is not done.
#[derive(Debug, Clone, Copy)]
pub(super) struct Granted {
    pub(super) kind: GrantKind,
    /// The session's priority, at which the window counts it.
    pub(super) priority: u8,
    /// The priority at which the worker runs it.
    pub(super) urgency: u8,
    /// The session's generation when granted: grants of an older one are void and rewind nothing.
    pub(super) generation: u32,
    pub(super) slot: SessionSlot,
    pub(super) session: SessionId,
    pub(super) tenant: TenantSlot,
    pub(super) first: OpNumber,
    pub(super) last: OpNumber,
    pub(super) cost: u64,
    /// The slice in progress before it.
    pub(super) cut: Cut,
}

#[derive(Debug)]
pub(super) struct WorkerState {
    pub(super) incarnation: Incarnation,
    pub(super) gpu: GpuId,
    pub(super) capacity: u64,
    /// Bytes that all sessions may hold together, if that is more than the device has.
    pub(super) limit: u64,
    /// The sessions that do not fit together, if any.
    pub(super) turns: Option<Box<Turns>>,
    /// Number of returns that have ended.
    pub(super) returned: u64,
    /// True if it announced that it leaves when its accepted work is done.
    pub(super) draining: bool,
    /// True if an administrator wants no new sessions there.
    pub(super) cordoned: bool,
    pub(super) lost: bool,
    /// Last position granted.
    pub(super) position: GpuPosition,
    /// Position of the first of `outstanding`.
    pub(super) base: GpuPosition,
    pub(super) outstanding: VecDeque<Option<Granted>>,
    /// Outstanding grants from before the seal.
    pub(super) sealed: BTreeMap<GpuPosition, Granted>,
    pub(super) lanes: Lanes,
    pub(super) space: Space,
    pub(super) sessions: u64,
    /// Its sessions by priority.
    pub(super) crowd: Crowd,
    /// The session with a standing grant that is the last grant here.
    pub(super) standing: Option<SessionSlot>,
    pub(super) grants: u64,
    pub(super) voids: u64,
    pub(super) flows: BTreeMap<TenantSlot, FlowSlot>,
    /// Active flows of tenants with a target.
    pub(super) targets: Vec<FlowSlot>,
    /// The longest slices that these targets let ahead.
    pub(super) limits: Limits,
    /// Flows set aside for these targets.
    pub(super) aside: Vec<FlowSlot>,
    /// Its last report of itself.
    pub(super) report: WorkerReport,
    /// Work granted recently.
    pub(super) recent: Recent,
    /// True if something changed since it was last served.
    pub(super) dirty: bool,
}

/// A worker's sessions by priority: the count and the sum of their slots. The sum for a single
/// session is its own slot.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    sessions: ByPriority<u32>,
    slots: ByPriority<u64>,
}

impl Crowd {
    pub(super) fn add(&mut self, priority: u8, slot: SessionSlot) {
        self.sessions[priority] += 1;
        self.slots[priority] += u64::from(slot);
    }

    pub(super) fn remove(&mut self, priority: u8, slot: SessionSlot) {
        self.sessions[priority] -= 1;
        self.slots[priority] -= u64::from(slot);
    }

    /// The session of the highest priority with sessions, if it is the only one of that priority.
    pub(super) fn foremost(&self) -> Option<SessionSlot> {
        let (first, count) = self.sessions.iter().find(|(_, count)| **count > 0)?;
        let only = *count == 1;
        only.then_some(SessionSlot::at(self.slots[first] as usize))
    }
}

impl WorkerState {
    /// Reads ahead the fields that its reports need, before those of sessions.
    pub(super) fn fetch(&self) -> u64 {
        let granted = self.outstanding.iter().flatten();
        let granted = granted.fold(0, |seen, granted| seen ^ granted.cost);
        let own = self.position ^ self.voids ^ self.sessions ^ u64::from(self.dirty);
        granted ^ own ^ self.lanes.fetch() ^ self.crowd.slots[0] ^ self.limits.of(0).unwrap_or(0)
    }

    /// Memory that sessions may hold together, bytes.
    pub(super) fn memory(&self) -> u64 {
        self.capacity.max(self.limit)
    }

    /// Bytes that no session holds.
    pub(super) fn free(&self) -> u64 {
        self.memory().saturating_sub(self.report.held)
    }

    /// Returns true if sessions wait for their memory, or are about to return.
    pub(super) fn is_short(&self) -> bool {
        let turns = self.turns.as_ref();
        turns.is_some_and(|turns| turns.waiting() > 0)
    }

    /// Removes the grant at a position, if it is outstanding.
    pub(super) fn take(&mut self, position: GpuPosition) -> Option<Granted> {
        let Some(at) = position.checked_sub(self.base) else {
            return self.sealed.remove(&position);
        };
        let granted = self.outstanding.get_mut(usize::try_from(at).ok()?)?.take();
        while let Some(None) = self.outstanding.front() {
            self.outstanding.pop_front();
            self.base += 1;
        }
        granted
    }

    /// The grant at a position, if it is outstanding.
    pub(super) fn peek(&self, position: GpuPosition) -> Option<&Granted> {
        let at = position.checked_sub(self.base)?;
        self.outstanding.get(usize::try_from(at).ok()?)?.as_ref()
    }

    /// The grant at a position, if it is outstanding and of this epoch.
    pub(super) fn granted(&mut self, position: GpuPosition) -> Option<&mut Granted> {
        let at = position.checked_sub(self.base)?;
        self.outstanding
            .get_mut(usize::try_from(at).ok()?)?
            .as_mut()
    }

    /// Puts a grant at the next position and returns that position. It closes a standing grant.
    pub(super) fn put(&mut self, granted: Granted) -> GpuPosition {
        self.standing = None;
        self.position += 1;
        self.grants += 1;
        self.outstanding.push_back(Some(granted));
        let (base, kept) = (self.base, self.outstanding.len() as u64);
        invariant!(
            I2,
            base + kept == self.position + 1,
            "position {} is not the next of {kept} from {base}",
            self.position
        );
        self.position
    }
}

/// Progress of a session's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Open,
    /// Its client asked for the end once this op is done.
    Asked(OpNumber),
    /// The close grant is decided.
    Closing(CloseReason),
}

#[derive(Debug)]
pub(super) struct SessionState {
    pub(super) id: SessionId,
    pub(super) tenant: TenantSlot,
    pub(super) ordinal: u64,
    pub(super) worker: WorkerSlot,
    pub(super) flow: FlowSlot,
    pub(super) window: Window,
    pub(super) tag: u128,
    pub(super) queue: SliceQueue,
    pub(super) generation: u32,
    pub(super) doubted: bool,
    /// Last op that the worker has, as last reported.
    pub(super) received: OpNumber,
    pub(super) life: Life,
    /// Its standing grant, until it is fully accounted.
    pub(super) standing: Option<Box<Standing>>,
    /// Charges queued since its last sync.
    pub(super) request: u64,
    /// True if it counts as having work that is not done.
    pub(super) busy: bool,
    /// True if its memory is not on the device: it is granted nothing before it has returned.
    pub(super) away: bool,
    /// True if a return of it is granted, and not reported.
    pub(super) returning: bool,
    /// Number of the input that reported its last slice done.
    pub(super) ran: InputNumber,
    /// True if its tenant is suspended: it is granted nothing more.
    pub(super) suspended: bool,
}

// Reads ahead, field by field, what a grant needs of each: some fields lie far from others.

impl TenantState {
    pub(super) fn fetch(&self) -> u64 {
        let settings = &self.settings;
        let counts = self.outstanding ^ self.granted ^ self.granted_ns ^ u64::from(self.blocked);
        counts ^ settings.outstanding_ns ^ u64::from(settings.weight)
    }

    /// Returns true if its memory must never be swapped out.
    pub(super) fn is_pinned(&self) -> bool {
        self.known && !self.settings.swap
    }

    /// Returns true if its bound on granted work that is not done holds back a slice of this cost.
    pub(super) fn is_bounded(&self, cost: u64) -> bool {
        let (bound, outstanding) = (self.settings.outstanding_ns, self.outstanding);
        bound > 0 && outstanding > 0 && outstanding.saturating_add(cost) > bound
    }
}

impl Flow {
    pub(super) fn fetch(&self) -> u64 {
        let tags = self.tag as u64 ^ self.now as u64;
        tags ^ self.balance.ns() as u64 ^ self.granted_ns ^ self.slice.get()
    }
}

impl SessionState {
    pub(super) fn fetch(&self) -> u64 {
        let queue = self.queue.granted() ^ self.queue.done() ^ self.queue.next().cost;
        let flags = u64::from(self.doubted) ^ u64::from(self.generation);
        queue ^ flags ^ self.id.0 ^ self.tag as u64
    }

    /// Returns true if it has work that is not done and that the worker is not known to lack. For a
    /// suspended tenant only granted work counts: others need not make room for the rest.
    pub(super) fn is_busy(&self) -> bool {
        let alive = !matches!(self.life, Life::Closing(_));
        let work = match self.suspended {
            false => self.limit() > self.queue.done(),
            true => self.has_granted(),
        };
        alive && work
    }

    /// Returns true if its next slice may be granted as it is.
    pub(super) fn is_eligible(&self) -> bool {
        !self.away && self.is_ready()
    }

    /// Returns true if its next slice may be granted once its memory is there: the slice is cut, or
    /// has all ops that may be granted.
    pub(super) fn is_ready(&self) -> bool {
        let next = self.queue.next();
        let some = next.last > self.queue.granted();
        let alive = !matches!(self.life, Life::Closing(_));
        let held = self.standing.as_ref().is_some_and(|it| !it.is_over());
        let free = alive && !held && !self.suspended;
        free && some && (next.complete || next.last == self.limit())
    }

    /// Returns true if some of its work is granted and not done.
    pub(super) fn has_granted(&self) -> bool {
        self.queue.granted() > self.queue.done()
    }

    /// Ops that may be granted.
    pub(super) fn limit(&self) -> OpNumber {
        if self.doubted {
            self.received.min(self.queue.queued())
        } else {
            self.queue.queued()
        }
    }
}

/// The kind of a session's progress; the higher one counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    #[default]
    None,
    Granted,
    Reported,
}

/// The sessions with progress, each once.
#[derive(Debug, Default)]
pub(super) struct DirtySessions {
    /// By session.
    pub(super) marks: Arena<SessionSlot, Mark>,
    pub(super) slots: Vec<SessionSlot>,
}

impl DirtySessions {
    /// Notes progress of a session.
    pub(super) fn note(&mut self, slot: SessionSlot, mark: Mark) {
        let known = self.marks.grow_to(slot);
        if *known == Mark::None {
            self.slots.push(slot);
        }
        *known = mark.max(*known);
    }
}
