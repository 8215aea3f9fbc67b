//! What keeps the store from taking what it is given though it answers: the record is full, writes
//! are slow, refused, or lost on their way.

use crate::cluster::LEASE;
use crate::faults::Fault;
use crate::store::StoreRequest;
use sim_time::Nanos;

/// Until when which hardship lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hardship {
    full: Nanos,
    refuses: Nanos,
    loses: Nanos,
    slow: (Nanos, Nanos),
}

impl Hardship {
    /// A fault begins.
    pub(crate) fn strike(&mut self, now: Nanos, fault: Fault) {
        let until = now + fault.time();
        match fault {
            Fault::RecordFull { .. } => self.full = self.full.max(until),
            Fault::StoreRefuses { .. } => self.refuses = self.refuses.max(until),
            Fault::WritesLost { .. } => self.loses = self.loses.max(until),
            Fault::StoreSlow { by, .. } => self.slow = (self.slow.0.max(until), by),
            _ => {}
        }
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
    use sim_time::MILLI;

    #[test]
    fn hardships_end_and_spare_what_is_kept_in_memory() {
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
        let mut hardship = Hardship::default();
        assert!(!hardship.refuses(0, &append));
        let time = 10 * MILLI;
        hardship.strike(MILLI, Fault::RecordFull { time });
        hardship.strike(MILLI, Fault::StoreRefuses { time: 2 * time });
        let by = 3 * MILLI;
        hardship.strike(MILLI, Fault::StoreSlow { time, by });
        hardship.strike(MILLI, Fault::WritesLost { time });
        let at = 5 * MILLI;
        assert!(hardship.refuses(at, &append) && !hardship.refuses(at, &renew));
        assert!(hardship.loses(at, &renew) && !hardship.loses(at, &read));
        assert_eq!(
            (hardship.delay(at, &append), hardship.delay(at, &read)),
            (by, 0)
        );
        let over = MILLI + time;
        assert!(hardship.refuses(over, &append) && !hardship.loses(over, &append));
        assert_eq!(hardship.delay(over, &append), 0);
        assert!(!hardship.refuses(MILLI + 2 * time, &append));
    }
}
