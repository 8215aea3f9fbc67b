//! Lateness of heartbeats and timers: how starved the machines are, and so how long a silence may be
//! that says nothing.

use crate::time::Nanos;

/// Half of what was late is forgotten after so long without anything as late.
const HALVES: Nanos = 20_000_000_000;
/// What is later than this counts as this.
const MOST: Nanos = 5_000_000_000;
/// A silence is borne so many times longer than anything was late.
const FACTOR: Nanos = 8;

/// The worst lateness of late: of own timers, own heartbeats that come back from the broker, and
/// heartbeats of peers.
#[derive(Debug, Default)]
pub(super) struct Lateness {
    worst: Nanos,
    at: Nanos,
}

impl Lateness {
    /// Something was late.
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

    /// Whether anything was so late of late.
    pub(super) fn is_starved(&self, now: Nanos, late: Nanos) -> bool {
        self.worst(now) >= late
    }

    /// How long a peer may be silent that is believed to be silent after `base` where nothing is late.
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
        // Small delays do not keep a large one in mind.
        (0..30).for_each(|second| lateness.note(second * 1_000 * MS, MS));
        assert_eq!(patience(&lateness, 2 * HALVES), 500);
        assert!(patience(&lateness, 60 * HALVES) == 300);
        lateness.note(60 * HALVES, Nanos::MAX);
        assert_eq!(patience(&lateness, 60 * HALVES), 3_000, "bounded");
        assert_eq!(lateness.patience(60 * HALVES, 500 * MS, 0), 500 * MS);
    }
}
