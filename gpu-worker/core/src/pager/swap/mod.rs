//! Swapping: which sessions' memory is on the device where not all of it fits. `README.md` beside this
//! file says what for and how.

mod eviction;
mod moves;
mod report;

use bus_schemas::{Place, SessionId, Tenant, invariant};

use super::Pager;
use super::session::SessionMemory;
use crate::Nanos;

/// How a session is swapped.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SessionSwap {
    pub(super) place: Place,
    /// Its client forbids it.
    pub(super) pinned: bool,
    /// Its tenant's, 0 (highest) to 4.
    pub(super) priority: u8,
    /// When it last ran something, or came back.
    used_at: Nanos,
    /// When it came back last.
    came_at: Nanos,
    /// Until then it is not asked to leave, or to come, again: it had something to run, or the device
    /// could not move it.
    rests_until: Nanos,
    /// Bytes beside what it has on the device that are kept for it, until it asks for them again.
    pub(in crate::pager) kept: u64,
    /// Since when it has run nothing for want of memory.
    waits_since: Option<Nanos>,
}

/// A session that wants memory on the device: its own back, or more of it.
#[derive(Debug, Clone, Copy)]
struct Want {
    session: SessionId,
    priority: u8,
    /// Bytes that a slice of a session that is there wants beside what is there; 0 for its return.
    more: u64,
    /// When it began to want that, once that was noticed.
    began: Option<Nanos>,
    /// Since when its session has run nothing for want of memory: who came back and lacks more goes on
    /// waiting where it was.
    since: Nanos,
}

/// An action of the pager: something to do with a session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapAction {
    /// Swap it out once what the session has on the device has run; nothing more of it goes there.
    /// Answer with [`Pager::moved`].
    Out {
        /// The session.
        session: SessionId,
        /// Also where slices of it are started; else that is to be told by [`Pager::kept`].
        busy_too: bool,
    },
    /// Bring it in: there is room. Answer with [`Pager::moved`].
    In {
        /// The session.
        session: SessionId,
    },
    /// It is on the device, or needs it no more: the answer to [`Pager::want`]. Or there is room for the
    /// slice that was told [`MemoryDecision::Later`]: ask again.
    ///
    /// [`MemoryDecision::Later`]: super::MemoryDecision::Later
    Returned {
        /// The session.
        session: SessionId,
    },
}

/// A move that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MoveEnded {
    /// The session.
    pub session: SessionId,
    /// It was to be swapped out; else brought in.
    pub out: bool,
    /// Bytes that were moved.
    pub bytes: u64,
    /// How long it took, nanoseconds.
    pub took_ns: u64,
    /// The memory is where it was before.
    pub failed: bool,
}

/// Counts of moves, and what they moved and cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapTotals {
    /// Times that a session was swapped out, and the bytes.
    pub outs: (u64, u64),
    /// Times that one was brought back, and the bytes.
    pub ins: (u64, u64),
    /// Nanoseconds that sessions with work waited for their memory.
    pub waited_ns: u64,
}

/// How full the swap space is, bytes and how many there may be, and how far the moves in progress are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapUse {
    /// In the host's memory.
    pub memory: (u64, u64),
    /// In the swap file.
    pub file: (u64, u64),
    /// Bytes moved, and of how many.
    pub moving: (u64, u64),
}

/// What a mebibyte takes to move before one was measured: 2 GiB a second.
const NS_PER_MIB: u64 = 500_000;
/// How long who had something to run is left alone, and what could not be moved.
const REST_NS: Nanos = 20_000_000;

/// What swapping knows beside the sessions.
#[derive(Debug)]
pub(super) struct Swap {
    /// A session that ran nothing for so long is idle.
    idle_ns: Nanos,
    /// Who wants memory on the device, in the order in which they are served.
    wants: Vec<Want>,
    ns_per_mib: u64,
    totals: SwapTotals,
    used: SwapUse,
}

impl Swap {
    pub(super) fn new(idle_ns: Nanos) -> Self {
        Self {
            idle_ns,
            wants: Vec::new(),
            ns_per_mib: NS_PER_MIB,
            totals: SwapTotals::default(),
            used: SwapUse::default(),
        }
    }
}

impl Pager {
    /// The memory of a session is wanted on the device: it has something to run there, or will have.
    pub fn want(&mut self, now: Nanos, session: SessionId, priority: u8) {
        let known = self.swap.wants.iter_mut().find(|it| it.session == session);
        match known {
            Some(want) => want.priority = priority.min(want.priority),
            None => self.swap.wants.push(Want {
                session,
                priority,
                more: 0,
                began: Some(now),
                since: now,
            }),
        }
        self.set_priority(session, priority);
    }

    /// A slice of a session on the device lacks so many bytes there.
    pub(super) fn want_more(&mut self, session: SessionId, more: u64) {
        let memory = self.sessions.get(&session);
        let priority = memory.map_or(4, |memory| memory.swap.priority);
        match self.swap.wants.iter_mut().find(|it| it.session == session) {
            Some(want) => want.more = more,
            None => self.swap.wants.push(Want {
                session,
                priority,
                more,
                began: None,
                since: Nanos::MAX,
            }),
        }
    }

    /// A session's client forbids to swap it out.
    pub fn pin(&mut self, session: SessionId) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.pinned = true;
        }
    }

    /// The tenants whose sessions are never swapped out.
    pub fn pin_tenants(&mut self, tenants: impl IntoIterator<Item = Tenant>) {
        self.pinned_tenants = tenants.into_iter().collect();
    }

    /// The priority of a session's tenant, 0 (highest) to 4.
    pub fn set_priority(&mut self, session: SessionId, priority: u8) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.priority = priority;
        }
    }

    /// Decides what is to be moved now. To be called whenever something has changed, and now and then
    /// while sessions may hold more than fits.
    pub fn swap(&mut self, now: Nanos, actions: &mut Vec<SwapAction>) {
        self.answer_wants(now, actions);
        if !self.is_overcommitted() {
            return;
        }
        self.serve_wants(now, actions);
        self.relieve(now, actions);
        let (present, capacity) = (self.all.present, self.capacity);
        invariant!(
            I8,
            present <= capacity,
            "{present} bytes are on a device of {capacity}"
        );
    }

    /// Whether sessions may hold more than fits on the device.
    #[must_use]
    pub fn is_overcommitted(&self) -> bool {
        self.limit > self.capacity
    }

    /// Whether somebody waits for memory on the device.
    #[must_use]
    pub fn has_wants(&self) -> bool {
        !self.swap.wants.is_empty()
    }

    /// Answers who has what it wanted by now, or needs it no more. Room for a slice is kept until that
    /// asks again.
    fn answer_wants(&mut self, now: Nanos, actions: &mut Vec<SwapAction>) {
        let mut wants = std::mem::take(&mut self.swap.wants);
        for want in &mut wants {
            let memory = self.sessions.get_mut(&want.session);
            let since = memory.map(|memory| *memory.swap.waits_since.get_or_insert(now));
            want.since = since.unwrap_or(now);
        }
        wants.sort_by_key(|want| (want.priority, want.since, want.session));
        wants.retain_mut(|want| {
            let began = *want.began.get_or_insert(now);
            let waits = !self.has_wanted(want);
            if !waits {
                let session = want.session;
                self.swap.totals.waited_ns += now.saturating_sub(began);
                actions.push(SwapAction::Returned { session });
            }
            waits
        });
        self.swap.wants = wants;
    }

    fn has_wanted(&mut self, want: &Want) -> bool {
        let memory = self.sessions.get(&want.session);
        let Some(memory) = memory.filter(|memory| !memory.closing) else {
            return true;
        };
        let there = memory.swap.place == Place::Resident;
        // Others that may not leave have grown: what nobody committed to it is refused by now.
        let is_committed = memory.commitment.is_some();
        if there && !is_committed && memory.held() + want.more > self.most(want.session) {
            return true;
        }
        let fits = self.all.present + want.more <= self.capacity;
        if there && fits && want.more > 0 {
            self.update(want.session, |memory| memory.swap.kept = want.more);
        }
        there && fits
    }

    /// Brings in who is wanted, and makes room, the most urgent first, then who has waited longest.
    /// Nobody passes the first for whom others must leave.
    fn serve_wants(&mut self, now: Nanos, actions: &mut Vec<SwapAction>) {
        for want in self.swap.wants.clone() {
            let Some(memory) = self.sessions.get(&want.session) else {
                continue;
            };
            let bytes = match memory.swap.place {
                Place::Resident => want.more,
                Place::Out if now >= memory.swap.rests_until => memory.charge,
                Place::Out | Place::Leaving | Place::Coming => continue,
            };
            let lack = (self.all.present + bytes).saturating_sub(self.capacity);
            if lack > 0 {
                return self.make_room(now, want.session, (lack, want.since), actions);
            }
            if memory.swap.place == Place::Out {
                let session = want.session;
                self.place(session, Place::Coming);
                actions.push(SwapAction::In { session });
            }
        }
    }

    /// A session has left: what a slice of it wanted beside what was there, it asks for anew once it has
    /// returned.
    fn left(&mut self, session: SessionId) {
        let mut wants = self.swap.wants.iter_mut();
        if let Some(want) = wants.find(|want| want.session == session) {
            want.more = 0;
        }
    }

    /// Says where a session's memory is from now on.
    fn place(&mut self, session: SessionId, place: Place) {
        self.update(session, |memory| {
            memory.swap.place = place;
            memory.swap.kept = 0;
        });
    }
}

impl SessionMemory {
    /// Bytes of it on the device at most, and kept for it there.
    pub(super) fn present(&self) -> u64 {
        match self.swap.place {
            Place::Out => 0,
            Place::Resident | Place::Leaving | Place::Coming => self.charge + self.swap.kept,
        }
    }
}
