//! A session in turns: where its memory is, and what it has to do.

/// What a session has to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// Something is not done.
    pub(crate) busy: bool,
    /// Something could be granted if only its memory were there.
    pub(crate) ready: bool,
    /// Something is granted and not done.
    pub(crate) granted: bool,
    /// Its tenant is suspended.
    pub(crate) suspended: bool,
}

/// Where the leader has a session's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On the device, since this tick.
    There { since: u64 },
    /// To be there once its return has ended.
    Coming,
    /// Elsewhere, and nobody needs it.
    Away,
    /// Elsewhere, and its session has work: its number in the line, and the tick since which it waits.
    Waiting { number: u64, since: u64 },
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) bytes: u64,
    pub(super) pinned: bool,
    /// Its worker did not say last that it is on the device.
    pub(super) out: bool,
    /// Its worker said last what it holds.
    pub(super) listed: bool,
    pub(super) place: Place,
    /// A return of it was granted and is not reported.
    pub(super) asked: bool,
    /// The tick since which it has no work that is not done.
    pub(super) idle: Option<u64>,
    /// Something of it is granted and not done.
    pub(super) granted: bool,
}

impl Member {
    /// One that is there, as far as is known yet, and perhaps about to return.
    pub(super) fn new(now: u64, asked: bool) -> Self {
        Self {
            bytes: 0,
            pinned: false,
            out: false,
            listed: true,
            place: Place::There { since: now },
            asked,
            idle: Some(now),
            granted: false,
        }
    }
}
