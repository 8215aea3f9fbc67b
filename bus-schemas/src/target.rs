//! Targets of tenants (SLOs): how they are met.

use serde::{Deserialize, Serialize};

/// How a tenant's requests did, by the clock of the leader that has counted them. A request is what
/// lies between two syncs of a session: from the arrival of the intent of its first op to the report
/// that its sync is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attainment {
    /// Nanoseconds for which they are counted: since this leader's reign began, or since the target
    /// was last changed.
    pub counted_ns: u64,
    /// Requests in all that time.
    pub total_requests: u64,
    /// Of those, such as took no longer than the target; 0 without one.
    pub total_within: u64,
    /// Requests of the last minute.
    pub requests: u64,
    /// Of those, such as took no longer than the target.
    pub within: u64,
    /// The 99th percentile of those, nanoseconds, at most 1.6 % off; 0 if there were none.
    pub p99_ns: u64,
}
