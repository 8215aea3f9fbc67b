//! The sessions with progress since they were last taken. To notify clients, the leader need not
//! look at every session.

use bus_schemas::SessionId;

use super::apply::Scheduler;
use super::state::{DirtySessions, Mark};
use crate::queue::QueueProgress;
use crate::slots::SessionSlot;

/// A session with progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirtySession {
    /// The session.
    pub(crate) session: SessionId,
    /// Its slot.
    pub(crate) slot: SessionSlot,
    /// Its progress.
    pub(crate) progress: QueueProgress,
    /// True if its worker reported on it.
    pub(crate) reported: bool,
}

impl Scheduler {
    /// Appends the sessions with progress since the last call that still exist, by id.
    pub(crate) fn take_dirty_sessions(&mut self, into: &mut Vec<DirtySession>) {
        let before = into.len();
        let mut dirty = std::mem::take(&mut self.dirty_sessions);
        let DirtySessions { marks, slots } = &mut dirty;
        for slot in slots.drain(..) {
            let mark = std::mem::take(&mut marks[slot]);
            if let Some(session) = &self.sessions[slot] {
                into.push(DirtySession {
                    session: session.id,
                    slot,
                    progress: QueueProgress {
                        granted: session.queue.granted(),
                        done: session.queue.done(),
                        alone: session.standing.is_some() && self.is_alone(slot),
                    },
                    reported: mark == Mark::Reported,
                });
            }
        }
        self.dirty_sessions = dirty;
        if let Some(taken) = into.get_mut(before..) {
            taken.sort_unstable_by_key(|it| it.session);
        }
    }

    /// Returns true if a session is the only one of its worker, has a standing grant, and its
    /// tenant has no target.
    fn is_alone(&self, slot: SessionSlot) -> bool {
        let session = self.sessions[slot].as_ref();
        session.is_some_and(|session| {
            let worker = &self.workers[session.worker];
            let stands = worker.standing == Some(slot) && worker.sessions == 1;
            stands && self.tenants[session.tenant].settings.slo_ns == 0
        })
    }
}
