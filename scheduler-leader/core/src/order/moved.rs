//! Which sessions have moved since that was last asked: whoever tells their clients need not look for
//! each of them.

use bus_schemas::SessionId;

use super::Order;
use crate::queue::Progress;

/// A session that has moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Move {
    /// The session.
    pub(crate) session: SessionId,
    /// Its place among those that there are.
    pub(crate) place: u32,
    /// How far it has come.
    pub(crate) progress: Progress,
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
    pub(crate) fn take_moved(&mut self, into: &mut Vec<Move>) {
        let before = into.len();
        let mut moved = std::mem::take(&mut self.moved);
        let Moved { marks, slots } = &mut moved;
        for slot in slots.drain(..) {
            let mark = std::mem::take(&mut marks[slot as usize]);
            if let Some(session) = &self.sessions[slot as usize] {
                into.push(Move {
                    session: session.id,
                    place: slot,
                    progress: Progress {
                        granted: session.queue.granted(),
                        done: session.queue.done(),
                        alone: session.standing.is_some() && self.is_alone(slot),
                    },
                    reported: mark == Mark::Reported,
                });
            }
        }
        self.moved = moved;
        into[before..].sort_unstable_by_key(|it| it.session);
    }

    /// Whether a session is the only one of its worker, under a standing grant, and of a tenant
    /// without a target.
    fn is_alone(&self, slot: u32) -> bool {
        let session = self.sessions[slot as usize].as_ref();
        session.is_some_and(|session| {
            let worker = &self.workers[session.worker as usize];
            let stands = worker.standing == Some(slot) && worker.sessions == 1;
            stands && self.tenants[session.tenant as usize].settings.slo_ns == 0
        })
    }
}
