//! Swapping: the choice of sessions with memory on the device if not all of it fits. `README.md` beside this
//! file describes its purpose and its design.

mod eviction;
mod moves;
mod report;
mod state;

use bus_schemas::{Code, Failure, Place, SessionId, Tenant, invariant};

use super::Pager;
use super::waiting::MemoryAction;
use crate::Nanos;
pub use state::SwapAction;
use state::Want;
pub(super) use state::{SessionSwap, Swap};

impl Pager {
    /// Notes that a session needs its memory on the device: it has work there, or will have.
    pub fn want(&mut self, now: Nanos, session: SessionId, priority: u8) {
        let known = self.swap.wants.iter_mut().find(|it| it.session == session);
        match known {
            Some(want) => {
                want.priority = priority.min(want.priority);
                want.met = false;
            }
            None => self.swap.wants.push(Want {
                session,
                priority,
                more: 0,
                met: false,
                began: Some(now),
                since: now,
            }),
        }
        self.set_priority(session, priority);
    }

    /// Notes that a slice of a session on the device lacks this many bytes there.
    pub(super) fn want_more(&mut self, session: SessionId, more: u64) {
        let memory = self.sessions.get(&session);
        let priority = memory.map_or(4, |memory| memory.swap.priority);
        match self.swap.wants.iter_mut().find(|it| it.session == session) {
            Some(want) => (want.more, want.met) = (more, false),
            None => self.swap.wants.push(Want {
                session,
                priority,
                more,
                met: false,
                began: None,
                since: Nanos::MAX,
            }),
        }
    }

    /// Ends the want of an admitted slice. After a failed move, the slice asks again before it is told of
    /// room.
    pub(super) fn slice_admitted(&mut self, session: SessionId) {
        let mut wants = self.swap.wants.iter_mut();
        if let Some(want) = wants.find(|want| want.session == session && want.more > 0) {
            want.met = true;
        }
    }

    /// Pins a session, because its client forbids to swap it out.
    pub fn pin(&mut self, session: SessionId) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.pinned = true;
        }
    }

    /// Keeps a session on the device because it shares memory with other sessions. This requires that all
    /// sessions which may not leave fit beside the largest of the others, each with the memory promised to it.
    /// Otherwise a session could wait for promised memory for ever.
    ///
    /// # Errors
    /// [`Code::NotPinned`] if they would not fit; then nothing is changed. The failure is retryable if they
    /// would fit once clients have given back the memory that they do not use; they are asked for it.
    pub fn keep(
        &mut self,
        now: Nanos,
        session: SessionId,
        actions: &mut Vec<MemoryAction>,
    ) -> Result<(), Failure> {
        let before = self.pinned();
        let Some(memory) = self.sessions.get_mut(&session) else {
            return Err(Failure::new(Code::SessionGone, "the session has ended"));
        };
        let was = std::mem::replace(&mut memory.swap.kept_for_others, true);
        if was || !self.is_overcommitted() {
            return Ok(());
        }
        let stay = self.pinned();
        let none_leaves = before.iter().all(|id| stay.contains(id));
        if none_leaves && self.promises_fit_beside(&stay) {
            return Ok(());
        }
        let would_fit = none_leaves && self.charges_fit_beside(&stay);
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.kept_for_others = false;
        }
        if would_fit {
            self.recall_unused(now, |_| true, actions);
            let why = "memory is overcommitted, and others were promised memory that they do not use: they are \
                       asked to give it back";
            return Err(Failure {
                retryable: true,
                ..Failure::new(Code::NotPinned, why)
            });
        }
        let why = "memory is overcommitted, and what may not be swapped out would not fit beside another \
                   session: others cannot use this session's memory";
        Err(Failure::new(Code::NotPinned, why))
    }

    /// Sets the tenants with sessions that are never swapped out.
    pub fn pin_tenants(&mut self, tenants: impl IntoIterator<Item = Tenant>) {
        self.pinned_tenants = tenants.into_iter().collect();
    }

    /// Sets the priority of a session's tenant, 0 (highest) to 4.
    pub fn set_priority(&mut self, session: SessionId, priority: u8) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.priority = priority;
        }
    }

    /// Decides on the moves to begin now. Call it after every change, and now and then while sessions may
    /// hold more than fits.
    pub fn swap(&mut self, now: Nanos, actions: &mut Vec<SwapAction>) {
        self.answer_wants(now, actions);
        if !self.is_overcommitted() {
            return;
        }
        self.serve_wants(now, actions);
        self.relieve(now, actions);
        let (present, capacity) = (self.all.present, self.capacity);
        invariant!(
            I8,
            present <= capacity,
            "{present} bytes are on a device of {capacity}"
        );
    }

    /// True if sessions may hold more than fits on the device.
    #[must_use]
    pub fn is_overcommitted(&self) -> bool {
        self.limit > self.capacity
    }

    /// True if time alone may begin a move: a session waits for memory on the device, or others may leave once
    /// they are idle.
    #[must_use]
    pub fn may_move(&self) -> bool {
        self.has_wants() || self.is_overcommitted() && self.excess() > 0
    }

    /// True if a session waits for memory on the device.
    #[must_use]
    pub fn has_wants(&self) -> bool {
        !self.swap.wants.is_empty()
    }

    /// Answers the wants that are met by now, and those of sessions that need nothing more. Room for a slice
    /// is kept until the slice asks again.
    fn answer_wants(&mut self, now: Nanos, actions: &mut Vec<SwapAction>) {
        let mut wants = std::mem::take(&mut self.swap.wants);
        for want in &mut wants {
            let memory = self.sessions.get_mut(&want.session);
            let since = memory.map(|memory| *memory.swap.waits_since.get_or_insert(now));
            want.since = since.unwrap_or(now);
        }
        wants.sort_by_key(|want| (want.priority, want.since, want.session));
        wants.retain_mut(|want| {
            let began = *want.began.get_or_insert(now);
            let waits = !want.met && !self.has_wanted(want);
            if !waits {
                let session = want.session;
                self.count_wait(session, now.saturating_sub(began));
                if !want.met {
                    actions.push(SwapAction::Returned { session });
                }
            }
            waits
        });
        self.swap.wants = wants;
    }

    /// Counts the wait of a session that ends, while its tenant is still known.
    pub(super) fn stop_waiting(&mut self, now: Nanos, session: SessionId) {
        let mut wants = self.swap.wants.iter_mut();
        let want = wants.find(|want| want.session == session);
        let began = want.and_then(|want| want.began.replace(now));
        self.count_wait(session, began.map_or(0, |began| now.saturating_sub(began)));
    }

    fn has_wanted(&mut self, want: &Want) -> bool {
        let memory = self.sessions.get(&want.session);
        let Some(memory) = memory.filter(|memory| !memory.closing) else {
            return true;
        };
        let there = memory.swap.place == Place::Resident;
        // Sessions that may not leave have grown. A session without a commitment is refused memory that no
        // longer fits.
        let is_committed = memory.commitment.is_some();
        if there && !is_committed && memory.held() + want.more > self.most(want.session) {
            return true;
        }
        let fits = self.all.present + want.more <= self.capacity;
        if there && fits && want.more > 0 {
            self.update(want.session, |memory| memory.swap.kept = want.more);
        }
        there && fits
    }

    /// Swaps in sessions that are wanted, and makes room: the most urgent first, then the longest wait. No
    /// want passes the first for which others must leave.
    fn serve_wants(&mut self, now: Nanos, actions: &mut Vec<SwapAction>) {
        for want in self.swap.wants.clone() {
            let Some(memory) = self.sessions.get(&want.session) else {
                continue;
            };
            let bytes = match memory.swap.place {
                Place::Resident => want.more,
                Place::Out if now >= memory.swap.rests_until => memory.charge,
                Place::Out | Place::Leaving | Place::Coming => continue,
            };
            let lack = (self.all.present + bytes).saturating_sub(self.capacity);
            if lack > 0 {
                return self.make_room(now, want.session, (lack, want.since), actions);
            }
            if memory.swap.place == Place::Out {
                let session = want.session;
                self.place(session, Place::Coming);
                actions.push(SwapAction::In { session });
            }
        }
    }

    /// Clears the pending growth of a session that left; its slice asks again after the return.
    fn left(&mut self, session: SessionId) {
        let mut wants = self.swap.wants.iter_mut();
        if let Some(want) = wants.find(|want| want.session == session) {
            want.more = 0;
        }
    }

    /// Sets the place of a session's memory from now on.
    fn place(&mut self, session: SessionId, place: Place) {
        self.update(session, |memory| {
            memory.swap.place = place;
            memory.swap.kept = 0;
        });
    }
}
