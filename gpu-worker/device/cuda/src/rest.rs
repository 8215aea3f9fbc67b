//! The waits of the device's thread between two looks at the GPU.

use std::time::{Duration, Instant};

/// Time after an event for which the thread looks without a pause: a sleep takes longer than many kernels.
const AWAKE: Duration = Duration::from_micros(50);
/// A sleep between two looks.
const NAP: Duration = Duration::from_micros(20);
/// Minimum number of processors of a host that can spare one.
const SPARE: usize = 3;
/// Number of turns of a loop that waits without a pause, some hundred nanoseconds.
const TURNS: usize = 16;

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
    /// True if the host has a processor to spare.
    spins: bool,
    /// Time of the last submission or completion.
    stirred_at: Instant,
}

impl Rest {
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism();
        Self {
            spins: processors.is_ok_and(|n| n.get() >= SPARE),
            stirred_at: Instant::now(),
        }
    }

    /// Notes that work was submitted, or has completed.
    pub(crate) fn stirred(&mut self) {
        self.stirred_at = Instant::now();
    }

    /// Passes some time, at most `most`; `hurried` if the GPU should get more work at once.
    pub(crate) fn pause(&self, hurried: bool, most: Duration) {
        match self.next(hurried, self.stirred_at.elapsed()) {
            Pause::Spin => (0..TURNS).for_each(|_| std::hint::spin_loop()),
            Pause::Yield => std::thread::yield_now(),
            Pause::Sleep => std::thread::sleep(NAP.min(most)),
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
            ..Rest::new()
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
