//! Targets of tenants (SLOs): their feasibility and their attainment.

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::list;
use crate::codec::message::Message;
use crate::control::settings::TenantSettings;
use crate::id::{GpuId, Tenant};

/// Attainment of a tenant's requests, by the clock of the leader that counted them. A request lies
/// between two syncs of a session: from the arrival of its first op's intent to the report that its
/// sync is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attainment {
    /// Time of the count in nanoseconds: since this leader's term began, or since the target was
    /// last changed.
    pub counted_ns: u64,
    /// Requests in all that time.
    pub total_requests: u64,
    /// Of those, the requests that took no longer than the target; 0 without one.
    pub total_within: u64,
    /// Requests of the last minute.
    pub requests: u64,
    /// Of those, the requests that took no longer than the target.
    pub within: u64,
    /// The 99th percentile of those, nanoseconds, at most 1.6 % off; 0 if there were none.
    pub p99_ns: u64,
}

/// Administrator to leader, a request that asks if all targets could be met with these settings of
/// a tenant. It changes nothing. Answered by [`AdmissionAnswer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdmissionRequest {
    /// Wire version.
    pub v: u16,
    /// The tenant; it need not exist.
    pub tenant: Tenant,
    /// The hypothetical settings.
    pub settings: TenantSettings,
}

impl Message for AdmissionRequest {
    const ARRAY: bool = false;
}

/// The verdict on a tenant's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Feasibility {
    /// The target can be met, as far as the profile tells.
    Met,
    /// This leader has seen no request of the tenant.
    Unknown,
    /// The target cannot be met: tenants with targets, and work before them, need more of the
    /// device than there is.
    Overloaded,
    /// The target cannot be met: work that may be ahead of a request takes the rest of its target.
    Crowded,
    /// The target cannot be met: a request alone takes longer.
    TooLong,
}

/// One tenant's target, judged on the GPU with the worst result for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The tenant.
    pub tenant: Tenant,
    /// Its target, nanoseconds.
    pub target_ns: u64,
    /// The verdict.
    pub verdict: Feasibility,
    /// The GPU of the figures; `None` if nothing is known.
    pub gpu: Option<GpuId>,
    /// Estimated time of a request, nanoseconds.
    pub request_ns: u64,
    /// Estimated time of one request of each tenant before it there, nanoseconds.
    pub before_ns: u64,
    /// Work of lower priorities that may be ahead of it, nanoseconds.
    pub ahead_ns: u64,
    /// Device time that it and those before it used recently, thousandths.
    pub load_permille: u32,
}

/// The leader's answer: all targets that would exist.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionAnswer {
    /// Wire version.
    pub v: u16,
    /// The targets, by tenant.
    #[serde(with = "list")]
    pub targets: Vec<Admission>,
}

impl Message for AdmissionAnswer {
    const ARRAY: bool = false;
}
