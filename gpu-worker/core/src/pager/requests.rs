//! Requests for memory: a client asks before it allocates, so that a failed allocation fails in the call that
//! asked.
//!
//! A client is committed somewhat more than it holds, so that most allocations need no request. Before
//! refusing, the pager recalls commitments that are not used. It also waits for memory that ops sent before
//! will free, and for memory of sessions that are being closed. Each of these waits is bounded.

use std::collections::BTreeMap;

use bus_schemas::{Failure, MemoryAnswer, OpNumber, SessionId, Tenant, invariant};

use super::Pager;
use super::commitment::Commitment;
use super::session::SessionMemory;
use super::tally::{over_capacity, over_most, over_quota};
use super::waiting::{MemoryAction, MemoryRequested, Waiting};
use crate::Nanos;

/// Minimum time between two recalls of a session: for its own tenant, and for another tenant or a lowered
/// quota. A request that cannot be met makes no more work for other clients than that.
const PAUSE_OWN_NS: Nanos = 5_000_000;
const PAUSE_NS: Nanos = 100_000_000;
/// Maximum time that a request waits for freed memory and for sessions that are being closed.
const WAIT_NS: Nanos = 10_000_000_000;

/// Memory that sessions hold at least, whatever they free: on the device, and by tenant.
struct Floors {
    device: u64,
    tenants: BTreeMap<Tenant, u64>,
}

impl Pager {
    /// Handles a client's request. A request of an unknown session is dropped; its client asks again.
    pub fn request(
        &mut self,
        now: Nanos,
        requested: MemoryRequested,
        actions: &mut Vec<MemoryAction>,
    ) {
        let session = requested.session;
        let Some(memory) = self.sessions.get_mut(&session) else {
            return;
        };
        let commitment = memory.commitment.get_or_insert_default();
        let waits = |waiting: &Waiting| waiting.requested.session == session;
        commitment.obeyed(requested.recall);
        if requested.number < commitment.number || self.closes(session) {
            return;
        }
        if requested.number == self.number(session) {
            // Its answer was lost, or there is none yet.
            if !self.waiting.iter().any(waits) {
                self.answer(requested, None, actions);
            }
            return;
        }
        self.waiting.retain(|waiting| !waits(waiting));
        // While it waits for the answer, its client uses no more than it holds.
        let has_enough = self.update(session, |memory| {
            let commitment = memory.commitment.get_or_insert_default();
            commitment.number = requested.number;
            let has_enough = requested.wanted <= commitment.last();
            let most = if has_enough {
                requested.wanted
            } else {
                requested.held
            };
            commitment.set(requested.after, most.min(commitment.last()));
            has_enough
        });
        let waiting = Waiting {
            requested,
            since: now,
        };
        if has_enough == Some(true) {
            self.answer(requested, None, actions);
        } else if requested.least <= self.promised(session) {
            // The client has the memory that it needs and goes on: it waits for nothing, and has not said
            // what it holds. While other requests wait for the memory that it would get, it gets no more.
            match self.is_needed_by_others(session) {
                false => drop(self.decide(now, &waiting, actions)),
                true => self.answer(requested, None, actions),
            }
        } else {
            self.waiting.push(waiting);
        }
        self.settle(now, actions);
    }

    /// True if a request waits for memory that this session would get ahead of need: of its tenant's quota,
    /// or of the device.
    fn is_needed_by_others(&self, session: SessionId) -> bool {
        let own = self.owner(session);
        self.waiting.iter().any(|waiting| {
            let room = self.room(waiting.session(), waiting.requested.least);
            room.is_some_and(|(tenant, _, lacks_quota)| own == Some(&tenant) || !lacks_quota)
        })
    }

    /// Notes that a session is being closed; its memory will be free.
    pub fn closing(&mut self, session: SessionId) {
        if let Some(memory) = self.sessions.get_mut(&session) {
            memory.closing = true;
        }
        self.waiting
            .retain(|waiting| waiting.requested.session != session);
    }

    /// Returns the tenant of a session.
    #[must_use]
    pub fn owner(&self, session: SessionId) -> Option<&Tenant> {
        self.sessions.get(&session).map(|memory| &memory.tenant)
    }

    /// Returns the message that recalls a session's unused memory.
    #[must_use]
    pub fn recall_message(&self, session: SessionId) -> Option<MemoryAnswer> {
        let memory = self.sessions.get(&session)?;
        let commitment = memory.commitment.as_ref()?;
        let has = self.memory(session, memory.live)?;
        let recall = commitment.recall();
        Some(MemoryAnswer {
            recall,
            ..has.answer(0, commitment.last(), None)
        })
    }

    /// True if a request waits, or a tenant is above its lowered quota. Then call [`Pager::settle`] now and
    /// then.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty() || !self.over.is_empty()
    }

    /// Decides again on the waiting requests, the oldest first, because memory has become free or the time to
    /// refuse has come.
    pub fn settle(&mut self, now: Nanos, actions: &mut Vec<MemoryAction>) {
        self.recall_from_over(now, actions);
        let mut at = 0;
        while let Some(waiting) = self.waiting.get(at).copied() {
            if self.decide(now, &waiting, actions) {
                self.waiting.remove(at);
            } else {
                at += 1;
            }
        }
    }

    /// Recalls memory that tenants above a lowered quota have freed since.
    fn recall_from_over(&mut self, now: Nanos, actions: &mut Vec<MemoryAction>) {
        let tenants = &self.tenants;
        self.over.retain(|tenant| {
            let holding = tenants.get(tenant);
            holding.is_some_and(|holding| holding.live > holding.quota)
        });
        if self.over.is_empty() {
            return;
        }
        let over = std::mem::take(&mut self.over);
        self.recall_unused(now, |tenant| over.contains(tenant), actions);
        self.over = over;
    }

    /// Asks the clients of these tenants for the memory that they were promised and have not allocated.
    pub(super) fn recall_unused(
        &mut self,
        now: Nanos,
        of: impl Fn(&Tenant) -> bool,
        actions: &mut Vec<MemoryAction>,
    ) {
        for (session, memory) in &mut self.sessions {
            let Some(commitment) = &mut memory.commitment else {
                continue;
            };
            // A client that waits has said already what it holds.
            let waits = self.waiting.iter().any(|it| it.session() == *session);
            let has_unused = memory.live < commitment.last() && !waits && !memory.closing;
            if has_unused
                && of(&memory.tenant)
                && let Some(number) = commitment.ask(now, now, PAUSE_NS)
            {
                let session = *session;
                actions.push(MemoryAction::Recall { session, number });
            }
        }
    }

    /// Decides on a request. Returns true if it is answered now.
    fn decide(&mut self, now: Nanos, waiting: &Waiting, actions: &mut Vec<MemoryAction>) -> bool {
        let requested = waiting.requested;
        let session = requested.session;
        let Some((tenant, room, lacks_quota)) = self.room(session, requested.least) else {
            return true;
        };
        if requested.least <= room {
            let bytes = if requested.wanted <= room {
                requested.wanted
            } else {
                requested.least
            };
            self.commit(session, requested.after, bytes);
            self.answer(requested, None, actions);
            return true;
        }
        if requested.least <= self.promised(session) {
            // The client has the memory that it needs, and asked for more ahead of need.
            self.answer(requested, None, actions);
            return true;
        }
        self.recall(
            (now, waiting.since),
            session,
            (&tenant, lacks_quota),
            actions,
        );
        let waited = now.saturating_sub(waiting.since);
        let lacks_for_good = self.lacks_for_good(now, waiting, &tenant);
        if waited < WAIT_NS && lacks_for_good.is_none() {
            return false;
        }
        let lacks_quota = lacks_for_good.unwrap_or(lacks_quota);
        let failure = self.refusal(session, requested.least, lacks_quota);
        self.answer(requested, Some(failure), actions);
        true
    }

    fn commit(&mut self, session: SessionId, after: OpNumber, bytes: u64) {
        self.update(session, |memory| {
            let commitment = memory.commitment.get_or_insert_default();
            commitment.set(after, bytes);
        });
        let (live, limit) = (self.all.live, self.limit);
        invariant!(
            I8,
            live <= limit,
            "{live} bytes of {limit} are committed or held"
        );
    }

    /// Returns the tenant of a session, the bytes that the session may hold beside others, and true if
    /// `least` bytes exceed what its tenant's quota leaves.
    fn room(&self, session: SessionId, least: u64) -> Option<(Tenant, u64, bool)> {
        let memory = self.sessions.get(&session)?;
        let holding = self.tenants.get(&memory.tenant)?;
        let own = memory.sums();
        let tenant = (holding.live - own.live).max(holding.charge - own.charge);
        let device = (self.all.live - own.live).max(self.all.charge - own.charge);
        let by_quota = holding.quota.saturating_sub(tenant);
        let by_capacity = self.limit.saturating_sub(device).min(self.most(session));
        let room = by_quota.min(by_capacity).saturating_sub(memory.fixed);
        let lacks_quota = least.saturating_add(memory.fixed) > by_quota;
        Some((memory.tenant.clone(), room, lacks_quota))
    }

    /// Returns the limit that blocks a request even once all memory that may become free has: true for the
    /// quota, false for the device's memory. `None` if the request can be met then.
    fn lacks_for_good(&self, now: Nanos, waiting: &Waiting, tenant: &Tenant) -> Option<bool> {
        let (session, least) = (waiting.session(), waiting.requested.least);
        let mut floors = Floors {
            device: 0,
            tenants: BTreeMap::new(),
        };
        let floor_of = |other: SessionId, memory: &SessionMemory| {
            let waits = self.waiting.iter().any(|it| it.session() == other);
            match &memory.commitment {
                _ if memory.closing => 0,
                Some(commitment) if waits => commitment.last() + memory.fixed,
                Some(commitment) => commitment.kept(now, waiting.since, memory.live) + memory.fixed,
                None => memory.live + memory.fixed,
            }
        };
        for (other, memory) in self.sessions.iter().filter(|(id, _)| **id != session) {
            let floor = floor_of(*other, memory);
            floors.device += floor;
            *floors.tenants.entry(memory.tenant.clone()).or_default() += floor;
        }
        let quota = self.tenants.get(tenant).map_or(0, |holding| holding.quota);
        let others = floors.tenants.get(tenant).copied().unwrap_or(0);
        let fixed = self.sessions.get(&session).map_or(0, |own| own.fixed);
        let least = least.saturating_add(fixed);
        let fits = |most: u64, others: u64| least <= most.saturating_sub(others);
        if !fits(quota, others) {
            Some(true)
        } else if !fits(self.limit, floors.device) || least > self.most_beside(session, floor_of) {
            Some(false)
        } else {
            None
        }
    }

    /// Asks the clients of other sessions for unused memory: those of the same tenant, or all if the request
    /// does not lack quota. Frees may not be known here yet, so each client is asked once after the request
    /// came, at `since`.
    fn recall(
        &mut self,
        (now, since): (Nanos, Nanos),
        but: SessionId,
        (tenant, lacks_quota): (&Tenant, bool),
        actions: &mut Vec<MemoryAction>,
    ) {
        for (session, memory) in &mut self.sessions {
            let is_own = *tenant == memory.tenant;
            // A client that waits has said already what it holds.
            let waits = self.waiting.iter().any(|it| it.session() == *session);
            if *session == but || waits || memory.closing || (lacks_quota && !is_own) {
                continue;
            }
            let pause = if is_own { PAUSE_OWN_NS } else { PAUSE_NS };
            let commitment = memory.commitment.as_mut();
            if let Some(number) = commitment.and_then(|it| it.ask(now, since, pause)) {
                let session = *session;
                actions.push(MemoryAction::Recall { session, number });
            }
        }
    }

    fn refusal(&self, session: SessionId, least: u64, lacks_quota: bool) -> Failure {
        let memory = self.sessions.get(&session);
        let holding = memory.and_then(|memory| self.tenants.get(&memory.tenant));
        let own = memory.map_or(0, |memory| memory.sums().live);
        let more = least.saturating_sub(memory.map_or(0, |memory| memory.live));
        match holding {
            Some(holding) if lacks_quota => {
                over_quota(more, holding.quota, holding.live - own + least - more)
            }
            _ if least > self.most(session) => over_most(more, self.most(session), least - more),
            _ => over_capacity(more, self.limit, self.all.live - own + least - more),
        }
    }

    fn answer(
        &self,
        requested: MemoryRequested,
        refused: Option<Failure>,
        actions: &mut Vec<MemoryAction>,
    ) {
        let session = requested.session;
        actions.push(MemoryAction::Answer {
            session,
            number: requested.number,
            committed: self.promised(session),
            memory: self.memory(session, requested.held).unwrap_or_default(),
            refused,
        });
    }

    fn number(&self, session: SessionId) -> u64 {
        self.commitment(session).map_or(0, |it| it.number)
    }

    /// Bytes that a session's client goes by.
    fn promised(&self, session: SessionId) -> u64 {
        self.commitment(session).map_or(0, Commitment::last)
    }

    fn commitment(&self, session: SessionId) -> Option<&Commitment> {
        let memory = self.sessions.get(&session);
        memory.and_then(|memory| memory.commitment.as_ref())
    }

    fn closes(&self, session: SessionId) -> bool {
        self.sessions
            .get(&session)
            .is_some_and(|memory| memory.closing)
    }
}
