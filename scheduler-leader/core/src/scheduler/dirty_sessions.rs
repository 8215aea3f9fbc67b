//! The sessions that have got further since they were last taken: whoever notifies their clients need
//! not look at every session.

use bus_schemas::SessionId;

use super::Scheduler;
use crate::queue::Progress;

/// A session that has got further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirtySession {
    /// The session.
    pub(crate) session: SessionId,
    /// Its place among those that there are.
    pub(crate) place: u32,
    /// How far it has come.
    pub(crate) progress: Progress,
    /// Its worker reported of it.
    pub(crate) reported: bool,
}

/// What brought a session further; the higher one counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mark {
    #[default]
    None,
    Granted,
    Reported,
}

/// The sessions that have got further, each once.
#[derive(Debug, Default)]
pub(super) struct DirtySessions {
    /// By session.
    marks: Vec<Mark>,
    slots: Vec<u32>,
}

impl DirtySessions {
    /// Notes that a session has got further.
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

impl Scheduler {
    /// Appends the sessions that got further since this was last called and still exist, by id.
    pub(crate) fn take_dirty_sessions(&mut self, into: &mut Vec<DirtySession>) {
        let before = into.len();
        let mut dirty = std::mem::take(&mut self.dirty_sessions);
        let DirtySessions { marks, slots } = &mut dirty;
        for slot in slots.drain(..) {
            let mark = std::mem::take(&mut marks[slot as usize]);
            if let Some(session) = &self.sessions[slot as usize] {
                into.push(DirtySession {
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
        self.dirty_sessions = dirty;
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
