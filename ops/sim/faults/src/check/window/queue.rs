//! One session's queue, as one term knows it, and if it is known to wait for the device.

use std::collections::BTreeMap;

use bus_schemas::{GpuPosition, Incarnation, OpNumber, Outcome, Tenant};

/// One session's queue, as one term knows it.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) tenant: Tenant,
    pub(super) incarnation: Incarnation,
    pub(super) priority: u8,
    pub(super) queued: OpNumber,
    pub(super) granted: OpNumber,
    // Intents above a gap: first op, last op.
    ahead: BTreeMap<OpNumber, OpNumber>,
    // The position of its standing grant, unless that is known to be closed.
    pub(super) stands: Option<GpuPosition>,
    pub(super) residency: Residency,
    // A void or a close came between, so its eligibility is not known here.
    pub(super) unclear: bool,
}

/// Residency of a session among those with memory that does not fit together.
///
/// A leader decides which of these sessions is in memory, and publishes only returns. So the eligibility of
/// a session that is or was among them is not known here.
#[derive(Debug, Default)]
pub(super) struct Residency {
    // The worker's last heartbeat lists it.
    listed: bool,
    // It was listed, and has not returned since.
    away: bool,
    // The position of its return, if granted and not reported.
    pub(super) returns: Option<GpuPosition>,
}

impl Residency {
    fn is_known(&self) -> bool {
        !self.listed && !self.away
    }

    pub(super) fn named(&mut self, listed: bool) {
        self.away |= self.listed || listed;
        self.listed = listed;
    }

    pub(super) fn reported(&mut self, position: GpuPosition, outcome: Outcome) {
        if self.returns == Some(position) {
            self.returns = None;
            self.away &= outcome != Outcome::Ran;
        }
    }
}

impl Queue {
    pub(super) fn new(tenant: Tenant, incarnation: Incarnation, queued: OpNumber) -> Self {
        Self {
            tenant,
            incarnation,
            priority: 0,
            queued,
            granted: queued,
            ahead: BTreeMap::new(),
            stands: None,
            residency: Residency::default(),
            unclear: false,
        }
    }

    /// Applies an intent that announces ops. The kernel queue refuses numbers that no client uses.
    pub(super) fn announced(&mut self, first: OpNumber, count: u32) {
        let last = first.checked_add(u64::from(count).saturating_sub(1));
        let Some(last) = last.filter(|_| first > 0 && count > 0) else {
            return;
        };
        self.ahead.insert(first, last);
        while let Some(entry) = self.ahead.first_entry()
            && *entry.key() <= self.queued.saturating_add(1)
        {
            self.queued = self.queued.max(entry.remove());
        }
    }

    pub(super) fn waits(&self) -> bool {
        let is_known = !self.unclear && self.residency.is_known();
        is_known && self.stands.is_none() && self.queued > self.granted
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::Incarnation;

    use super::Queue;

    #[test]
    fn ops_that_no_client_announces_are_left_out() {
        let tenant = "hostile".parse().unwrap();
        let mut queue = Queue::new(tenant, Incarnation(1), 4);
        for (first, count) in [(0, 0), (0, 9), (5, 0), (u64::MAX, 2)] {
            queue.announced(first, count);
            assert_eq!(queue.queued, 4, "{first} {count}");
        }
        queue.announced(8, 2);
        assert_eq!(queue.queued, 4);
        queue.announced(3, 5);
        assert_eq!(queue.queued, 9);
    }
}
