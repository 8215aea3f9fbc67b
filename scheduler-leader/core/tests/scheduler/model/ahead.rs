//! The naive view of targets: active tenants, the cost of a request, and the work that may go ahead
//! of it.

use bus_schemas::{CostClass, CostRun, Grant, GrantKind, Incarnation, SessionId};
use scheduler_leader_core::Input;

use super::targets::Targets;
use super::{Model, cost, tenant};

/// Ticks for which a tenant stays active.
const LINGER: u32 = 10;

/// A maximum that falls by one part in 64.
fn peak(figures: &[u64]) -> u64 {
    figures
        .iter()
        .fold(0, |peak, figure| *figure.max(&(peak - peak.div_ceil(64))))
}

impl Model {
    /// Notes an input that was applied; its effects are looked at next.
    pub(super) fn observe(&mut self, input: &Input) {
        match input {
            Input::Takeover(_) => self.targets = Targets::default(),
            Input::Tick => self.targets.ticks += 1,
            Input::Intent {
                session,
                first,
                runs,
            } => self.note_requests(*session, *first, &runs.0),
            _ => {}
        }
        for (incarnation, index) in self.everywhere() {
            let busy = self.is_busy(incarnation, index);
            let left = self.targets.left.entry((incarnation, tenant(index)));
            let left = left.or_default();
            match input {
                _ if busy => *left = LINGER,
                Input::Tick => *left = left.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn everywhere(&self) -> Vec<(Incarnation, usize)> {
        let tenants = 0..self.tenants.len();
        let workers = self.workers.keys();
        let pairs = workers.flat_map(|worker| tenants.clone().map(|index| (*worker, index)));
        pairs.collect()
    }

    /// Notes announced ops; the order took in all of them, or none.
    fn note_requests(&mut self, id: SessionId, first: u64, runs: &[CostRun]) {
        let count: u64 = runs.iter().map(|run| u64::from(run.count)).sum();
        let view = self.scheduler.session(id);
        if view.is_none_or(|view| view.queued + 1 != first + count) {
            return;
        }
        let session = &self.sessions[&id];
        let open = self.targets.open.entry(id).or_default();
        for run in runs {
            for _ in 0..run.count {
                match run.class {
                    CostClass::Sync if *open == 0 => {}
                    CostClass::Sync => {
                        let key = (session.worker, session.tenant.clone());
                        let requests = self.targets.requests.entry(key).or_default();
                        requests.push(std::mem::take(open) + cost(run));
                    }
                    _ => *open += cost(run),
                }
            }
        }
    }

    fn is_busy(&self, incarnation: Incarnation, index: usize) -> bool {
        self.sessions.iter().any(|(id, session)| {
            let own = session.worker == incarnation && session.tenant == tenant(index);
            let view = self
                .scheduler
                .session(*id)
                .filter(|view| own && !view.closing);
            let suspended = self.tenants[index].suspended;
            view.is_some_and(|view| match view.doubted {
                _ if suspended => view.granted > view.done,
                true => view.received.min(view.queued) > view.done,
                false => view.queued > view.done,
            })
        })
    }
}

impl Model {
    /// The costliest slice that active targets above a priority let ahead, if there are such
    /// targets.
    pub(crate) fn limit(&self, incarnation: Incarnation, priority: u8) -> Option<u64> {
        let limits = self.tenants.iter().enumerate().filter_map(|(index, of)| {
            let key = (incarnation, tenant(index));
            let left = self.targets.left.get(&key).copied().unwrap_or(0);
            let counts = of.slo_ns > 0 && of.priority < priority && left > 0;
            let requests = self.targets.requests.get(&key);
            let request = requests.map_or(0, |requests| peak(requests));
            let slack = of.slo_ns.saturating_sub(request) / 2;
            counts.then_some(slack.max(self.settings.quantum_ns))
        });
        limits.min()
    }

    /// The window that applies to a grant of a priority.
    pub(super) fn window(&self, incarnation: Incarnation, priority: u8) -> u64 {
        let wide = self.settings.window_ns;
        match (
            self.limit(incarnation, priority),
            self.settings.slo_window_ns,
        ) {
            (None, _) | (_, 0) => wide,
            (Some(_), small) => wide.min(small),
        }
    }

    /// Checks a grant against the targets above its priority, unless a floor lifts it over them.
    pub(super) fn check_ahead(&mut self, incarnation: Incarnation, grant: &Grant) {
        if grant.kind != GrantKind::Run {
            return;
        }
        let session = &self.sessions[&grant.session];
        let priority = self.priority(grant.session);
        let key = (incarnation, session.tenant.clone());
        let since = self.targets.granted.insert(key, self.targets.ticks);
        let waited = self.targets.ticks - since.unwrap_or(0);
        let Some(limit) = self.limit(incarnation, priority) else {
            return;
        };
        if self.settings.floors[usize::from(priority)] > 0 {
            return;
        }
        if self.check_cuts {
            let ops = &session.ops[grant.first as usize - 1..grant.last as usize];
            let longest = ops.iter().map(cost).max().unwrap_or(0);
            let (op, slice) = (longest > limit, grant.cost > limit);
            assert_eq!(op, slice, "a slice above the limit is an op above it");
        }
        assert!(
            grant.cost <= limit || waited >= self.settings.slo_wait_ticks,
            "{} ns ahead of a target that allows {limit}, after {waited} ticks",
            grant.cost
        );
    }
}
