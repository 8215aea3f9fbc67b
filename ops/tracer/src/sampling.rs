//! The choice of the requests that are kept.

use std::collections::HashMap;

use bus_schemas::{Tenant, TraceId};

use crate::join::Request;

/// The reason why a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// The program's own span is sampled, and decides.
    Parent,
    /// It ended with an error, or a call of it failed.
    Error,
    /// It took longer than its tenant's target.
    Slow,
    /// It is in the share of the rest.
    Share,
}

impl Kept {
    /// Its name in attributes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Error => "error",
            Self::Slow => "slow",
            Self::Share => "share",
        }
    }
}

/// The rules of the choice.
#[derive(Debug, Clone)]
pub(crate) struct Sampling {
    /// The lower half of a trace's id is below this if it is in the share.
    below: u128,
    /// True if a request's parent decides instead of the share.
    obeys_parent: bool,
    /// Targets of tenants, nanoseconds.
    targets: HashMap<Tenant, u64>,
}

impl Sampling {
    /// The rules for a share of the requests, 0 to 1, that are neither slow nor failed. The parent decides instead
    /// where it is obeyed and there is one.
    pub(crate) fn new(share: f64, obeys_parent: bool) -> Self {
        let share = share.clamp(0.0, 1.0);
        Self {
            below: (share * (u64::MAX as f64)) as u128 + u128::from(share >= 1.0),
            obeys_parent,
            targets: HashMap::new(),
        }
    }

    /// Sets the targets of all tenants.
    pub(crate) fn set_targets(&mut self, targets: HashMap<Tenant, u64>) {
        self.targets = targets;
    }

    /// Returns the target of a tenant, nanoseconds.
    pub(crate) fn target(&self, tenant: &Tenant) -> Option<u64> {
        self.targets
            .get(tenant)
            .copied()
            .filter(|target| *target > 0)
    }

    /// Returns why a request of this trace is kept; `None` if it is not. Those that are slow or failed are kept
    /// whatever the parent says: their program cannot know that when its own span begins.
    pub(crate) fn keeps(&self, request: &Request, trace: TraceId) -> Option<Kept> {
        let report = &request.report;
        let parent = report.parent.filter(|_| self.obeys_parent);
        if parent.is_some_and(|parent| parent.sampled) {
            return Some(Kept::Parent);
        }
        let took = report.ended - report.began;
        let is_slow = self
            .target(&request.tenant)
            .is_some_and(|target| took > target);
        let draw = u128::from_be_bytes(trace.0) & u128::from(u64::MAX);
        let is_drawn = parent.is_none() && draw < self.below;
        match () {
            () if report.error.is_some() || !request.errors.is_empty() => Some(Kept::Error),
            () if is_slow => Some(Kept::Slow),
            () => is_drawn.then_some(Kept::Share),
        }
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Code, SpanId, TraceContext};

    use super::*;
    use crate::join::tests::request;
    use crate::parts::Met;

    #[test]
    fn errors_and_slow_requests_are_kept_and_a_share_of_the_rest() {
        let mut sampling = Sampling::new(0.25, true);
        let usual = request("chat", 1, (1, 4));
        let tenant = usual.tenant.clone();
        let took = usual.report.ended - usual.report.began;
        let id = |n: u64| TraceId((u128::from(n) << 64 | u128::from(n)).to_be_bytes());
        assert_eq!(
            sampling.keeps(&usual, id(u64::MAX / 4 - 1)),
            Some(Kept::Share)
        );
        let dropped = id(u64::MAX / 4 * 3);
        assert_eq!(sampling.keeps(&usual, dropped), None);
        let mut failed = usual.clone();
        failed.report.error = Some(Code::Device);
        assert_eq!(sampling.keeps(&failed, dropped), Some(Kept::Error));
        let mut met = usual.clone();
        met.errors.push(Met {
            at: 1_500,
            count: 1,
            code: Code::Quota,
            words: "full".into(),
        });
        assert_eq!(sampling.keeps(&met, dropped), Some(Kept::Error));
        sampling.set_targets([(tenant.clone(), took)].into());
        assert_eq!(sampling.keeps(&usual, dropped), None);
        sampling.set_targets([(tenant, took - 1)].into());
        assert_eq!(sampling.keeps(&usual, dropped), Some(Kept::Slow));
        let context = |sampled| TraceContext {
            trace: dropped,
            span: SpanId([1; 8]),
            sampled,
        };
        let child = |of: &Request, sampled| {
            let mut child = of.clone();
            child.report.parent = Some(context(sampled));
            child
        };
        let kept = |it: &Request, trace| sampling.keeps(it, trace);
        assert_eq!(kept(&child(&failed, true), dropped), Some(Kept::Parent));
        assert_eq!(kept(&child(&failed, false), dropped), Some(Kept::Error));
        assert_eq!(kept(&child(&usual, false), dropped), Some(Kept::Slow));
        sampling.set_targets(HashMap::new());
        assert_eq!(sampling.keeps(&child(&usual, false), id(1)), None);
        // A sampler that does not ask the parent: the share decides.
        let own = Sampling::new(0.25, false);
        assert_eq!(own.keeps(&child(&usual, false), id(1)), Some(Kept::Share));
        assert_eq!(own.keeps(&child(&usual, true), dropped), None);
        for (share, kept) in [(0.0, false), (1.0, true)] {
            let sampling = Sampling::new(share, true);
            assert_eq!(sampling.keeps(&usual, id(u64::MAX)).is_some(), kept);
        }
    }
}
