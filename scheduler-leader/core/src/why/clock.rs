//! A worker's clock, related to its leader's.

use crate::time::Nanos;

/// The difference by which a leader's clock is ahead of a worker's, as bounded by the messages of a
/// term. No message arrives before it was sent, in either direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WorkerClock {
    /// Upper bound, from messages that the leader heard.
    most: Option<i128>,
    /// Lower bound, from messages that the worker received.
    least: Option<i128>,
}

impl WorkerClock {
    /// Notes that the leader heard at `at` a message that the worker sent at `clock`.
    pub(super) fn heard(&mut self, at: Nanos, clock: u64) {
        let seen = i128::from(at) - i128::from(clock);
        self.most = Some(self.most.map_or(seen, |most| most.min(seen)));
    }

    /// Notes that the worker had at `clock` a decision that the leader made at `at`.
    pub(super) fn sent(&mut self, at: Nanos, clock: u64) {
        let seen = i128::from(at) - i128::from(clock);
        self.least = Some(self.least.map_or(seen, |least| least.max(seen)));
    }

    /// A time of the worker's clock by the leader's, at most `now`. The quickest messages in both
    /// directions are assumed to have taken the same time.
    pub(super) fn leaders(&self, moment: u64, now: Nanos) -> Nanos {
        let ahead = match (self.least, self.most) {
            (Some(least), Some(most)) => least + (most - least) / 2,
            (None, Some(only)) | (Some(only), None) => only,
            (None, None) => return now,
        };
        let moment = i128::from(moment) + ahead;
        u64::try_from(moment.max(0)).unwrap_or(now).min(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quickest_messages_tell_and_slow_ones_change_nothing() {
        // The leader's clock is 1,000 ahead; a message takes at least 20.
        let mut clock = WorkerClock::default();
        assert_eq!(clock.leaders(7, 99), 99, "nothing is known");
        clock.heard(1_500, 400);
        assert_eq!(clock.leaders(300, 5_000), 1_400);
        clock.heard(1_720, 700);
        clock.sent(1_600, 620);
        assert_eq!(clock.leaders(300, 5_000), 1_300);
        clock.heard(9_000, 800);
        clock.sent(1_600, 900);
        assert_eq!(clock.leaders(300, 5_000), 1_300);
        assert_eq!(clock.leaders(u64::MAX, 5_000), 5_000);
        clock.sent(0, u64::MAX);
        assert_eq!(clock.leaders(0, 5_000), 1_000);
    }
}
