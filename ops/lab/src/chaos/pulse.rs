//! The longest time in which no program got a result after a server of the broker was taken away.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// State of the measurement.
#[derive(Debug)]
struct State {
    /// Time of the last result of a program.
    last: Instant,
    /// Time at which a server was taken away, until a result comes after the recovery.
    lost: Option<Instant>,
    /// True if all servers are in step again: the next result ends the outage.
    whole: bool,
    longest: Duration,
    /// Number of servers taken away.
    times: usize,
}

impl State {
    fn new(now: Instant) -> Self {
        Self {
            last: now,
            lost: None,
            whole: false,
            longest: Duration::ZERO,
            times: 0,
        }
    }

    fn beat(&mut self, now: Instant) {
        self.count(now);
        self.last = now;
        if self.whole {
            (self.lost, self.whole) = (None, false);
        }
    }

    fn lost(&mut self, now: Instant) {
        self.lost.get_or_insert(now);
        self.whole = false;
        self.times += 1;
    }

    /// Counts the time without a result until now, even if the outage goes on.
    fn count(&mut self, now: Instant) {
        if let Some(lost) = self.lost {
            let silent = now.saturating_duration_since(self.last.max(lost));
            self.longest = self.longest.max(silent);
        }
    }
}

/// Shared by the readers of programs and by the strikes on servers.
#[derive(Debug, Clone)]
pub(super) struct Pulse(Arc<Mutex<State>>);

impl Pulse {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State::new(Instant::now()))))
    }

    fn see<T>(&self, look: impl FnOnce(&mut State, Instant) -> T) -> T {
        let state = &mut self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(state, Instant::now())
    }

    /// Notes that a program got a result.
    pub(super) fn beat(&self) {
        self.see(State::beat);
    }

    /// Notes that a server is taken away.
    pub(super) fn lost(&self) {
        self.see(State::lost);
    }

    /// True if a server was taken away and not all servers are known to be in step since.
    pub(super) fn is_lost(&self) -> bool {
        self.see(|state, _| state.lost.is_some() && !state.whole)
    }

    /// Notes that all servers are in step.
    pub(super) fn whole(&self) {
        self.see(|state, _| state.whole = state.lost.is_some());
    }

    /// The longest time without a result, and the number of servers taken away.
    pub(super) fn longest(&self) -> (Duration, usize) {
        self.see(|state, now| {
            state.count(now);
            (state.longest, state.times)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_silence_after_a_loss_counts_until_all_is_well_again() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut state = State::new(start);
        state.beat(at(20));
        assert_eq!(state.longest, Duration::ZERO, "nothing was taken away");
        state.lost(at(25));
        state.beat(at(28));
        assert_eq!(state.longest, Duration::from_secs(3), "from the loss on");
        state.beat(at(32));
        assert_eq!(state.longest, Duration::from_secs(4), "between results");
        state.whole = true;
        state.beat(at(33));
        state.beat(at(60));
        assert_eq!(state.longest, Duration::from_secs(4), "it is over");
        state.lost(at(61));
        state.count(at(70));
        assert_eq!(state.longest, Duration::from_secs(9), "it lasts");
        assert_eq!(state.times, 2);
    }
}
