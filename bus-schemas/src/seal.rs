//! Sealing: how a new leader takes over a worker.

use serde::{Deserialize, Serialize};

use crate::address::Window;
use crate::chain::Chain;
use crate::codec::{Message, list};
use crate::hot::{Grant, SessionFault};
use crate::id::{
    Epoch, GlobalPosition, GpuId, GpuPosition, InputNumber, LeaderId, OpNumber, SessionId, Tenant,
};

/// Leader to worker, a request: obey this epoch from now on. Atomic and idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Wire version.
    pub v: u16,
    /// The new epoch.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: LeaderId,
}

impl Message for Seal {
    const ARRAY: bool = false;
}

/// A session as its worker knows it when sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSession {
    /// The session.
    pub session: SessionId,
    /// Its tenant.
    pub tenant: Tenant,
    /// It is the tenant's how manyth session, from 1.
    pub ordinal: u64,
    /// Its addresses.
    pub window: Window,
    /// Ops accepted: the new leader grants from the next one on. Grants that will be void are
    /// not counted.
    pub accepted: OpNumber,
    /// Ops done without a gap.
    pub done: OpNumber,
    /// Ops received without a gap.
    pub received: OpNumber,
    /// A close grant for it is accepted.
    pub closing: bool,
}

/// A grant with its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedGrant {
    /// The gpu position.
    pub position: GpuPosition,
    /// The grant.
    pub grant: Grant,
}

/// What a sealed worker has: the new leader's order starts from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealAnswer {
    /// Wire version.
    pub v: u16,
    /// The epoch now obeyed.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: LeaderId,
    /// The device.
    pub gpu: GpuId,
    /// Memory a tenant can be given, bytes (capacity minus reserve).
    pub capacity: u64,
    /// Last gapless position; grants above it were discarded.
    pub position: GpuPosition,
    /// The chain there.
    pub chain: Chain,
    /// Highest global position among the accepted grants.
    pub global: GlobalPosition,
    /// The last report made so far: the new leader hears those after `reports`.
    pub reports: u64,
    /// The sessions that are not closed.
    #[serde(with = "list")]
    pub sessions: Vec<SealedSession>,
    /// Accepted grants that are not done, in position order; they run first.
    #[serde(with = "list")]
    pub outstanding: Vec<SealedGrant>,
    /// The epoch whose leader the `tail` was accepted from.
    pub tail_epoch: Epoch,
    /// The input of that epoch recorded through, as the worker knows.
    pub tail_recorded: InputNumber,
    /// Accepted grants whose inputs the worker does not know to be recorded, in position order.
    #[serde(with = "list")]
    pub tail: Vec<SealedGrant>,
    /// The highest ordinal of each tenant ever opened here.
    #[serde(with = "list")]
    pub ordinals: Vec<(Tenant, u64)>,
    /// Sessions that failed and are not closed yet.
    #[serde(with = "list")]
    pub faults: Vec<SessionFault>,
}

/// Whom a refusing worker obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Wire version.
    pub v: u16,
    /// The epoch it is sealed to.
    pub epoch: Epoch,
    /// That epoch's leader.
    pub leader: LeaderId,
}

impl Message for Refusal {
    const ARRAY: bool = false;
}

/// Worker to leader: the answer to a seal; also sent, refused, to a stale order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealReply {
    /// Wire version.
    pub v: u16,
    /// The answer, where the seal was accepted.
    pub sealed: Option<Box<SealAnswer>>,
    /// The refusal, where it was not.
    pub refused: Option<Refusal>,
}

impl Message for SealReply {
    const ARRAY: bool = false;
}
