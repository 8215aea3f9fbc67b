//! The pauses before a dead child is restarted.

use std::time::{Duration, Instant};

/// The pause before the first restart.
const FIRST: Duration = Duration::from_millis(200);
/// Maximum of the pause, which doubles up to it. The cause of the death may end soon, so the
/// restarts never stop.
const MOST: Duration = Duration::from_secs(5);
/// A child that lived this long begins with the first pause again.
const STEADY: Duration = Duration::from_secs(30);

/// One child's deaths, and the time of its restart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    deaths: u32,
    due: Option<Instant>,
    left: bool,
}

impl Restarts {
    /// Notes that it died at the age `lived`; returns the pause before its restart.
    pub(super) fn died(&mut self, now: Instant, lived: Duration) -> Duration {
        if lived >= STEADY {
            self.deaths = 0;
        }
        let pause = FIRST
            .saturating_mul(1_u32.checked_shl(self.deaths).unwrap_or(u32::MAX))
            .min(MOST);
        self.deaths = self.deaths.saturating_add(1);
        self.due = Some(now + pause);
        pause
    }

    /// Notes that it left as it was asked to, and is not restarted; returns true the first time.
    pub(super) fn left(&mut self) -> bool {
        !std::mem::replace(&mut self.left, true)
    }

    /// True if its death is known and its pause has not ended.
    pub(super) fn is_known(&self) -> bool {
        self.due.is_some()
    }

    /// True, once, if its pause has ended.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        self.due.take_if(|due| *due <= now).is_some()
    }

    /// Ends the pause now, because the cause of the death is over.
    pub(super) fn hasten(&mut self, now: Instant) {
        if let Some(due) = &mut self.due {
            *due = now.min(*due);
        }
    }

    /// Number of deaths in a row.
    pub(super) fn deaths(&self) -> u32 {
        self.deaths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_shrink_after_a_long_life() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..40 {
            pauses.push(restarts.died(now, Duration::ZERO));
            assert!(restarts.is_known() && !restarts.is_due(now));
            assert!(restarts.is_due(now + MOST) && !restarts.is_known());
        }
        assert_eq!(pauses[0], FIRST);
        assert!(pauses.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(pauses[39], MOST);
        assert_eq!(restarts.deaths(), 40);
        assert_eq!(restarts.died(now, STEADY), FIRST);
    }

    #[test]
    fn a_pause_ends_when_what_it_waits_for_is_over() {
        let (mut restarts, now) = (Restarts::default(), Instant::now());
        restarts.hasten(now);
        assert!(!restarts.is_known(), "it has not died");
        restarts.died(now, Duration::ZERO);
        assert!(!restarts.is_due(now));
        restarts.hasten(now);
        assert!(restarts.is_due(now) && !restarts.is_known());
    }

    #[test]
    fn what_has_left_is_said_once() {
        let mut restarts = Restarts::default();
        assert!(restarts.left() && !restarts.left());
        assert!(!restarts.is_due(Instant::now() + MOST));
    }
}
