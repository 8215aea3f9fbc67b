//! The end of moves of sessions' memory, and refused evictions.

use bus_schemas::{Place, SessionId};
use device::Moved;

use super::Pager;
use crate::Nanos;

const MIB: u64 = 1 << 20;
/// Time for which a session is left alone after it had work, or could not be moved.
const REST_NS: Nanos = 20_000_000;

impl Pager {
    /// Keeps a session that was to leave, because it has work.
    pub fn kept(&mut self, now: Nanos, session: SessionId) {
        self.update(session, |memory| {
            if memory.swap.place == Place::Leaving {
                memory.swap.place = Place::Resident;
                memory.swap.rests_until = now + REST_NS;
                memory.swap.used_at = now;
            }
        });
    }

    /// Handles the end of a move. A failed one is tried again after a while.
    pub fn moved(&mut self, now: Nanos, ended: &Moved) {
        let expected = match ended.out {
            true => Place::Leaving,
            false => Place::Coming,
        };
        let has_failed = ended.failure.is_some();
        let moved = self.update(ended.session, |memory| {
            let swap = &mut memory.swap;
            if swap.place != expected {
                return false;
            }
            swap.place = match ended.out == has_failed {
                true => Place::Resident,
                false => Place::Out,
            };
            if has_failed {
                swap.rests_until = now + REST_NS;
            } else if !ended.out {
                (swap.used_at, swap.came_at) = (now, now);
            }
            !has_failed
        });
        if moved == Some(true) {
            if ended.out {
                self.left(ended.session);
            }
            self.count_move(ended);
            self.measure_move(ended);
            self.carry(now, ended.session, ended.out);
        }
    }

    fn measure_move(&mut self, ended: &Moved) {
        let swap = &mut self.swap;
        if ended.bytes >= MIB {
            let took = u64::try_from(ended.took.as_nanos()).unwrap_or(u64::MAX);
            let ns = took / (ended.bytes / MIB);
            swap.ns_per_mib = ((swap.ns_per_mib * 3).saturating_add(ns) / 4).max(1);
        }
    }

    /// Notes that a session has run something.
    pub(in crate::pager) fn used(&mut self, now: Nanos, session: SessionId) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.used_at = now.max(memory.swap.used_at);
            memory.swap.rests_until = 0;
            memory.swap.waits_since = None;
        }
    }
}
