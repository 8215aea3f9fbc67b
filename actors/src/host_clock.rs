//! The clock of the host.

use std::time::{Duration, SystemTime};

/// Returns the time since 1970; zero if the clock stands before that.
pub(crate) fn since_1970() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// The same in milliseconds.
pub(crate) fn ms_since_1970() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}
