//! The times of tenants' requests, and the number of requests that met the tenant's target. Times
//! are measured by the leader's own clock, from the arrival of the intent of a request's first op
//! to the report that its sync is done. Nothing here decides anything. The counts start anew with
//! each term, unless the leader follows itself.

use std::collections::{BTreeMap, VecDeque};

use bus_schemas::{Attainment, CostClass, CostRun, OpNumber, SessionId, Tenant};

use crate::slots::{Arena, SessionSlot};
use crate::time::Nanos;

const SECOND: Nanos = 1_000_000_000;
/// Time that a report covers, and up to one slot more.
const SPAN: Nanos = 60 * SECOND;
/// Step by which that span moves.
const SLOT: Nanos = 10 * SECOND;
/// Maximum number of unfinished requests of one session; further ones are not counted.
const WAITING: usize = 4_096;
/// Linear steps per power of two: a figure is at most 1.6 % off.
const STEP_BITS: u32 = 5;

/// One session's requests under way.
#[derive(Debug, Default)]
struct Requests {
    /// Time at which the first op since the last sync came.
    began: Option<Nanos>,
    /// True if that op came in this term, so that the leader has seen it.
    whole: bool,
    /// The sync of each request that is not done, and the time at which the request began.
    waiting: VecDeque<(OpNumber, Nanos)>,
}

/// Counts of times by log-linear steps.
#[derive(Debug, Default)]
struct Slot {
    began: Nanos,
    requests: u64,
    within: u64,
    counts: BTreeMap<u16, u64>,
}

/// One tenant's requests.
#[derive(Debug)]
struct Record {
    target: u64,
    /// Time since which requests are counted against this target.
    since: Nanos,
    requests: u64,
    within: u64,
    slots: VecDeque<Slot>,
}

/// All tenants' requests in a term.
#[derive(Debug)]
pub(super) struct Attainments {
    began: Nanos,
    sessions: BTreeMap<SessionId, Requests>,
    /// True, by a session's slot, if the session may have requests that are not done. It is read
    /// with every report, so it has a table of its own.
    awaited: Arena<SessionSlot, bool>,
    tenants: BTreeMap<Tenant, Record>,
}

/// A session, and its slot, which another session gets when this one has ended.
pub(super) type Placed = (SessionSlot, SessionId);

impl Attainments {
    pub(super) fn new(began: Nanos) -> Self {
        Self {
            began,
            sessions: BTreeMap::new(),
            awaited: Arena::default(),
            tenants: BTreeMap::new(),
        }
    }

    /// Continues the counts of the same leader's previous term. Requests under way between the two
    /// terms are not counted.
    pub(super) fn go_on(&mut self, before: Self) {
        self.began = before.began;
        for (tenant, record) in before.tenants {
            let now = self.tenants.get(&tenant);
            if now.is_none_or(|now| now.target == record.target) {
                self.tenants.insert(tenant, record);
            }
        }
    }

    /// Takes in the next ops of a session.
    pub(super) fn intent(
        &mut self,
        now: Nanos,
        (slot, session): Placed,
        first: OpNumber,
        runs: &[CostRun],
    ) {
        let requests = self.sessions.entry(session).or_insert_with(|| Requests {
            whole: first == 1,
            ..Requests::default()
        });
        let mut op = first;
        for run in runs {
            if run.class == CostClass::Sync {
                // After the first sync of the run, the others end no request.
                let whole = std::mem::replace(&mut requests.whole, true);
                if let Some(began) = requests.began.take().filter(|_| whole)
                    && requests.waiting.len() < WAITING
                {
                    requests.waiting.push_back((op, began));
                }
            } else {
                requests.began.get_or_insert(now);
            }
            op = op.saturating_add(u64::from(run.count));
        }
        let waits = !requests.waiting.is_empty();
        self.note(slot, waits);
    }

    fn note(&mut self, slot: SessionSlot, waits: bool) {
        *self.awaited.grow_to(slot) = waits;
    }

    /// Returns true if the session at a slot may have requests that are not done.
    pub(super) fn awaits(&self, slot: SessionSlot) -> bool {
        self.awaited.find(slot) == Some(&true)
    }

    /// Notes that ops of a tenant's session through `done` are done.
    pub(super) fn done(
        &mut self,
        now: Nanos,
        (slot, session): Placed,
        done: OpNumber,
        tenant: &Tenant,
        target: u64,
    ) {
        let Some(requests) = self.sessions.get_mut(&session) else {
            // The slot belongs to a session that has ended.
            return self.note(slot, false);
        };
        let began = self.began;
        while let Some((_, since)) = requests.waiting.pop_front_if(|(sync, _)| *sync <= done) {
            let record = self.tenants.entry(tenant.clone());
            let record = record.or_insert_with(|| Record::new(target, began));
            if record.target != target {
                *record = Record::new(target, now);
            }
            // A request that was done before its intent came has no time that the leader knows.
            // This happens if a client gathers its intents.
            if now > since {
                record.note(now, now - since);
            }
        }
        let waits = !requests.waiting.is_empty();
        self.note(slot, waits);
    }

    /// Forgets a session that has ended.
    pub(super) fn ended(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    /// Sets a tenant's target; counts against another target are dropped.
    pub(super) fn target_set(&mut self, now: Nanos, tenant: &Tenant, target: u64) {
        match self.tenants.get_mut(tenant) {
            Some(record) if record.target == target => {}
            Some(record) => *record = Record::new(target, now),
            None => {
                let record = Record::new(target, now);
                self.tenants.insert(tenant.clone(), record);
            }
        }
    }

    /// Forgets a removed tenant.
    pub(super) fn tenant_removed(&mut self, tenant: &Tenant) {
        self.tenants.remove(tenant);
    }

    /// The attainment of a tenant's requests, if any were done.
    pub(super) fn of(&self, now: Nanos, tenant: &Tenant) -> Option<Box<Attainment>> {
        let record = self.tenants.get(tenant)?;
        (record.requests > 0).then(|| Box::new(record.read(now)))
    }
}

impl Record {
    fn new(target: u64, since: Nanos) -> Self {
        Self {
            target,
            since,
            requests: 0,
            within: 0,
            slots: VecDeque::new(),
        }
    }

    fn note(&mut self, now: Nanos, time: Nanos) {
        let current = self.slots.back();
        if current.is_none_or(|slot| now >= slot.began.saturating_add(SLOT)) {
            self.slots.push_back(Slot {
                began: now,
                ..Slot::default()
            });
            while self.slots.pop_front_if(|slot| is_past(slot, now)).is_some() {}
        }
        let within = u64::from(self.target > 0 && time <= self.target);
        self.requests += 1;
        self.within += within;
        if let Some(slot) = self.slots.back_mut() {
            slot.requests += 1;
            slot.within += within;
            *slot.counts.entry(step(time)).or_default() += 1;
        }
    }

    fn read(&self, now: Nanos) -> Attainment {
        let mut recent = Slot::default();
        for slot in self.slots.iter().filter(|slot| !is_past(slot, now)) {
            recent.requests += slot.requests;
            recent.within += slot.within;
            for (step, count) in &slot.counts {
                *recent.counts.entry(*step).or_default() += count;
            }
        }
        Attainment {
            counted_ns: now.saturating_sub(self.since),
            total_requests: self.requests,
            total_within: self.within,
            requests: recent.requests,
            within: recent.within,
            p99_ns: recent.quantile(99),
        }
    }
}

/// Returns true if a slot lies before the span that ends now.
fn is_past(slot: &Slot, now: Nanos) -> bool {
    slot.began.saturating_add(SPAN + SLOT) <= now
}

impl Slot {
    /// The shortest time that this percentage of requests does not exceed, as the middle of its
    /// step; 0 without requests.
    fn quantile(&self, percent: u64) -> Nanos {
        let rank = (self.requests * percent).div_ceil(100);
        let mut counted = 0;
        let reached = self.counts.iter().find(|(_, count)| {
            counted += **count;
            counted >= rank
        });
        reached.map_or(0, |(step, _)| middle(*step))
    }
}

/// The step of a time: exact below 64, then 32 per power of two.
fn step(time: Nanos) -> u16 {
    let shift = (Nanos::BITS - time.leading_zeros()).saturating_sub(STEP_BITS + 1);
    ((shift << STEP_BITS) + (time >> shift) as u32) as u16
}

/// The time in the middle of a step.
fn middle(step: u16) -> Nanos {
    let shift = (u32::from(step) >> STEP_BITS).saturating_sub(1);
    let first = u64::from(u32::from(step) - (shift << STEP_BITS));
    (first << shift) + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use bus_schemas::KernelKey;
    use proptest::prelude::*;

    use super::*;

    const SESSION: Placed = (SessionSlot::FIRST, SessionId(1));
    const MS: Nanos = 1_000_000;

    fn run(class: CostClass, count: u32) -> CostRun {
        CostRun {
            key: KernelKey(0),
            bytes: 0,
            count,
            class,
        }
    }

    fn tenant() -> Tenant {
        "chat".parse().unwrap()
    }

    #[test]
    fn a_request_lasts_from_its_first_intent_to_its_syncs_report() {
        let mut attainments = Attainments::new(0);
        let (launch, sync) = (run(CostClass::Launch, 3), run(CostClass::Sync, 2));
        attainments.intent(10 * MS, SESSION, 1, &[launch]);
        assert!(!attainments.awaits(SESSION.0), "no sync yet");
        // Ops 4 and 5 are syncs, of which the second ends no request; then another request follows.
        attainments.intent(15 * MS, SESSION, 4, &[sync, launch, sync]);
        attainments.done(20 * MS, SESSION, 3, &tenant(), 12 * MS);
        assert_eq!(attainments.of(20 * MS, &tenant()), None);
        attainments.done(21 * MS, SESSION, 5, &tenant(), 12 * MS);
        let first = attainments.of(21 * MS, &tenant()).unwrap();
        assert_eq!((first.requests, first.within), (1, 1));
        assert!(first.p99_ns.abs_diff(11 * MS) <= 11 * MS / 64);
        attainments.done(30 * MS, SESSION, 10, &tenant(), 12 * MS);
        assert!(!attainments.awaits(SESSION.0));
        let both = attainments.of(30 * MS, &tenant()).unwrap();
        assert_eq!((both.requests, both.within), (2, 1));
        assert_eq!(both.counted_ns, 30 * MS);
        attainments.ended(SESSION.1);
        assert!(attainments.sessions.is_empty());
    }

    #[test]
    fn a_place_is_anothers_once_its_session_has_ended() {
        let mut attainments = Attainments::new(0);
        let request = [run(CostClass::Launch, 1), run(CostClass::Sync, 1)];
        attainments.intent(MS, SESSION, 1, &request);
        attainments.ended(SESSION.1);
        let next = (SESSION.0, SessionId(2));
        attainments.done(2 * MS, next, 0, &tenant(), 0);
        assert!(!attainments.awaits(next.0), "that was the other's");
        attainments.intent(3 * MS, next, 1, &request);
        assert!(attainments.awaits(next.0));
        attainments.done(4 * MS, next, 2, &tenant(), 0);
        let counted = attainments.of(4 * MS, &tenant()).unwrap();
        assert_eq!(counted.requests, 1);
    }

    #[test]
    fn what_began_before_the_term_is_not_counted() {
        let mut attainments = Attainments::new(0);
        let request = [run(CostClass::Launch, 1), run(CostClass::Sync, 1)];
        attainments.intent(MS, SESSION, 70, &request);
        attainments.done(2 * MS, SESSION, 71, &tenant(), 0);
        assert_eq!(attainments.of(2 * MS, &tenant()), None);
        attainments.intent(3 * MS, SESSION, 72, &request);
        attainments.done(4 * MS, SESSION, 73, &tenant(), 0);
        let counted = attainments.of(4 * MS, &tenant()).unwrap();
        assert_eq!((counted.requests, counted.within), (1, 0), "no target");
    }

    #[test]
    fn another_target_begins_anew_and_old_times_are_forgotten() {
        let mut attainments = Attainments::new(0);
        let mut op = 1;
        let mut request = |attainments: &mut Attainments, now: Nanos, time: Nanos, target| {
            let runs = [run(CostClass::Launch, 1), run(CostClass::Sync, 1)];
            attainments.intent(now - time, SESSION, op, &runs);
            attainments.done(now, SESSION, op + 1, &tenant(), target);
            op += 2;
        };
        for second in 1..=200 {
            request(&mut attainments, second * SECOND, MS, 2 * MS);
        }
        let read = attainments.of(200 * SECOND, &tenant()).unwrap();
        assert!((60..=70).contains(&read.requests), "{}", read.requests);
        assert_eq!((read.total_requests, read.total_within), (200, 200));
        assert!(attainments.tenants[&tenant()].slots.len() <= 8);
        attainments.target_set(201 * SECOND, &tenant(), MS / 2);
        assert_eq!(attainments.of(201 * SECOND, &tenant()), None);
        request(&mut attainments, 202 * SECOND, MS, MS / 2);
        let read = attainments.of(203 * SECOND, &tenant()).unwrap();
        assert_eq!((read.requests, read.within), (1, 0));
        assert_eq!(read.counted_ns, 2 * SECOND);
        // A minute without requests leaves only the totals.
        let read = attainments.of(300 * SECOND, &tenant()).unwrap();
        assert_eq!((read.requests, read.p99_ns, read.total_requests), (0, 0, 1));
        attainments.tenant_removed(&tenant());
        assert_eq!(attainments.of(300 * SECOND, &tenant()), None);
    }

    proptest! {
        #[test]
        fn the_share_is_exact_and_the_quantile_is_near(
            times in prop::collection::vec(prop_oneof![0..100u64, 1_000..100_000_000u64, 0..u64::MAX / 2], 1..300),
            target in 1..100_000_000u64,
        ) {
            let mut record = Record::new(target, 0);
            times.iter().for_each(|time| record.note(5, *time));
            let read = record.read(6);
            let within = times.iter().filter(|time| **time <= target).count();
            prop_assert_eq!((read.requests, read.within), (times.len() as u64, within as u64));
            let mut sorted = times.clone();
            sorted.sort_unstable();
            let exact = sorted[(times.len() * 99).div_ceil(100) - 1];
            prop_assert!(read.p99_ns.abs_diff(exact) <= exact / 64, "{} for {exact}", read.p99_ns);
        }
    }
}
