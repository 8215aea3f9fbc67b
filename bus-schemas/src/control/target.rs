//! Targets of tenants (SLOs): whether they can be met, and whether they are.

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::list;
use crate::codec::message::Message;
use crate::control::settings::TenantSettings;
use crate::id::{GpuId, Tenant};

/// How a tenant's requests did, by the clock of the leader that has counted them. A request is what
/// lies between two syncs of a session: from the arrival of the intent of its first op to the report
/// that its sync is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attainment {
    /// Nanoseconds for which they are counted: since this leader's term began, or since the target
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

/// Administrator to leader, a request: could all targets be met if a tenant were set like this?
/// Nothing is changed by it. Answered by [`AdmissionAnswer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdmissionRequest {
    /// Wire version.
    pub v: u16,
    /// The tenant; it need not exist.
    pub tenant: Tenant,
    /// What it would be.
    pub settings: TenantSettings,
}

impl Message for AdmissionRequest {
    const ARRAY: bool = false;
}

/// Whether a target can be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Feasibility {
    /// As far as the profile tells, it can.
    Met,
    /// No request of the tenant was seen by this leader.
    Unknown,
    /// It can not: tenants with targets, and what goes before them, want more of the device than
    /// there is.
    Overloaded,
    /// It can not: what may be ahead of a request takes the rest of its target.
    Crowded,
    /// It can not: a request alone takes longer.
    TooLong,
}

/// One tenant's target, judged on the GPU where it fares worst.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// The tenant.
    pub tenant: Tenant,
    /// Its target, nanoseconds.
    pub target_ns: u64,
    /// The verdict.
    pub verdict: Feasibility,
    /// The GPU that the figures are of; none where nothing is known.
    pub gpu: Option<GpuId>,
    /// What a request is estimated to take, nanoseconds.
    pub request_ns: u64,
    /// One request of each tenant that goes before it there, nanoseconds.
    pub before_ns: u64,
    /// What may be let ahead of it of lower priorities, nanoseconds.
    pub ahead_ns: u64,
    /// The device's time that it and those before it used lately, thousandths.
    pub load_permille: u32,
}

/// The leader's answer: every target there would be.
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
