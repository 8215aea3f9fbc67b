//! The state of swapping, of each session and in common.

use bus_schemas::{Place, SessionId};
use device::SwapUse;

use crate::Nanos;

/// The swap state of a session.
#[derive(Debug, Clone, Copy)]
pub(in crate::pager) struct SessionSwap {
    pub(in crate::pager) place: Place,
    /// True if its client forbids to swap it out.
    pub(in crate::pager) pinned: bool,
    /// True if other sessions use its memory, or it theirs.
    pub(in crate::pager) kept_for_others: bool,
    /// Its tenant's priority, 0 (highest) to 4.
    pub(in crate::pager) priority: u8,
    /// Time at which it last ran something, or was swapped in.
    pub(in crate::pager) used_at: Nanos,
    /// Time at which it was last swapped in.
    pub(in crate::pager) came_at: Nanos,
    /// Time until which it is neither evicted nor swapped in again, because it had work or the device could
    /// not move it.
    pub(in crate::pager) rests_until: Nanos,
    /// Bytes kept for it beside those that it has on the device, until it asks for them again.
    pub(in crate::pager) kept: u64,
    /// Start of the time in which it has run nothing for lack of memory.
    pub(in crate::pager) waits_since: Option<Nanos>,
}

impl Default for SessionSwap {
    fn default() -> Self {
        Self {
            place: Place::Resident,
            pinned: false,
            kept_for_others: false,
            // Until its priority is known, a session is not spared.
            priority: 4,
            used_at: 0,
            came_at: 0,
            rests_until: 0,
            kept: 0,
            waits_since: None,
        }
    }
}

/// A session that wants memory on the device: its return, or more of it.
#[derive(Debug, Clone, Copy)]
pub(in crate::pager) struct Want {
    pub(in crate::pager) session: SessionId,
    pub(in crate::pager) priority: u8,
    /// Bytes that a slice of a session on the device lacks there; 0 for a return.
    pub(in crate::pager) more: u64,
    /// True once its slice is admitted: the slice waits for no answer, and no room is kept for it.
    pub(in crate::pager) met: bool,
    /// Time at which the want began, once it was noticed.
    pub(in crate::pager) began: Option<Nanos>,
    /// Start of the time in which its session has run nothing for lack of memory. A session that returned and
    /// lacks more keeps its start.
    pub(in crate::pager) since: Nanos,
}

/// An action of the pager on a session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapAction {
    /// Swap it out once the slices that the device has of the session have run; no more go there. Answer with
    /// [`Pager::moved`](crate::Pager::moved).
    Out {
        /// The session.
        session: SessionId,
        /// True if it leaves even with slices started. Otherwise report such slices with
        /// [`Pager::kept`](crate::Pager::kept).
        busy_too: bool,
    },
    /// Swap it in; there is room. Answer with [`Pager::moved`](crate::Pager::moved).
    In {
        /// The session.
        session: SessionId,
    },
    /// Answers [`Pager::want`](crate::Pager::want): the memory is on the device, or is not needed any more.
    /// Or there is room for a slice that got [`MemoryDecision::Later`]: ask again.
    ///
    /// [`MemoryDecision::Later`]: crate::pager::MemoryDecision::Later
    Returned {
        /// The session.
        session: SessionId,
    },
}

/// Nanoseconds to move a mebibyte before one was measured: 2 GiB a second.
const NS_PER_MIB: u64 = 500_000;

/// The common state of swapping.
#[derive(Debug)]
pub(in crate::pager) struct Swap {
    /// Time without work after which a session is idle.
    pub(in crate::pager) idle_ns: Nanos,
    /// Sessions that want memory on the device, in the order in which they are served.
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
