//! Which sessions have moved since that was last asked: whoever tells their clients need not look for
//! each of them.

use bus_schemas::{OpNumber, SessionId};

use super::Order;

/// How far a session has come that has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    /// The session.
    pub(crate) session: SessionId,
    /// Its place among those that there are.
    pub(crate) place: u32,
    /// Ops granted.
    pub(crate) granted: OpNumber,
    /// Ops done.
    pub(crate) done: OpNumber,
    /// Its worker reported of it.
    pub(crate) reported: bool,
}

/// What moved a session, the more telling the higher.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    #[default]
    None,
    Granted,
    Reported,
}

/// The sessions that have moved, each once, whether anybody asks or not.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// By session.
    marks: Vec<Mark>,
    slots: Vec<u32>,
}

impl Moved {
    /// A session has moved.
    pub(super) fn note(&mut self, slot: u32, mark: Mark) {
        let at = slot as usize;
        if at >= self.marks.len() {
            self.marks.resize(at + 1, Mark::None);
        }
        let known = &mut self.marks[at];
        if *known == Mark::None {
            self.slots.push(slot);
        }
        *known = mark.max(*known);
    }
}

impl Order {
    /// Appends what has moved since this was last called, by session, and is there still.
    pub(crate) fn take_moved(&mut self, into: &mut Vec<Progress>) {
        let before = into.len();
        let Moved { marks, slots } = &mut self.moved;
        for slot in slots.drain(..) {
            let mark = std::mem::take(&mut marks[slot as usize]);
            if let Some(session) = &self.sessions[slot as usize] {
                into.push(Progress {
                    session: session.id,
                    place: slot,
                    granted: session.queue.granted(),
                    done: session.queue.done(),
                    reported: mark == Mark::Reported,
                });
            }
        }
        into[before..].sort_unstable_by_key(|progress| progress.session);
    }
}
