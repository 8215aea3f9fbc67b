//! The seal, by which a new leader takes over a worker.

use serde::{Deserialize, Serialize};

use crate::address::Window;
use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::{list, rows};
use crate::codec::message::Message;
use crate::id::{
    Epoch, GlobalPosition, GpuId, GpuPosition, InputNumber, LeaderId, OpNumber, SessionId, Tenant,
};
use crate::launch_path::done::SessionFault;
use crate::launch_path::grant::Grant;
use crate::record::chain::Chain;

/// Leader to worker, a request to obey this epoch from now on. Atomic and idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Wire version.
    pub v: u16,
    /// The new epoch.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: LeaderId,
    /// The leader has the tail through this position, from pages of this epoch; 0 for none of it.
    /// Earlier leaders, which take no pages, omit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<GpuPosition>,
    /// True if the leader wants the times of done reports; leaders of an earlier build omit it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub times: bool,
}

impl Message for Seal {
    const ARRAY: bool = false;
}

/// A session as its worker knows it when sealed: a row of a seal's answer, 112 bytes, fields in
/// this order, `closing` as a number of 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSession {
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Its number among the tenant's sessions, from 1.
    pub ordinal: u64,
    /// The session's addresses.
    pub window: Window,
    /// Memory that the tenant may hold on this device, bytes.
    pub quota: u64,
    /// The open request's nonce. A request repeated after a failover is answered with this session.
    pub nonce: u64,
    /// Last accepted op: the new leader grants from the next one on. Grants that will be void are
    /// not counted.
    pub accepted: OpNumber,
    /// Ops done without a gap.
    pub done: OpNumber,
    /// Ops received without a gap.
    pub received: OpNumber,
    /// True if a close grant for it is accepted.
    pub closing: bool,
}

impl Row for SealedSession {
    const SIZE: usize = 112;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.session.0, self.ordinal]);
        put(out, &[self.window.base, self.window.size]);
        put(out, &[self.quota, self.nonce]);
        put(out, &[self.accepted, self.done, self.received]);
        put(out, &[u64::from(self.closing)]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            session: SessionId(fields.u64()?),
            ordinal: fields.u64()?,
            window: fields.window()?,
            quota: fields.u64()?,
            nonce: fields.u64()?,
            accepted: fields.u64()?,
            done: fields.u64()?,
            received: fields.u64()?,
            closing: fields.u64()? != 0,
        })
    }
}

/// A grant with its position: a row of a seal's answer, 80 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedGrant {
    /// The gpu position.
    pub position: GpuPosition,
    /// The grant.
    pub grant: Grant,
}

impl Row for SealedGrant {
    const SIZE: usize = 8 + Grant::SIZE;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.position]);
        self.grant.write(out);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (position, grant) = bytes.split_first_chunk()?;
        Some(Self {
            position: u64::from_le_bytes(*position),
            grant: Grant::read(grant)?,
        })
    }
}

/// The tenant of a session: a row of a seal's answer, 48 bytes, fields in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedName {
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Its number among the tenant's sessions, from 1.
    pub ordinal: u64,
}

impl Row for SealedName {
    const SIZE: usize = 48;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.session.0, self.ordinal]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            session: SessionId(fields.u64()?),
            ordinal: fields.u64()?,
        })
    }
}

/// The state of a sealed worker, from which the new leader's order starts.
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
    /// Memory that a tenant can be given, bytes (capacity minus reserve).
    pub capacity: u64,
    /// Last position without a gap; grants above it were discarded.
    pub position: GpuPosition,
    /// The chain there.
    pub chain: Chain,
    /// Highest global position among the accepted grants.
    pub global: GlobalPosition,
    /// The last report made so far: the new leader gets those after `reports`.
    pub reports: u64,
    /// The sessions that are not closed.
    #[serde(with = "rows")]
    pub sessions: Vec<SealedSession>,
    /// Accepted grants that are not done, in position order; they run first.
    #[serde(with = "rows")]
    pub outstanding: Vec<SealedGrant>,
    /// The epoch of the leader that the `tail` was accepted from.
    pub tail_epoch: Epoch,
    /// The last input of that epoch that is recorded, as far as the worker knows.
    pub tail_recorded: InputNumber,
    /// Accepted grants with inputs that may be unrecorded, as far as the worker knows, in position
    /// order. Grants already sent in pages are not repeated.
    #[serde(with = "rows")]
    pub tail: Vec<SealedGrant>,
    /// The highest ordinal of each tenant ever opened here.
    #[serde(with = "rows")]
    pub ordinals: Vec<(Tenant, u64)>,
    /// Sessions that failed and are not closed yet.
    #[serde(with = "list")]
    pub faults: Vec<SessionFault>,
    /// Tenants of the sessions of the `tail` that are closed, and so not among `sessions`. If the
    /// record of their open grant died with its leader, no other source names them. Earlier workers
    /// send none.
    #[serde(with = "rows", default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<SealedName>,
    /// The first and the last position of the tail that the worker dropped, because there were more
    /// than it may keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<(GpuPosition, GpuPosition)>,
}

/// A part of a worker's tail that exceeds one message: the first grants after those that the leader
/// has. The leader requests the next part, until a [`SealAnswer`] comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealPage {
    /// The epoch now obeyed.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: LeaderId,
    /// The request: the tail after this position.
    pub after: GpuPosition,
    /// Accepted grants with inputs that may be unrecorded, as far as the worker knows, in position
    /// order; at least one.
    #[serde(with = "rows")]
    pub tail: Vec<SealedGrant>,
    /// Tenants of the sessions of these grants: a session that closes before the answer is not
    /// among its `sessions`.
    #[serde(with = "rows", default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<SealedName>,
}

/// The epoch and leader that a refusing worker obeys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Wire version.
    pub v: u16,
    /// The epoch to which it is sealed.
    pub epoch: Epoch,
    /// The leader of that epoch.
    pub leader: LeaderId,
}

impl Message for Refusal {
    const ARRAY: bool = false;
}

/// Worker to leader: the answer to a seal. Also sent, as a refusal, to a leader with a stale grant
/// batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealReply {
    /// Wire version.
    pub v: u16,
    /// The answer, if the seal was accepted.
    pub sealed: Option<SealAnswer>,
    /// The refusal, if it was not.
    pub refused: Option<Refusal>,
    /// A page in place of the answer, if the seal was accepted and more pages precede the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<SealPage>,
}

impl Message for SealReply {
    const ARRAY: bool = false;
}
