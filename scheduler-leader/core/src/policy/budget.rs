//! The budget of a tenant with a cap: the time that it may still be granted on one GPU.
//!
//! A cap is a percentage of the device's time. Time reaches the order as ticks only: each tick adds
//! to the budget of a capped flow its share of a tick. A flow is granted slices while its budget is
//! positive. Its last slice may put it into debt, which later ticks pay first.

/// Time between two ticks, nanoseconds; the leader's shell keeps to it.
pub const TICK_NS: u64 = 10_000_000;

/// Number of ticks of which a flow without work may save the shares.
const SAVED: i64 = 2;

/// Nanoseconds that may be granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Budget(i64);

/// Nanoseconds that a tick adds at a cap, percent.
fn share(cap: u8) -> i64 {
    i64::from(cap.min(100)) * (TICK_NS as i64 / 100)
}

impl Budget {
    /// The budget of a flow that has had no grant yet.
    pub(crate) fn full(cap: u8) -> Self {
        Self(SAVED * share(cap))
    }

    /// Adds the share of one tick.
    pub(crate) fn refill(&mut self, cap: u8) {
        self.0 = (self.0 + share(cap)).min(SAVED * share(cap));
    }

    /// Subtracts the cost of granted work.
    pub(crate) fn spend(&mut self, ns: u64) {
        self.0 = self.0.saturating_sub(i64::try_from(ns).unwrap_or(i64::MAX));
    }

    /// Nanoseconds that may be granted; negative if the last slice took more.
    pub(crate) fn ns(self) -> i64 {
        self.0
    }

    /// Returns true if nothing more may be granted before the next tick.
    pub(crate) fn is_spent(&self) -> bool {
        self.0 <= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_any_time_a_cap_is_kept_but_for_what_was_saved_and_one_slice() {
        let slice = 700_000;
        let mut budget = Budget::full(30);
        let mut granted = 0;
        for tick in 0..1_000 {
            while !budget.is_spent() {
                budget.spend(slice);
                granted += slice;
            }
            let share = (tick + 3) * 3_000_000 + slice;
            assert!(granted <= share, "{granted} of {share}");
            assert!(granted + 3_000_000 >= share - slice - 6_000_000);
            budget.refill(30);
        }
    }
}
