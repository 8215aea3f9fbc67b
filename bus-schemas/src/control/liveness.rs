//! Heartbeats and ends of sessions, leaders and workers. Maps by field name.

use serde::{Deserialize, Serialize};

use crate::codec::decode_budget::{rows, text};
use crate::codec::message::{Message, WIRE_VERSION};
use crate::control::opening::Opened;
use crate::control::placement::{HeldImages, Weights};
use crate::control::properties::DeviceProperties;
use crate::control::residency::Residency;
use crate::error::Failure;
use crate::id::{Epoch, GpuId, Incarnation, LeaderId, OpNumber, SessionId, Tenant};

/// The reason that a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CloseReason {
    /// The client asked for it.
    Asked,
    /// The client is dead or has been silent too long.
    Expired,
    /// The session failed.
    Fault,
    /// An administrator, or the `run` command that owns the session, ended it.
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
    /// Number of submitted ops. The close grant comes after them, unless `reason` is not `Asked`.
    pub after: OpNumber,
    /// The reason.
    pub reason: CloseReason,
}

impl Message for CloseRequest {
    const ARRAY: bool = false;
}

/// Client to leader, every 10 s: the sessions that are alive.
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
    /// The worker of each session, in the same order. A leader that never met a worker can declare
    /// it lost. Empty if not reported.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Incarnation>,
    /// The device of each session, in the same order. From a later start on the same device, a
    /// leader knows that a worker it never met is gone. Empty if not reported.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuId>,
}

impl Alive {
    /// Creates the message for a client's sessions on the named connection.
    pub fn of<'a>(connection: &str, opened: impl IntoIterator<Item = &'a Opened>) -> Self {
        let mut alive = Self {
            v: WIRE_VERSION,
            connection: connection.to_owned(),
            sessions: Vec::new(),
            workers: Vec::new(),
            gpus: Vec::new(),
        };
        for opened in opened {
            alive.sessions.push(opened.session);
            alive.workers.push(opened.incarnation);
            alive.gpus.push(opened.gpu);
        }
        alive
    }
}

impl Message for Alive {
    const ARRAY: bool = false;
}

/// Leader to everyone: it leads. Sent every few milliseconds to leaders and workers, and to each
/// tenant when a term begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderBeat {
    /// Wire version.
    pub v: u16,
    /// The epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// True if the leader is handing over: candidates should campaign now.
    pub leaving: bool,
}

impl Message for LeaderBeat {
    const ARRAY: bool = false;
}

/// Leader to client: the state of one session at the leader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaderNotice {
    /// Wire version.
    pub v: u16,
    /// The epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// Highest op with all intents up to it queued or granted; the client resends those above it.
    pub queued: OpNumber,
    /// Last op granted.
    pub granted: OpNumber,
    /// Last op up to which the client may send intents.
    pub queue_through: OpNumber,
    /// The reason that the session has ended, if it has.
    pub ended: Option<Failure>,
    /// True if the session is alone on its device and its ops run as they arrive. The client may
    /// then gather its intents for a moment, until told otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

impl Message for LeaderNotice {
    const ARRAY: bool = false;
}

/// Worker or leader to client, on the session's error subject: a message could not be read, or
/// belongs to no session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejected {
    /// Wire version of the sender, to which a newer client can go down.
    pub v: u16,
    /// The error.
    pub failure: Failure,
}

impl Message for Rejected {
    const ARRAY: bool = false;
}

/// Leader to everyone, including the worker itself: this incarnation is lost for good.
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
    /// The epoch to which the worker is sealed; 0 before the first seal.
    pub epoch: Epoch,
    /// The leader of that epoch.
    pub leader: LeaderId,
    /// Description of the device, for people.
    #[serde(with = "text")]
    pub device: String,
    /// Memory that a tenant can be given, bytes.
    pub capacity: u64,
    /// True if the worker is draining and must get no new session.
    pub draining: bool,
    /// Properties of the device, for the clients of its sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<DeviceProperties>,
    /// The worker's group; `None` is `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Tenant>,
    /// True if the worker takes only tenants bound to its group, one at a time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exclusive: bool,
    /// Memory held by sessions, bytes.
    #[serde(default, skip_serializing_if = "is_none")]
    pub held: u64,
    /// Images that the worker has, most recently used; sent periodically and after changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<HeldImages>,
    /// A sample of the weights that its sessions hold; sent periodically and after changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// Number of its leader's quota list that the worker has; 0 before the first. `None` if the
    /// worker takes no quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<u64>,
    /// Memory held by its sessions, and its place, if memory is overcommitted; sent periodically
    /// and after changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<Residency>,
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

impl WorkerBeat {
    /// Makes the heartbeat of a worker that is not sealed, serves the default group and holds nothing.
    #[must_use]
    pub fn new(incarnation: Incarnation, gpu: GpuId, capacity: u64) -> Self {
        Self {
            v: WIRE_VERSION,
            incarnation,
            gpu,
            epoch: 0,
            leader: LeaderId(0),
            device: String::new(),
            capacity,
            draining: false,
            properties: None,
            group: None,
            exclusive: false,
            held: 0,
            images: None,
            weights: None,
            quotas: None,
            residency: None,
        }
    }
}

/// Administrator to leader, a request to hold back grants or to release them. Recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Wire version.
    pub v: u16,
    /// True if grants are held from now on.
    pub held: bool,
}

impl Message for Hold {
    const ARRAY: bool = false;
}
