//! Faults of a store that answers and does not take what it is given: the record is full, writes
//! are slow, refused, or lost on their way.

use crate::Nanos;
use crate::store::{LEASE, StoreRequest};

/// Until when which of these lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreFaults {
    full: Nanos,
    refuses: Nanos,
    loses: Nanos,
    slow: (Nanos, Nanos),
}

impl StoreFaults {
    /// The record is full.
    pub fn fill(&mut self, until: Nanos) {
        self.full = self.full.max(until);
    }

    /// Its disk takes nothing.
    pub fn refuse(&mut self, until: Nanos) {
        self.refuses = self.refuses.max(until);
    }

    /// Writes, or their answers, are lost.
    pub fn lose(&mut self, until: Nanos) {
        self.loses = self.loses.max(until);
    }

    /// Writes take so much longer.
    pub fn slow(&mut self, until: Nanos, by: Nanos) {
        self.slow = (self.slow.0.max(until), by);
    }

    /// Whether a request is refused. The lease is kept in memory: a disk that takes nothing does
    /// not keep anybody from leading.
    pub(crate) fn refuses(&self, now: Nanos, request: &StoreRequest) -> bool {
        let appends = matches!(request, StoreRequest::Append { .. });
        let lease = matches!(request, StoreRequest::Swap { key: LEASE, .. });
        (now < self.full && appends) || (now < self.refuses && request.writes() && !lease)
    }

    /// Whether a write, or its answer, is lost.
    pub(crate) fn loses(&self, now: Nanos, request: &StoreRequest) -> bool {
        now < self.loses && request.writes()
    }

    /// How much longer a write takes.
    pub(crate) fn delay(&self, now: Nanos, request: &StoreRequest) -> Nanos {
        let (until, by) = self.slow;
        match now < until && request.writes() {
            true => by,
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MILLI;

    #[test]
    fn store_faults_end_and_spare_what_is_kept_in_memory() {
        let append = StoreRequest::Append {
            subject: "r.1".into(),
            id: "a".into(),
            bytes: vec![],
        };
        let renew = StoreRequest::Swap {
            key: LEASE,
            expected: 1,
            value: vec![],
            ttl: None,
        };
        let read = StoreRequest::Get { key: LEASE };
        let mut faults = StoreFaults::default();
        assert!(!faults.refuses(0, &append));
        let (time, by) = (10 * MILLI, 3 * MILLI);
        faults.fill(time);
        faults.refuse(2 * time);
        faults.slow(time, by);
        faults.lose(time);
        let at = 5 * MILLI;
        assert!(faults.refuses(at, &append) && !faults.refuses(at, &renew));
        assert!(faults.loses(at, &renew) && !faults.loses(at, &read));
        let delays = [&append, &read].map(|request| faults.delay(at, request));
        assert_eq!(delays, [by, 0]);
        assert!(faults.refuses(time, &append) && !faults.loses(time, &append));
        assert_eq!(faults.delay(time, &append), 0);
        assert!(!faults.refuses(2 * time, &append));
    }
}
