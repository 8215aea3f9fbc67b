//! The cluster's status: its leader's answer to an administrator. Maps by field name.

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

/// Administrator to leader, a request for the cluster's status.
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
    /// Description of the device, for people.
    #[serde(with = "text")]
    pub device: String,
    /// Number of sessions that it holds.
    pub sessions: u64,
    /// Last position granted.
    pub granted: GpuPosition,
    /// Last position the worker accepted.
    pub accepted: GpuPosition,
    /// The chain there.
    pub chain: Chain,
    /// Charged work granted and not done, nanoseconds.
    pub outstanding_ns: u64,
    /// True if the worker is lost. Leaders name lost workers in [`Status::lost`] instead.
    pub lost: bool,
    /// True if it gets no new sessions: it was told to stop, or an administrator drains it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draining: bool,
}

/// A worker in a status that was declared lost and did not say that it leaves. It is named until a
/// worker serves its device again, for an hour at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostWorker {
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device, if the leader knows it.
    pub gpu: Option<GpuId>,
    /// Description of the device, for people; empty if the leader does not know it.
    #[serde(with = "text")]
    pub device: String,
    /// Time since it was declared lost, nanoseconds.
    pub lost_for_ns: u64,
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
    /// Attainment of its requests, once any has completed under this leader.
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
    /// True if grants are held.
    pub held: bool,
    /// True while the leader waits for the seal of a worker that it knows: the positions of that
    /// worker are missing. Earlier leaders do not send it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// The workers that are there.
    #[serde(with = "list")]
    pub workers: Vec<WorkerStatus>,
    /// State of the workers that placement is decided by, in the same order.
    #[serde(default, with = "rows")]
    pub places: Vec<PlaceStatus>,
    /// The tenants.
    #[serde(with = "list")]
    pub tenants: Vec<TenantStatus>,
    /// The settings that the order is decided by; earlier leaders do not send them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<ClusterSettings>,
    /// The profile that the order is decided by; earlier leaders do not send it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileStatus>,
    /// The broker's streams and buckets with their fill; earlier leaders do not send them.
    #[serde(default, with = "list", skip_serializing_if = "Vec::is_empty")]
    pub stores: Vec<StoreStatus>,
    /// The lost workers that are missed; earlier leaders do not name them.
    #[serde(default, with = "list", skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<LostWorker>,
}

impl Message for Status {
    const ARRAY: bool = false;
}

/// A stream or bucket in a status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Its name, or that of a resource that all of them share.
    #[serde(with = "text")]
    pub name: String,
    /// Bytes stored.
    pub bytes: u64,
    /// Maximum bytes; 0 if unknown.
    pub limit: u64,
    /// The problem, for people; empty if none.
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
    /// Number of kernel keys in it.
    pub kernels: u64,
    /// True if measurements do not change it.
    pub pinned: bool,
}
