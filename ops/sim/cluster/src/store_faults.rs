//! Faults of a store that answers but does not accept writes: the record is full, or writes are slow,
//! refused, or lost on their way.

use crate::Nanos;
use crate::store::{LEASE, StoreRequest};

/// Time until which each fault lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreFaults {
    full: Nanos,
    refuses: Nanos,
    loses: Nanos,
    slow: (Nanos, Nanos),
}

impl StoreFaults {
    /// Fills the record until a time.
    pub fn fill(&mut self, until: Nanos) {
        self.full = self.full.max(until);
    }

    /// Makes its disk refuse writes until a time.
    pub fn refuse(&mut self, until: Nanos) {
        self.refuses = self.refuses.max(until);
    }

    /// Loses writes, or their answers, until a time.
    pub fn lose(&mut self, until: Nanos) {
        self.loses = self.loses.max(until);
    }

    /// Makes each write take `by` longer until a time.
    pub fn slow(&mut self, until: Nanos, by: Nanos) {
        self.slow = (self.slow.0.max(until), by);
    }

    /// True if a request is refused. The lease is kept in memory, so a full disk keeps no candidate from
    /// leading.
    pub(crate) fn refuses(&self, now: Nanos, request: &StoreRequest) -> bool {
        let appends = matches!(request, StoreRequest::Append { .. });
        let lease = matches!(request, StoreRequest::Swap { key: LEASE, .. });
        (now < self.full && appends) || (now < self.refuses && request.writes() && !lease)
    }

    /// True if a write, or its answer, is lost.
    pub(crate) fn loses(&self, now: Nanos, request: &StoreRequest) -> bool {
        now < self.loses && request.writes()
    }

    /// Additional time of a write.
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
