//! The naive view of the rules: valid grants, their order, and the ends of slices.

use bus_schemas::{CostClass, CostRun, Grant, GrantKind, Incarnation, SessionId, TenantSettings};

use super::{Model, cost};

impl Model {
    /// Checks a run grant against the naive rules.
    pub(super) fn check(&self, incarnation: Incarnation, position: u64, grant: &Grant) {
        let worker = &self.workers[&incarnation];
        assert_eq!(position, worker.position + 1, "I2: no gaps");
        assert_eq!(grant.epoch, self.epoch);
        assert_eq!(grant.input, self.scheduler.input());
        if grant.kind != GrantKind::Run {
            return;
        }
        let session = &self.sessions[&grant.session];
        assert!(grant.first <= grant.last, "a slice has ops");
        assert!(grant.last <= session.announced, "I4: submitted");
        assert!(!session.closing, "nothing after the close");
        let ops = &session.ops[grant.first as usize - 1..grant.last as usize];
        if self.check_cuts {
            let sum: u64 = ops.iter().map(cost).sum();
            assert_eq!(grant.cost, sum, "charged what the profile says");
            let base = session.base as usize;
            let cuts = cuts(&session.ops[base..], self.settings.quantum_ns);
            let cuts: Vec<_> = cuts.into_iter().map(|cut| cut + session.base).collect();
            let crossed = cuts
                .iter()
                .find(|cut| **cut >= grant.first && **cut < grant.last);
            assert_eq!(crossed, None, "cut points do not depend on arrivals");
            let most = ops.iter().map(cost).max().unwrap_or(0);
            assert!(
                sum <= self.settings.quantum_ns.max(most),
                "at most a quantum or an op"
            );
            assert!(ops.len() <= 1024);
        }
        let declared = ops
            .iter()
            .fold(0u64, |sum, op| sum.wrapping_add(op.declared()));
        assert_eq!(grant.declared, declared);
        let id = grant.session;
        assert!(!self.is_suspended(id), "{id} of a suspended tenant runs");
        let priority = self.priority(id);
        assert!(grant.priority <= priority, "a floor only raises");
        if self.settings.floors == [0; 5] {
            assert_eq!(grant.priority, priority);
        }
        // The work under way of a standing grant is known only once it was closed.
        let above = worker.queue.iter().map(|(_, other)| other);
        let above = above.filter(|other| other.kind != GrantKind::Standing);
        let above: u64 = above
            .filter(|other| self.priority(other.session) <= priority)
            .map(|other| other.cost)
            .sum();
        let window = match self.settings.floors[usize::from(priority)] {
            0 => self.window(incarnation, priority),
            _ => self.settings.window_ns,
        };
        assert!(
            above == 0 || above + grant.cost <= window,
            "I6: the window: {above} and {} above {window}",
            grant.cost
        );
    }

    fn settings_of(&self, session: SessionId) -> &TenantSettings {
        let session = &self.sessions[&session];
        let index: usize = session.tenant.as_str()[1..].parse().unwrap();
        &self.tenants[index]
    }

    pub(super) fn priority(&self, session: SessionId) -> u8 {
        self.settings_of(session).priority
    }

    pub(super) fn is_suspended(&self, session: SessionId) -> bool {
        self.settings_of(session).suspended
    }

    /// Sessions of a higher priority with work to grant on a worker, in the present order.
    pub(crate) fn higher_eligible(&self, incarnation: Incarnation, priority: u8) -> Vec<SessionId> {
        let own = self
            .sessions
            .iter()
            .filter(|(_, session)| session.worker == incarnation);
        let eligible = own.filter(|(id, _)| {
            let view = self.scheduler.session(**id);
            self.priority(**id) < priority
                && view.is_some_and(|view| {
                    let free = !self.stands(**id) && !view.doubted && !view.closing && !view.away;
                    view.queued > view.granted && free && !view.suspended
                })
        });
        eligible.map(|(id, _)| *id).collect()
    }
}

/// The cut points of ops, computed naively.
fn cuts(ops: &[CostRun], quantum: u64) -> Vec<u64> {
    let (mut cuts, mut count, mut sum) = (Vec::new(), 0, 0);
    for (index, op) in ops.iter().enumerate() {
        let this = cost(op);
        if count > 0 && sum + this > quantum {
            cuts.push(index as u64);
            (count, sum) = (0, 0);
        }
        count += 1;
        sum += this;
        if op.class == CostClass::Sync || sum >= quantum || count == 1024 {
            cuts.push(index as u64 + 1);
            (count, sum) = (0, 0);
        }
    }
    cuts
}
