//! Reports that the stream has dropped by its bounds, found by gaps in the numbers of delivered messages.
//!
//! Only a tracer removes messages, and only those that it was given. So a message above all that tracers were given,
//! and that is never delivered, was dropped. A message that was lost with a connection is in the gap too, and comes
//! again with another consumer. The consumer numbers its deliveries, and so tells how many these are.

/// The messages so far.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// The highest message that a tracer was given.
    reached: u64,
    /// The highest message that another tracer may have been given.
    before: u64,
    /// Number of the consumer's last delivery.
    delivery: u64,
}

impl Gaps {
    /// Begins the deliveries of a new consumer. `reached` is the highest message that another tracer may have been
    /// given; `None` if there was no other since the last consumer.
    pub(crate) fn begin(&mut self, reached: Option<u64>) {
        self.delivery = 0;
        if let Some(reached) = reached {
            (self.reached, self.before) = (reached, reached);
        }
    }

    /// True if no other tracer was given this message.
    pub(crate) fn is_new(&self, message: u64) -> bool {
        message > self.before
    }

    /// Notes a message and the number of its delivery. Returns how many before it were dropped, at least.
    pub(crate) fn delivered(&mut self, message: u64, delivery: u64) -> u64 {
        let lost = delivery.saturating_sub(self.delivery).saturating_sub(1);
        self.delivery = self.delivery.max(delivery);
        let missing = message.saturating_sub(self.reached).saturating_sub(1);
        self.reached = self.reached.max(message);
        missing.saturating_sub(lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_delivered_was_dropped() {
        let mut gaps = Gaps::default();
        gaps.begin(Some(10));
        let dropped = [(11, 1), (12, 2), (15, 3), (16, 4), (26, 5)];
        let dropped = dropped.map(|(message, delivery)| gaps.delivered(message, delivery));
        assert_eq!(dropped, [0, 0, 2, 0, 9]);
    }

    #[test]
    fn what_an_earlier_tracer_had_may_have_been_removed_by_it() {
        let mut gaps = Gaps::default();
        gaps.begin(Some(100));
        let dropped = [(40, 1), (90, 2), (103, 3)];
        let dropped = dropped.map(|(message, delivery)| gaps.delivered(message, delivery));
        assert_eq!(dropped, [0, 0, 2], "only 101 and 102");
        assert_eq!(
            [90, 100, 103].map(|it| gaps.is_new(it)),
            [false, false, true]
        );
    }

    #[test]
    fn what_was_lost_with_a_connection_comes_again_and_is_not_dropped() {
        let mut gaps = Gaps::default();
        gaps.begin(Some(0));
        assert_eq!(gaps.delivered(1, 1), 0);
        // 2 to 4 went to a connection that had died, and 5 was dropped.
        assert_eq!(gaps.delivered(6, 5), 1);
        // The next consumer has them, and 7 was dropped.
        gaps.begin(None);
        let again = [(2, 1), (3, 2), (4, 3), (6, 4), (8, 5)];
        let again = again.map(|(message, delivery)| gaps.delivered(message, delivery));
        assert_eq!(again, [0, 0, 0, 0, 1]);
        // A delivery that comes a second time is no gap.
        assert_eq!([gaps.delivered(3, 6), gaps.delivered(9, 7)], [0, 0]);
        assert_eq!(gaps.delivered(0, 0), 0, "a message without numbers");
    }
}
