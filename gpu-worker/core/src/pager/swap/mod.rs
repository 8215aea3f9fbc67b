//! Swapping: which sessions' memory is on the device where not all of it fits. `README.md` beside this
//! file says what for and how.

mod eviction;
mod moves;
mod report;
mod state;

use bus_schemas::{Code, Failure, Place, SessionId, Tenant, invariant};

use super::Pager;
use crate::Nanos;
use state::Want;
pub use state::{MoveEnded, SwapAction, SwapUse};
pub(super) use state::{SessionSwap, Swap};

impl Pager {
    /// The memory of a session is wanted on the device: it has something to run there, or will have.
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

    /// A slice of a session on the device lacks so many bytes there.
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

    /// Ends the want of a slice that was admitted. After a move that failed the slice asks again before
    /// it is told that there is room.
    pub(super) fn slice_admitted(&mut self, session: SessionId) {
        let mut wants = self.swap.wants.iter_mut();
        if let Some(want) = wants.find(|want| want.session == session && want.more > 0) {
            want.met = true;
        }
    }

    /// A session's client forbids to swap it out.
    pub fn pin(&mut self, session: SessionId) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.pinned = true;
        }
    }

    /// Others are to use a session's memory, or it theirs: it must not be swapped out any more. That holds
    /// only while those that may not leave fit beside the largest of the others.
    ///
    /// # Errors
    /// [`Code::NotPinned`] where they would not, and nothing is changed.
    pub fn keep(&mut self, session: SessionId) -> Result<(), Failure> {
        let before = self.pinned();
        let Some(memory) = self.sessions.get_mut(&session) else {
            return Err(Failure::new(Code::SessionGone, "the session has ended"));
        };
        let was = std::mem::replace(&mut memory.swap.kept_for_others, true);
        if was || !self.is_overcommitted() {
            return Ok(());
        }
        let now = self.pinned();
        let charge = |id: &SessionId| self.sessions.get(id).map_or(0, |memory| memory.charge);
        let stay = now.iter().map(charge).sum::<u64>();
        let others = self.sessions.keys().filter(|id| !now.contains(id));
        let largest = others.map(charge).max().unwrap_or(0);
        let fits = stay.saturating_add(largest) <= self.capacity;
        if fits && before.iter().all(|id| now.contains(id)) {
            return Ok(());
        }
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.kept_for_others = false;
        }
        let why = "memory is overcommitted, and what may not be swapped out would not fit beside another \
                   session: others cannot use this session's memory";
        Err(Failure::new(Code::NotPinned, why))
    }

    /// The tenants whose sessions are never swapped out.
    pub fn pin_tenants(&mut self, tenants: impl IntoIterator<Item = Tenant>) {
        self.pinned_tenants = tenants.into_iter().collect();
    }

    /// The priority of a session's tenant, 0 (highest) to 4.
    pub fn set_priority(&mut self, session: SessionId, priority: u8) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.swap.priority = priority;
        }
    }

    /// Decides what is to be moved now. To be called whenever something has changed, and now and then
    /// while sessions may hold more than fits.
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

    /// Whether sessions may hold more than fits on the device.
    #[must_use]
    pub fn is_overcommitted(&self) -> bool {
        self.limit > self.capacity
    }

    /// Whether somebody waits for memory on the device.
    #[must_use]
    pub fn has_wants(&self) -> bool {
        !self.swap.wants.is_empty()
    }

    /// Answers who has what it wanted by now, or needs it no more. Room for a slice is kept until that
    /// asks again.
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

    /// A session ends: what it waited until now is counted while it is known whose it was.
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
        // Others that may not leave have grown: what nobody committed to it is refused by now.
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

    /// Brings in who is wanted, and makes room, the most urgent first, then who has waited longest.
    /// Nobody passes the first for whom others must leave.
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

    /// A session has left: what a slice of it wanted beside what was there, it asks for anew once it has
    /// returned.
    fn left(&mut self, session: SessionId) {
        let mut wants = self.swap.wants.iter_mut();
        if let Some(want) = wants.find(|want| want.session == session) {
            want.more = 0;
        }
    }

    /// Says where a session's memory is from now on.
    fn place(&mut self, session: SessionId, place: Place) {
        self.update(session, |memory| {
            memory.swap.place = place;
            memory.swap.kept = 0;
        });
    }
}
