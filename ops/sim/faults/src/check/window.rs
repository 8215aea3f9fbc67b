//! I6 and I7, as far as a leader can know them: from its published grants and its inputs.

mod queue;

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{
    ClusterSettings, Done, Epoch, GpuPosition, Grant, GrantBatch, GrantKind, Incarnation, Intent,
    LeaderId, Outcome, SealAnswer, SessionId, Tenant, TenantSettings, WorkerBeat,
};

use super::targets::Above;
use super::{CheckResult, Violation};
use queue::Queue;
use sim_cluster::Nanos;
use sim_cluster::NodeId;

/// One worker, as one term knows it.
#[derive(Debug, Default)]
struct WorkerView {
    granted: GpuPosition,
    // Priority, cost and session of grants that are not reported done.
    outstanding: BTreeMap<GpuPosition, (u8, u64, SessionId)>,
    // Grants decided while the leader knew its connection to be away; they are published later, if at all.
    unsaid: BTreeSet<GpuPosition>,
}

impl WorkerView {
    fn through(&self, priority: u8) -> u64 {
        let counted = self.outstanding.values();
        let counted = counted.filter(|(of, _, _)| *of <= priority);
        counted.map(|(_, cost, _)| cost).sum()
    }
}

/// Service of two backlogged tenants of one worker since both became backlogged.
#[derive(Debug, Clone, Copy, Default)]
struct Pair {
    served: [u64; 2],
}

#[derive(Debug, Default)]
struct TermState {
    workers: BTreeMap<Incarnation, WorkerView>,
    queues: BTreeMap<SessionId, Queue>,
    pairs: BTreeMap<(Incarnation, Tenant, Tenant), Pair>,
    largest: u64,
    // Time of each tenant's last grant on each worker.
    served: BTreeMap<(Incarnation, Tenant), Nanos>,
}

/// Windows and shares of every term.
#[derive(Debug)]
pub(crate) struct Windows {
    settings: ClusterSettings,
    tenants: BTreeMap<Tenant, TenantSettings>,
    // A leader node's term; a new life or epoch begins a new one.
    terms: BTreeMap<(NodeId, Epoch, LeaderId), TermState>,
    current: BTreeMap<NodeId, (NodeId, Epoch, LeaderId)>,
    /// True if the order is also checked against the queues: no message is lost or late.
    pub exact: bool,
    /// Number of comparisons of shares.
    pub compared: u64,
}

impl Windows {
    /// Makes a checker without a term.
    #[must_use]
    pub(crate) fn new(settings: ClusterSettings, tenants: &[(Tenant, TenantSettings)]) -> Self {
        Self {
            settings,
            tenants: tenants.iter().cloned().collect(),
            terms: BTreeMap::new(),
            current: BTreeMap::new(),
            exact: false,
            compared: 0,
        }
    }

    /// Notes that a leader received a seal's answer.
    pub(crate) fn sealed(&mut self, leader: NodeId, incarnation: Incarnation, answer: &SealAnswer) {
        let key = (leader, answer.epoch, answer.leader);
        let term = self.terms.entry(key).or_default();
        // An answer to an earlier epoch's seal may come twice, and late.
        let before = self.current.entry(leader).or_insert(key);
        if before.2 != key.2 || before.1 < key.1 {
            *before = key;
        }
        term.workers
            .entry(incarnation)
            .or_insert_with(|| WorkerView {
                granted: answer.position,
                unsaid: BTreeSet::new(),
                outstanding: answer
                    .outstanding
                    .iter()
                    .map(|row| {
                        let grant = &row.grant;
                        (row.position, (grant.priority, grant.cost, grant.session))
                    })
                    .collect(),
            });
        for session in &answer.sessions {
            // Its priority is not known before its first grant here.
            let queue = Queue::new(session.tenant.clone(), incarnation, session.accepted);
            term.queues.entry(session.session).or_insert(queue).unclear = true;
        }
    }

    /// Notes done reports that a leader received.
    pub(crate) fn done(&mut self, leader: NodeId, incarnation: Incarnation, done: &Done<'_>) {
        let Some(term) = self.current(leader) else {
            return;
        };
        if let Some(worker) = term.workers.get_mut(&incarnation) {
            for report in done.reports.iter() {
                let mut queue = term.queues.get_mut(&report.session);
                if let Some(queue) = &mut queue {
                    queue.residency.reported(report.position, report.outcome);
                }
                match report.outcome {
                    Outcome::Part => continue,
                    Outcome::Closed => {
                        if let Some(queue) = queue {
                            queue.granted = queue.granted.max(report.received);
                            let stands = queue.stands.as_ref();
                            if stands.is_some_and(|at| *at <= report.position) {
                                queue.stands = None;
                            }
                        }
                        continue;
                    }
                    _ => {}
                }
                worker.outstanding.remove(&report.position);
                worker.unsaid.remove(&report.position);
                if report.outcome != Outcome::Ran
                    && let Some(queue) = queue
                {
                    queue.unclear = true;
                }
            }
        }
    }

    fn current(&mut self, leader: NodeId) -> Option<&mut TermState> {
        let key = self.current.get(&leader)?;
        self.terms.get_mut(key)
    }

    /// Notes an intent that a leader received.
    pub(crate) fn intent(&mut self, leader: NodeId, session: SessionId, intent: &Intent<'_>) {
        let Some(term) = self.current(leader) else {
            return;
        };
        if let Some(queue) = term.queues.get_mut(&session) {
            queue.announced(intent.first, intent.count);
        }
    }

    /// Notes a worker's sessions with memory that does not fit together, as a leader received them.
    pub(crate) fn resides(&mut self, leader: NodeId, incarnation: Incarnation, beat: &WorkerBeat) {
        let Some(residency) = &beat.residency else {
            return;
        };
        let Some(term) = self.current(leader) else {
            return;
        };
        let listed: BTreeSet<SessionId> = residency.sessions.iter().map(|it| it.session).collect();
        for (session, queue) in &mut term.queues {
            if queue.incarnation == incarnation {
                queue.residency.named(listed.contains(session));
            }
        }
    }

    /// Notes that a leader is to close a session.
    pub(crate) fn closing(&mut self, leader: NodeId, session: SessionId) {
        if let Some(term) = self.current(leader)
            && let Some(queue) = term.queues.get_mut(&session)
        {
            queue.unclear = true;
        }
    }

    /// Checks an order that a leader publishes.
    pub(crate) fn ordered(
        &mut self,
        now: Nanos,
        leader: NodeId,
        incarnation: Incarnation,
        batch: &GrantBatch<'_>,
    ) -> CheckResult {
        let key = (leader, batch.epoch, batch.leader);
        let Some(term) = self.terms.get_mut(&key) else {
            let what = format!(
                "an order of epoch {} to {incarnation}, not sealed",
                batch.epoch
            );
            return Err(Violation::new("I3", what));
        };
        for open in &batch.opens {
            let queue = Queue::new(open.tenant.clone(), incarnation, 0);
            term.queues.entry(open.session).or_insert(queue).priority = open.priority;
        }
        for (position, grant) in (batch.first..).zip(batch.grants.iter()) {
            let Some(worker) = term.workers.get_mut(&incarnation) else {
                let what = format!("an order to {incarnation}, which was not sealed");
                return Err(Violation::new("I3", what));
            };
            // The worker bounds the work of a standing grant.
            let cost = match grant.kind {
                GrantKind::Standing => 0,
                _ => grant.cost,
            };
            let row = (grant.priority, cost, grant.session);
            if worker.unsaid.remove(&position) {
                worker.outstanding.insert(position, row);
            }
            if position <= worker.granted {
                continue;
            }
            worker.unsaid.extend(worker.granted + 1..position);
            if grant.kind == GrantKind::Run {
                let limits = (&self.settings, &self.tenants, self.exact);
                term.runs(now, (incarnation, position), &grant, limits)?;
            }
            let Some(worker) = term.workers.get_mut(&incarnation) else {
                continue;
            };
            worker.granted = position;
            worker.outstanding.insert(position, row);
            if self.exact && grant.kind == GrantKind::Run {
                term.overtakes(incarnation, &grant, &self.tenants)?;
                term.largest = term.largest.max(grant.cost);
                let quantum = self.settings.quantum_ns;
                // With settlement, shares follow measured time, which is not known yet.
                if !self.settings.settle {
                    self.compared += term.share(incarnation, &grant, quantum, &self.tenants)?;
                }
            }
            if let Some(queue) = term.queues.get_mut(&grant.session) {
                queue.granted = queue.granted.max(grant.last);
                queue.unclear |= grant.kind == GrantKind::Close;
                match grant.kind {
                    GrantKind::Standing => queue.stands = Some(position),
                    GrantKind::Return => queue.residency.returns = Some(position),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn fits(
    worker: &WorkerView,
    incarnation: Incarnation,
    position: GpuPosition,
    grant: &Grant,
    window: u64,
) -> CheckResult {
    let before = worker.through(grant.priority);
    if before == 0 || before + grant.cost <= window {
        return Ok(());
    }
    let what = format!(
        "{incarnation}: position {position} of priority {} and {} ns above {before} ns outstanding",
        grant.priority, grant.cost
    );
    Err(Violation::new("I6", what))
}

/// True if a cap, or a target of a higher priority, may hold a tenant back.
fn is_filtered(tenants: &BTreeMap<Tenant, TenantSettings>, tenant: &Tenant) -> bool {
    let Some(settings) = tenants.get(tenant) else {
        return false;
    };
    let above = |other: &TenantSettings| other.slo_ns > 0 && other.priority < settings.priority;
    settings.cap > 0 || tenants.values().any(above)
}

impl TermState {
    /// Targets above a priority, of tenants with work outstanding on a worker.
    fn above(
        &self,
        incarnation: Incarnation,
        priority: u8,
        tenants: &BTreeMap<Tenant, TenantSettings>,
    ) -> Above {
        let outstanding = self.workers.get(&incarnation).into_iter();
        let outstanding = outstanding.flat_map(|worker| worker.outstanding.values());
        let queues = outstanding
            .filter(|(_, cost, _)| *cost > 0)
            .filter_map(|(_, _, session)| self.queues.get(session))
            .filter(|queue| !queue.unclear);
        Above::of(
            priority,
            queues.filter_map(|queue| tenants.get(&queue.tenant)),
        )
    }

    /// Checks that a granted slice fits the window, and leaves room to the targets above it.
    fn runs(
        &mut self,
        now: Nanos,
        (incarnation, position): (Incarnation, GpuPosition),
        grant: &Grant,
        (settings, tenants, exact): (&ClusterSettings, &BTreeMap<Tenant, TenantSettings>, bool),
    ) -> CheckResult {
        let above = match exact {
            true => self.above(incarnation, grant.priority, tenants),
            false => Above::default(),
        };
        let window = above.window(settings);
        fits(
            &self.workers[&incarnation],
            incarnation,
            position,
            grant,
            window,
        )?;
        let Some(queue) = self.queues.get(&grant.session) else {
            return Ok(());
        };
        let key = (incarnation, queue.tenant.clone());
        let waited = self.served.insert(key, now).map(|then| now - then);
        above.judge(settings, &queue.tenant, grant, waited)
    }

    /// Checks that no session of a higher priority waits with an empty window; sessions behind a filter do
    /// not count.
    fn overtakes(
        &self,
        incarnation: Incarnation,
        grant: &Grant,
        tenants: &BTreeMap<Tenant, TenantSettings>,
    ) -> CheckResult {
        let Some(worker) = self.workers.get(&incarnation) else {
            return Ok(());
        };
        let higher = self.queues.iter().find(|(_, queue)| {
            queue.incarnation == incarnation
                && queue.waits()
                && queue.priority < grant.priority
                && !is_filtered(tenants, &queue.tenant)
                && worker.through(queue.priority) == 0
        });
        match higher {
            None => Ok(()),
            Some((session, queue)) => {
                let what = format!(
                    "{incarnation}: {} of priority {} granted while {session} of priority {} waits",
                    grant.session, grant.priority, queue.priority
                );
                Err(Violation::new("I6", what))
            }
        }
    }

    /// Charges a grant to its tenant in every pair that is backlogged, and compares.
    fn share(
        &mut self,
        incarnation: Incarnation,
        grant: &Grant,
        quantum: u64,
        tenants: &BTreeMap<Tenant, TenantSettings>,
    ) -> Result<u64, Violation> {
        let Some(tenant) = self.queues.get(&grant.session).map(|q| q.tenant.clone()) else {
            return Ok(0);
        };
        let waiting: BTreeSet<Tenant> = self
            .queues
            .values()
            .filter(|queue| queue.incarnation == incarnation && queue.priority == grant.priority)
            .filter(|queue| queue.waits() && !is_filtered(tenants, &queue.tenant))
            .map(|queue| queue.tenant.clone())
            .collect();
        self.pairs.retain(|(on, one, other), _| {
            *on != incarnation
                || tenants.get(one).map(|t| t.priority) != Some(grant.priority)
                || waiting.contains(one) && waiting.contains(other)
        });
        let mut compared = 0;
        for other in waiting.iter().filter(|other| **other != tenant) {
            if !waiting.contains(&tenant) {
                break;
            }
            let (one, two) = (
                tenant.clone().min(other.clone()),
                tenant.clone().max(other.clone()),
            );
            let own = usize::from(one != tenant);
            let pair = self.pairs.entry((incarnation, one.clone(), two.clone()));
            let pair = pair.or_default();
            pair.served[own] += grant.cost;
            let weight = |of: &Tenant| tenants.get(of).map_or(1, |t| i128::from(t.weight.max(1)));
            let (a, b) = (weight(&one), weight(&two));
            let [s, t] = pair.served.map(i128::from);
            let largest = i128::from(quantum.max(self.largest));
            // |S/w - S'/w'| <= l/w + l'/w', multiplied by both weights.
            if (s * b - t * a).abs() > largest * (a + b) {
                let what = format!(
                    "{incarnation}: {one} (weight {a}) got {s} ns, {two} (weight {b}) {t} ns"
                );
                return Err(Violation::new("I7", what));
            }
            compared += 1;
        }
        Ok(compared)
    }
}
