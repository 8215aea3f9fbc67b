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
    /// The worker of each, in the same order: a leader that never met it can say that it is lost.
    /// Empty where it is not said.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<Incarnation>,
    /// The device of each, in the same order: a leader that hears a later start of it knows that a worker that
    /// it never met is gone. Empty where it is not said.
    #[serde(default, with = "rows", skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuId>,
}

impl Alive {
    /// The sessions of a client on a connection of this name.
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

/// Leader to everyone: I lead. Every few milliseconds among leaders and workers; to each tenant
/// when a term begins.
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
    pub images: Option<HeldImages>,
    /// A sample of the weights that its sessions hold; now and then, and when they change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Weights>,
    /// The number of the list of quotas that it has of its leader, 0 before the first. None of a worker
    /// that takes none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<u64>,
    /// What its sessions hold and where, if its memory is overcommitted; now and then, and when it
    /// changes.
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
