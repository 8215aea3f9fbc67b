//! The cluster's status, as its leader answers an administrator. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::{list, rows, text};
use crate::codec::message::Message;
use crate::control::placement::PlaceStatus;
use crate::control::settings::{ClusterSettings, TenantSettings};
use crate::control::target::Attainment;
use crate::id::{
    Epoch, GlobalPosition, GpuId, GpuPosition, Incarnation, InputNumber, LeaderId, Tenant,
};
use crate::record::chain::Chain;
use crate::record::profile::ProfileHash;

/// Administrator to leader, a request: how is the cluster?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusRequest {
    /// Wire version.
    pub v: u16,
}

impl Message for StatusRequest {
    const ARRAY: bool = false;
}

/// One worker in a status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStatus {
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// What the device is, for people.
    #[serde(with = "text")]
    pub device: String,
    /// Sessions it holds.
    pub sessions: u64,
    /// Last position granted.
    pub granted: GpuPosition,
    /// Last position the worker accepted.
    pub accepted: GpuPosition,
    /// The chain there.
    pub chain: Chain,
    /// Charged work granted and not done, nanoseconds.
    pub outstanding_ns: u64,
    /// Whether it is still there.
    pub lost: bool,
    /// It gets no new sessions: it was told to stop, or an administrator drains it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

/// One tenant in a status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TenantStatus {
    /// The tenant.
    pub tenant: Tenant,
    /// Its settings.
    pub settings: TenantSettings,
    /// Open sessions.
    pub sessions: u64,
    /// Ops queued and not granted.
    pub queued: u64,
    /// Ops granted in this epoch.
    pub granted: u64,
    /// How its requests did, once any was done under this leader.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attainment: Option<Box<Attainment>>,
}

/// The leader's answer to a status request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Wire version.
    pub v: u16,
    /// The epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// The last input.
    pub input: InputNumber,
    /// Inputs recorded through this number.
    pub recorded: InputNumber,
    /// The last global position.
    pub global: GlobalPosition,
    /// Whether grants are held.
    pub held: bool,
    /// The workers.
    #[serde(with = "list")]
    pub workers: Vec<WorkerStatus>,
    /// What sessions are placed by, of the workers in the same order.
    #[serde(default, with = "rows")]
    pub places: Vec<PlaceStatus>,
    /// The tenants.
    #[serde(with = "list")]
    pub tenants: Vec<TenantStatus>,
    /// The settings that it orders by; earlier leaders do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<ClusterSettings>,
    /// The profile that it orders by; earlier leaders do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileStatus>,
    /// What is kept in the broker, and how full it is; earlier leaders do not say.
    #[serde(default, with = "list", skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreStatus>,
}

impl Message for Status {
    const ARRAY: bool = false;
}

/// A stream or bucket in a status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Its name, or that of what all of them share.
    #[serde(with = "text")]
    pub name: String,
    /// Bytes in it.
    pub bytes: u64,
    /// Bytes that it may hold; 0 where that is not known.
    pub limit: u64,
    /// What is wrong with it, for people; empty where nothing is.
    #[serde(with = "text")]
    pub alarm: String,
}

/// The profile in a status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileStatus {
    /// Its version.
    pub version: u64,
    /// The hash of all its estimates.
    pub hash: ProfileHash,
    /// Kernel keys in it.
    pub kernels: u64,
    /// Nothing that is measured changes it.
    pub pinned: bool,
}
