//! The host's clock.

use std::time::SystemTime;

/// Time of the host's clock, nanoseconds since 1970.
pub(crate) fn now() -> u64 {
    let elapsed = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    elapsed.as_nanos().try_into().unwrap_or(u64::MAX)
}
