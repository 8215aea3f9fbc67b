//! What swapping knows: of each session, and beside them.

use bus_schemas::{Place, SessionId};

use crate::Nanos;

/// How a session is swapped.
#[derive(Debug, Clone, Copy)]
pub(in crate::pager) struct SessionSwap {
    pub(in crate::pager) place: Place,
    /// Its client forbids it.
    pub(in crate::pager) pinned: bool,
    /// Others use its memory, or it theirs.
    pub(in crate::pager) kept_for_others: bool,
    /// Its tenant's, 0 (highest) to 4.
    pub(in crate::pager) priority: u8,
    /// When it last ran something, or came back.
    pub(in crate::pager) used_at: Nanos,
    /// When it came back last.
    pub(in crate::pager) came_at: Nanos,
    /// Until then it is not asked to leave, or to come, again: it had something to run, or the device
    /// could not move it.
    pub(in crate::pager) rests_until: Nanos,
    /// Bytes beside what it has on the device that are kept for it, until it asks for them again.
    pub(in crate::pager) kept: u64,
    /// Since when it has run nothing for want of memory.
    pub(in crate::pager) waits_since: Option<Nanos>,
}

impl Default for SessionSwap {
    fn default() -> Self {
        Self {
            place: Place::Resident,
            pinned: false,
            kept_for_others: false,
            // Nobody stays for others before it is known how urgent it is.
            priority: 4,
            used_at: 0,
            came_at: 0,
            rests_until: 0,
            kept: 0,
            waits_since: None,
        }
    }
}

/// A session that wants memory on the device: its own back, or more of it.
#[derive(Debug, Clone, Copy)]
pub(in crate::pager) struct Want {
    pub(in crate::pager) session: SessionId,
    pub(in crate::pager) priority: u8,
    /// Bytes that a slice of a session that is there wants beside what is there; 0 for its return.
    pub(in crate::pager) more: u64,
    /// Set once its slice is admitted: the slice waits for no answer, and no room is kept for it.
    pub(in crate::pager) met: bool,
    /// When it began to want that, once that was noticed.
    pub(in crate::pager) began: Option<Nanos>,
    /// Since when its session has run nothing for want of memory: who came back and lacks more goes on
    /// waiting where it was.
    pub(in crate::pager) since: Nanos,
}

/// An action of the pager: something to do with a session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapAction {
    /// Swap it out once what the session has on the device has run; nothing more of it goes there.
    /// Answer with [`Pager::moved`](crate::Pager::moved).
    Out {
        /// The session.
        session: SessionId,
        /// Also where slices of it are started; else that is to be told by [`Pager::kept`](crate::Pager::kept).
        busy_too: bool,
    },
    /// Bring it in: there is room. Answer with [`Pager::moved`](crate::Pager::moved).
    In {
        /// The session.
        session: SessionId,
    },
    /// It is on the device, or needs it no more: the answer to [`Pager::want`](crate::Pager::want). Or there is room for the
    /// slice that was told [`MemoryDecision::Later`]: ask again.
    ///
    /// [`MemoryDecision::Later`]: crate::pager::MemoryDecision::Later
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

/// What swapping knows beside the sessions.
#[derive(Debug)]
pub(in crate::pager) struct Swap {
    /// A session that ran nothing for so long is idle.
    pub(in crate::pager) idle_ns: Nanos,
    /// Who wants memory on the device, in the order in which they are served.
    pub(in crate::pager) wants: Vec<Want>,
    pub(in crate::pager) ns_per_mib: u64,
    pub(in crate::pager) used: SwapUse,
}

impl Swap {
    pub(in crate::pager) fn new(idle_ns: Nanos) -> Self {
        Self {
            idle_ns,
            wants: Vec::new(),
            ns_per_mib: NS_PER_MIB,
            used: SwapUse::default(),
        }
    }
}
