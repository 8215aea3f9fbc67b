//! The waits of the device's thread between two looks at the GPU.

use std::time::{Duration, Instant};

use crate::clock::Clock;

/// Time after an event for which the thread looks without a pause: a sleep takes longer than many kernels.
const AWAKE: Duration = Duration::from_micros(50);
/// A sleep between two looks.
const NAP: Duration = Duration::from_micros(20);
/// Minimum number of processors of a host that can spare one.
const SPARE: usize = 3;
/// Number of turns of a loop that waits without a pause.
const TURNS: usize = 16;
/// Time that these turns take about, and that it takes to let another thread run.
const SPUN: Duration = Duration::from_nanos(300);
const YIELDED: Duration = Duration::from_micros(1);

/// The wait until the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pause {
    Spin,
    Yield,
    Sleep,
}

/// The conditions under which the thread may sleep.
#[derive(Debug)]
pub(crate) struct Rest {
    clock: Clock,
    /// True if the host has a processor to spare.
    spins: bool,
    /// Time of the last submission or completion.
    stirred_at: Instant,
}

impl Rest {
    /// Creates it for a thread with this clock. On another clock than the host's, a thread has a processor to
    /// itself, whichever the host is.
    pub(crate) fn new(clock: Clock) -> Self {
        let spins = match &clock {
            Clock::Host => std::thread::available_parallelism().is_ok_and(|n| n.get() >= SPARE),
            Clock::Given(_) => true,
        };
        Self {
            spins,
            stirred_at: clock.now(),
            clock,
        }
    }

    /// Notes that work was submitted, or has completed.
    pub(crate) fn stirred(&mut self) {
        self.stirred_at = self.clock.now();
    }

    /// Passes some time, at most `most`; `hurried` if the GPU should get more work at once.
    pub(crate) fn pause(&self, hurried: bool, most: Duration) {
        let pause = self.next(hurried, self.clock.since(self.stirred_at));
        match (pause, &self.clock) {
            (Pause::Spin, Clock::Host) => (0..TURNS).for_each(|_| std::hint::spin_loop()),
            (Pause::Yield, Clock::Host) => std::thread::yield_now(),
            (Pause::Sleep, Clock::Host) => std::thread::sleep(NAP.min(most)),
            (Pause::Spin, Clock::Given(clock)) => clock.pass(SPUN),
            (Pause::Yield, Clock::Given(clock)) => clock.pass(YIELDED),
            (Pause::Sleep, Clock::Given(clock)) => clock.pass(NAP.min(most)),
        }
    }

    fn next(&self, hurried: bool, still: Duration) -> Pause {
        match (hurried, self.spins && still < AWAKE) {
            (true, _) => Pause::Yield,
            (false, true) => Pause::Spin,
            (false, false) => Pause::Sleep,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_sleeps_once_nothing_happens_and_where_it_would_keep_others_from_running() {
        let rest = |spins| Rest {
            spins,
            ..Rest::new(Clock::Host)
        };
        let (soon, late) = (AWAKE / 2, AWAKE);
        for (spins, hurried, still, pause) in [
            (true, false, soon, Pause::Spin),
            (true, false, late, Pause::Sleep),
            (false, false, soon, Pause::Sleep),
            (true, true, late, Pause::Yield),
            (false, true, late, Pause::Yield),
        ] {
            let next = rest(spins).next(hurried, still);
            assert_eq!(next, pause, "{spins} {hurried} {still:?}");
        }
    }
}
