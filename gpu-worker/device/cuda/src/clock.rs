//! The clock of a device's thread.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A clock that a test gives a device, in place of the host's.
pub trait DeviceClock: Debug + Send + Sync {
    /// Returns the time of the calling thread.
    fn now(&self) -> Instant;

    /// Lets some time of the calling thread pass.
    fn pass(&self, time: Duration);
}

/// The clock of a device.
#[derive(Debug, Clone, Default)]
pub(crate) enum Clock {
    /// The host's.
    #[default]
    Host,
    Given(Arc<dyn DeviceClock>),
}

impl Clock {
    /// Returns the time now. The host's costs one comparison more than asking the host.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        match self {
            Self::Host => Instant::now(),
            Self::Given(clock) => clock.now(),
        }
    }

    /// Lets the calling thread's time pass up to a time of another thread's. The host's has passed.
    pub(crate) fn reach(&self, time: Instant) {
        if let Self::Given(clock) = self {
            clock.pass(time.saturating_duration_since(clock.now()));
        }
    }

    /// Returns the time that has passed since an earlier one.
    #[inline]
    pub(crate) fn since(&self, earlier: Instant) -> Duration {
        self.now().saturating_duration_since(earlier)
    }
}
