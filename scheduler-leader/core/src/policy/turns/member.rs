//! A session in turns: the place of its memory, and its work.

/// The work of a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// True if something is not done.
    pub(crate) busy: bool,
    /// True if work could be granted as soon as its memory is there.
    pub(crate) ready: bool,
    /// True if work is granted and not done.
    pub(crate) granted: bool,
    /// True if its tenant is suspended.
    pub(crate) suspended: bool,
}

/// The place of a session's memory, as the leader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// On the device, since this tick.
    There { since: u64 },
    /// On its way: it is there once its return has ended.
    Coming,
    /// Elsewhere, and not needed.
    Away,
    /// Elsewhere, and its session has work: its number in the line, and the tick since which it
    /// waits.
    Waiting { number: u64, since: u64 },
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) bytes: u64,
    pub(super) pinned: bool,
    /// True if its worker's last report did not place it on the device.
    pub(super) out: bool,
    /// True if its worker's last report listed it.
    pub(super) listed: bool,
    pub(super) place: Place,
    /// True if a return of it was granted and is not reported.
    pub(super) asked: bool,
    /// The tick at which it became idle; `None` while it has work that is not done.
    pub(super) idle: Option<u64>,
    /// True if some of its work is granted and not done.
    pub(super) granted: bool,
}

impl Member {
    /// A session that counts as there until a report says otherwise, and that perhaps is about to
    /// return.
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
