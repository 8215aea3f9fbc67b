//! Lateness of heartbeats and timers: a measure of how starved the machines are, and so of the
//! silence that proves nothing.

use crate::time::Nanos;

/// Time after which half of a lateness is forgotten, if nothing was as late.
const HALVES: Nanos = 20_000_000_000;
/// Maximum lateness that counts.
const MOST: Nanos = 5_000_000_000;
/// Factor between lateness and the additional silence that is tolerated.
const FACTOR: Nanos = 8;

/// The worst recent lateness: of own timers, of own heartbeats that come back from the broker, and
/// of heartbeats of peers.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    worst: Nanos,
    at: Nanos,
}

impl Lateness {
    /// Notes a lateness.
    pub(super) fn note(&mut self, now: Nanos, late: Nanos) {
        let late = late.min(MOST);
        if late > self.worst(now) {
            (self.worst, self.at) = (late, now);
        }
    }

    fn worst(&self, now: Nanos) -> Nanos {
        let halvings = now.saturating_sub(self.at) / HALVES;
        self.worst >> halvings.min(63)
    }

    /// Returns true if anything was recently at least this late.
    pub(super) fn is_starved(&self, now: Nanos, late: Nanos) -> bool {
        self.worst(now) >= late
    }

    /// Maximum tolerated silence of a peer. Without lateness, it is `base`.
    pub(super) fn patience(&self, now: Nanos, base: Nanos, most: Nanos) -> Nanos {
        let slack = FACTOR.saturating_mul(self.worst(now));
        base.saturating_add(slack).min(most.max(base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = 1_000_000;

    #[test]
    fn patience_follows_what_is_late_and_comes_back() {
        let mut lateness = Lateness::default();
        let patience = |it: &Lateness, now| it.patience(now, 300 * MS, 3_000 * MS) / MS;
        assert_eq!(patience(&lateness, 0), 300);
        lateness.note(0, 100 * MS);
        lateness.note(5, 20 * MS);
        assert_eq!(patience(&lateness, 10), 1_100);
        assert_eq!(patience(&lateness, HALVES), 700);
        // Small delays do not keep a large one in memory.
        (0..30).for_each(|second| lateness.note(second * 1_000 * MS, MS));
        assert_eq!(patience(&lateness, 2 * HALVES), 500);
        assert!(patience(&lateness, 60 * HALVES) == 300);
        lateness.note(60 * HALVES, Nanos::MAX);
        assert_eq!(patience(&lateness, 60 * HALVES), 3_000, "bounded");
        assert_eq!(lateness.patience(60 * HALVES, 500 * MS, 0), 500 * MS);
    }
}
