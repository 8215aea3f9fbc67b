//! The choice of sessions that leave the device to make room for others.

use std::cmp::Reverse;

use bus_schemas::{Place, SessionId};

use super::{Pager, SwapAction};
use crate::Nanos;
use crate::pager::session::SessionMemory;

/// Time that a session waits before sessions with work are evicted for it too.
const PATIENCE_NS: Nanos = 200_000_000;
/// Minimum time that a session which was swapped in stays while it works: this long, and this many times as
/// long as its move took.
const STAY_NS: Nanos = 50_000_000;
const STAY_MOVES: u64 = 4;
const MIB: u64 = 1 << 20;

/// The reason for evictions.
#[derive(Debug, Clone, Copy)]
struct Cause {
    /// The session that needs room and does not leave itself; `None` if no session waits.
    session: Option<SessionId>,
    priority: u8,
    /// True if it has waited longer than sessions with work are spared.
    is_late: bool,
}

impl Pager {
    /// Evicts sessions for a session that lacks `lack` bytes, unless those that leave already free as much.
    pub(super) fn make_room(
        &mut self,
        now: Nanos,
        session: SessionId,
        (lack, since): (u64, Nanos),
        actions: &mut Vec<SwapAction>,
    ) {
        let priority = self.sessions.get(&session).map_or(4, |it| it.swap.priority);
        let lack = lack.saturating_sub(self.leaving());
        let cause = Cause {
            session: Some(session),
            priority,
            is_late: now.saturating_sub(since) >= PATIENCE_NS,
        };
        let may = self.candidates(now, cause, |_| true);
        self.evict(now, &may, lack, cause.is_late, actions);
    }

    /// Evicts idle sessions before any session waits: if the commitments of sessions on the device do not fit
    /// there, and if a tenant is above a lowered quota.
    pub(super) fn relieve(&mut self, now: Nanos, actions: &mut Vec<SwapAction>) {
        let cause = Cause {
            session: None,
            priority: 4,
            is_late: false,
        };
        let excess = self.excess();
        if excess > 0 {
            let idle = self.candidates(now, cause, |memory| self.is_idle(now, memory));
            self.evict(now, &idle, excess, false, actions);
        }
        for tenant in self.over.clone() {
            let own = |memory: &&SessionMemory| memory.tenant == tenant;
            let stays = |memory: &&SessionMemory| memory.swap.place == Place::Resident;
            let held = self.sessions.values().filter(own).filter(stays);
            let held: u64 = held.map(|memory| memory.charge).sum();
            let quota = self.tenants.get(&tenant).map_or(0, |holding| holding.quota);
            if held > quota {
                let idle = |memory: &SessionMemory| own(&memory) && self.is_idle(now, memory);
                let idle = self.candidates(now, cause, idle);
                self.evict(now, &idle, held - quota, false, actions);
            }
        }
    }

    /// Bytes that sessions on the device may hold beyond its capacity, apart from those on their way out.
    pub(super) fn excess(&self) -> u64 {
        let on_device = |memory: &&SessionMemory| memory.swap.place != Place::Out;
        let committed = self.sessions.values().filter(on_device);
        let committed: u64 = committed.map(|memory| memory.sums().live).sum();
        committed.saturating_sub(self.capacity + self.leaving())
    }

    /// Bytes on their way out.
    fn leaving(&self) -> u64 {
        let leaving = self.sessions.values();
        let leaving = leaving.filter(|memory| memory.swap.place == Place::Leaving);
        leaving.map(|memory| memory.charge).sum()
    }

    pub(super) fn is_idle(&self, now: Nanos, memory: &SessionMemory) -> bool {
        now.saturating_sub(memory.swap.used_at) >= self.swap.idle_ns
    }

    /// Returns the sessions that may leave, in order of eviction: idle ones first, then the less urgent, then
    /// those that have run nothing for longest.
    fn candidates(
        &self,
        now: Nanos,
        cause: Cause,
        which: impl Fn(&SessionMemory) -> bool,
    ) -> Vec<SessionId> {
        let pinned = self.pinned();
        let may = |(id, memory): &(&SessionId, &SessionMemory)| {
            // A session that was told of room asks for it at once.
            let there = memory.swap.place == Place::Resident && memory.swap.kept == 0;
            let there = there && memory.charge > 0;
            let other = cause.session != Some(**id) && !memory.closing;
            there
                && other
                && !pinned.contains(id)
                && which(memory)
                && self.may_leave(now, memory, cause)
        };
        let mut may: Vec<_> = self.sessions.iter().filter(may).collect();
        may.sort_by_key(|(id, memory)| {
            let idle = self.is_idle(now, memory);
            (
                !idle,
                Reverse(memory.swap.priority),
                memory.swap.used_at,
                **id,
            )
        });
        may.into_iter().map(|(id, _)| *id).collect()
    }

    fn may_leave(&self, now: Nanos, memory: &SessionMemory, cause: Cause) -> bool {
        let swap = &memory.swap;
        if swap.priority == 0 && cause.priority > 0 {
            return false;
        }
        let moved = self.swap.ns_per_mib.saturating_mul(memory.charge / MIB);
        let stay = STAY_NS.max(moved.saturating_mul(STAY_MOVES));
        let stayed = swap.came_at == 0 || now.saturating_sub(swap.came_at) >= stay;
        self.is_idle(now, memory) || (swap.priority >= cause.priority && stayed)
    }

    /// Evicts as many of the first candidates as free the lacking bytes; none if all together do not free
    /// enough.
    fn evict(
        &mut self,
        now: Nanos,
        candidates: &[SessionId],
        lack: u64,
        busy_too: bool,
        actions: &mut Vec<SwapAction>,
    ) {
        let charge = |id: &SessionId| self.sessions.get(id).map_or(0, |memory| memory.charge);
        let mut brought = 0;
        let enough = candidates.iter().take_while(|id| {
            let lacks = brought < lack;
            brought += if lacks { charge(id) } else { 0 };
            lacks
        });
        let leave: Vec<SessionId> = enough.copied().collect();
        if brought < lack {
            return;
        }
        for session in leave {
            let memory = self.sessions.get(&session);
            let rests = memory.is_some_and(|memory| now < memory.swap.rests_until);
            let idle = memory.is_some_and(|memory| self.is_idle(now, memory));
            // A session that seems idle but has started slices is not idle, and stays.
            let busy_too = busy_too && !idle;
            if rests && !busy_too {
                continue;
            }
            self.place(session, Place::Leaving);
            actions.push(SwapAction::Out { session, busy_too });
        }
    }

    /// Returns the sessions that may not leave for any other, because their client or tenant forbids it. If
    /// they leave no room for the largest of the other sessions, the last of them may leave after all. A
    /// session with memory that others use never leaves.
    pub(super) fn pinned(&self) -> Vec<SessionId> {
        let is_pinned = |memory: &SessionMemory| {
            memory.swap.pinned || self.pinned_tenants.contains(&memory.tenant)
        };
        let kept = |memory: &SessionMemory| memory.swap.kept_for_others;
        let stays = |memory: &SessionMemory| is_pinned(memory) || kept(memory);
        let others = self.sessions.values().filter(|memory| !stays(memory));
        let largest = others.map(|memory| memory.charge).max().unwrap_or(0);
        // The device cannot move a session with memory that others use, so these come first.
        let first = self.sessions.iter().filter(|(_, memory)| kept(memory));
        let first: Vec<_> = first.map(|(id, memory)| (*id, memory.charge)).collect();
        let taken = first.iter().map(|(_, charge)| charge).sum::<u64>();
        let mut room = self.capacity.saturating_sub(largest.saturating_add(taken));
        let pinned = self
            .sessions
            .iter()
            .filter(|(_, memory)| is_pinned(memory) && !kept(memory));
        let fits = pinned.take_while(|(_, memory)| {
            let fits = memory.charge <= room;
            room = room.saturating_sub(memory.charge);
            fits
        });
        let first = first.into_iter().map(|(id, _)| id);
        first.chain(fits.map(|(id, _)| *id)).collect()
    }

    /// True if the sessions that stay fit beside the largest of the others, each with the memory promised to it.
    pub(super) fn promises_fit_beside(&self, stay: &[SessionId]) -> bool {
        self.fits_beside(stay, |memory| {
            let sums = memory.sums();
            sums.live.max(sums.charge)
        })
    }

    /// The same with the memory that each can hold now.
    pub(super) fn charges_fit_beside(&self, stay: &[SessionId]) -> bool {
        self.fits_beside(stay, |memory| memory.charge)
    }

    /// True if the sessions that stay fit on the device beside the largest of the others, by these bytes. Those of
    /// priority 0 stay for all others.
    fn fits_beside(&self, stay: &[SessionId], bytes: impl Fn(&SessionMemory) -> u64) -> bool {
        let (mut staying, mut urgent) = (0_u64, 0_u64);
        let (mut largest_urgent, mut largest) = (0, 0);
        for (id, memory) in &self.sessions {
            let bytes = bytes(memory);
            if stay.contains(id) {
                staying = staying.saturating_add(bytes);
            } else if memory.swap.priority == 0 {
                urgent = urgent.saturating_add(bytes);
                largest_urgent = bytes.max(largest_urgent);
            } else {
                largest = bytes.max(largest);
            }
        }
        let least = match largest {
            0 => largest_urgent,
            largest => urgent.saturating_add(largest),
        };
        staying.saturating_add(least) <= self.capacity
    }

    /// Maximum bytes that a session may hold: those that fit on the device beside the sessions that do not
    /// leave for it.
    pub(in crate::pager) fn most(&self, session: SessionId) -> u64 {
        self.most_beside(session, |_, memory| memory.sums().live)
    }

    /// The same with `holds` for the bytes of the other sessions.
    pub(in crate::pager) fn most_beside(
        &self,
        session: SessionId,
        holds: impl Fn(SessionId, &SessionMemory) -> u64,
    ) -> u64 {
        if !self.is_overcommitted() {
            return self.capacity;
        }
        let own = self.sessions.get(&session);
        let priority = own.map_or(4, |memory| memory.swap.priority);
        let pinned = self.pinned();
        let others = self.sessions.iter().filter(|(id, _)| **id != session);
        let (mut stay, mut largest) = (0, 0);
        for (id, memory) in others {
            let bytes = holds(*id, memory);
            let stays = pinned.contains(id) || (memory.swap.priority == 0 && priority > 0);
            if stays {
                stay += bytes;
            } else {
                largest = bytes.max(largest);
            }
        }
        let beside = if pinned.contains(&session) {
            largest
        } else {
            0
        };
        self.capacity.saturating_sub(stay + beside)
    }
}
