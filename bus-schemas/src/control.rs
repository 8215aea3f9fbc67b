//! The control plane: sessions, membership, status. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::address::Window;
use crate::chain::Chain;
use crate::codec::{Message, WIRE_VERSION};
use crate::error::Failure;
use crate::id::{
    Epoch, GlobalPosition, GpuId, GpuPosition, Incarnation, InputNumber, LeaderId, OpNumber,
    SessionId, Tenant,
};
use crate::owned::{list, rows, text};
use crate::placement::{Images, OtherDevice, PlaceStatus};
use crate::profile::ProfileHash;
use crate::properties::DeviceProperties;
use crate::settings::{ClusterSettings, TenantSettings};
use crate::target::Attainment;

/// Client to leader, a request: open a session. Who asks is read from the subject.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Wire version.
    pub v: u16,
    /// Random; a request sent again with the same nonce opens one session only.
    pub nonce: u64,
    /// Name of the client's connection, for telling its death from its disconnect event.
    #[serde(with = "text")]
    pub connection: String,
    /// Devices asked for, each on another worker: all or none. Those behind the first are known
    /// by the nonces behind this one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub devices: u32,
}

fn one() -> u32 {
    1
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands on a reference"
)]
fn is_one(devices: &u32) -> bool {
    *devices == 1
}

impl Message for OpenRequest {
    const ARRAY: bool = false;
}

/// An opened session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// The session.
    pub session: SessionId,
    /// It is the tenant's how manyth, from 1.
    pub ordinal: u64,
    /// The worker that holds it.
    pub incarnation: Incarnation,
    /// That worker's device.
    pub gpu: GpuId,
    /// The session's addresses. The client allocates in the lower 15/16; the rest is the
    /// worker's, for module globals.
    pub window: Window,
    /// Memory the tenant may hold on this device, bytes.
    pub quota: u64,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// What the device is, where its worker says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<DeviceProperties>,
}

/// The answer to an open request: a session or a failure is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenAnswer {
    /// Wire version.
    pub v: u16,
    /// The session; of several devices the first.
    pub opened: Option<Opened>,
    /// Or why there is none.
    pub failure: Option<Failure>,
    /// The other devices.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherDevice>,
    /// What those are, in the same order.
    #[serde(default, with = "list", skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<DeviceProperties>,
}

impl OpenAnswer {
    /// An answer with these devices, the first first.
    #[must_use]
    pub fn of(devices: &[Opened]) -> Self {
        let others = devices.iter().skip(1);
        Self {
            v: WIRE_VERSION,
            opened: devices.first().cloned(),
            failure: None,
            properties: others
                .clone()
                .map(|it| it.properties.clone().unwrap_or_default())
                .collect(),
            others: others
                .map(|it| OtherDevice {
                    session: it.session,
                    ordinal: it.ordinal,
                    incarnation: it.incarnation,
                    gpu: it.gpu,
                    window: it.window,
                    quota: it.quota,
                })
                .collect(),
        }
    }

    /// An answer that says why there is no session.
    #[must_use]
    pub fn refusal(failure: Failure) -> Self {
        Self {
            v: WIRE_VERSION,
            opened: None,
            failure: Some(failure),
            others: Vec::new(),
            properties: Vec::new(),
        }
    }

    /// Every device; none where it is a refusal.
    #[must_use]
    pub fn devices(self) -> Vec<Opened> {
        let Some(first) = self.opened else {
            return Vec::new();
        };
        let mut properties = self.properties.into_iter();
        let others: Vec<_> = self.others.into_iter().collect();
        let others = others.into_iter().map(|it| Opened {
            session: it.session,
            ordinal: it.ordinal,
            incarnation: it.incarnation,
            gpu: it.gpu,
            window: it.window,
            quota: it.quota,
            epoch: first.epoch,
            leader: first.leader,
            // One that says nothing of itself has no multiprocessors either.
            properties: properties.next().filter(|it| it.sms > 0),
        });
        let others: Vec<_> = others.collect();
        std::iter::once(first).chain(others).collect()
    }
}

impl Message for OpenAnswer {
    const ARRAY: bool = false;
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CloseReason {
    /// Its client asked.
    Asked,
    /// Its client is dead or was not heard from.
    Expired,
    /// It failed.
    Fault,
    /// An administrator or its owner's `run` ended it.
    Killed,
}

/// Client to leader, a request: close a session. Answered by a [`LeaderNotice`] on the reply
/// subject once the close grant is carried out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloseRequest {
    /// Wire version.
    pub v: u16,
    /// The session.
    pub session: SessionId,
    /// Ops submitted: the close grant comes after them, unless `reason` is not `Asked`.
    pub after: OpNumber,
    /// Why.
    pub reason: CloseReason,
}

impl Message for CloseRequest {
    const ARRAY: bool = false;
}

/// Client to leader, every 10 s: these sessions live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alive {
    /// Wire version.
    pub v: u16,
    /// Name of the client's connection.
    #[serde(with = "text")]
    pub connection: String,
    /// The sessions.
    #[serde(with = "rows")]
    pub sessions: Vec<SessionId>,
}

impl Message for Alive {
    const ARRAY: bool = false;
}

/// Leader to everyone: I lead. Every few milliseconds among leaders and workers; to each tenant
/// when a reign begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderBeat {
    /// Wire version.
    pub v: u16,
    /// The epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// The leader is handing over: campaign now.
    pub leaving: bool,
}

impl Message for LeaderBeat {
    const ARRAY: bool = false;
}

/// Leader to client: where one session stands with the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderNotice {
    /// Wire version.
    pub v: u16,
    /// The epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// Ops whose intents are queued or granted, without a gap: the client resends above it.
    pub queued: OpNumber,
    /// Ops granted.
    pub granted: OpNumber,
    /// The client may send intents through this op.
    pub queue_through: OpNumber,
    /// The session has ended, and why.
    pub ended: Option<Failure>,
    /// The session is alone on its device and its ops run as they arrive: the client may gather its
    /// intents for a moment, and does so no longer once it is told otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

impl Message for LeaderNotice {
    const ARRAY: bool = false;
}

/// Worker or leader to client, on the session's error subject: a message of yours could not be
/// read, or belongs to no session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Wire version of the sender: what a client of a newer one can go down to.
    pub v: u16,
    /// What is wrong.
    pub failure: Failure,
}

impl Message for Rejected {
    const ARRAY: bool = false;
}

/// Leader to everyone: this incarnation is lost, finally; itself included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lost {
    /// Wire version.
    pub v: u16,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// The lost worker.
    pub incarnation: Incarnation,
}

impl Message for Lost {
    const ARRAY: bool = false;
}

/// Worker to leaders, every 100 ms and when it starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerBeat {
    /// Wire version.
    pub v: u16,
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// The epoch it is sealed to, 0 before the first.
    pub epoch: Epoch,
    /// That epoch's leader.
    pub leader: LeaderId,
    /// What the device is, for people.
    #[serde(with = "text")]
    pub device: String,
    /// Memory a tenant can be given, bytes.
    pub capacity: u64,
    /// The worker is draining: give it no new session.
    pub draining: bool,
    /// What the device is, for the clients of its sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<DeviceProperties>,
    /// The group of workers that it is in; none is `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Tenant>,
    /// It takes only tenants bound to its group, and one at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Memory that sessions hold, bytes.
    #[serde(default, skip_serializing_if = "is_none")]
    pub held: u64,
    /// Images that it has, those used last; now and then, and when they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<Images>,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands on a reference"
)]
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

impl Message for WorkerBeat {
    const ARRAY: bool = false;
}

/// Administrator to leader, a request: hold back grants, or let them go again. Recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Wire version.
    pub v: u16,
    /// Whether grants are held from now on.
    pub held: bool,
}

impl Message for Hold {
    const ARRAY: bool = false;
}

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

impl Message for Status {
    const ARRAY: bool = false;
}
