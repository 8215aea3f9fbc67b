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

/// Leader to worker, a request: obey this epoch from now on. Atomic and idempotent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seal {
    /// Wire version.
    pub v: u16,
    /// The new epoch.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: LeaderId,
    /// The leader has the tail through this position, from pages of this epoch; 0 for none of it.
    /// Leaders of before, which take no pages, say nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<GpuPosition>,
    /// The leader wants the times of done reports; one of a build before does not say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub times: bool,
}

impl Message for Seal {
    const ARRAY: bool = false;
}

/// A session as its worker knows it when sealed: a row of a seal's answer, 112 bytes, fields in this
/// order, `closing` as a number of 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedSession {
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// Its number among the tenant's sessions, from 1.
    pub ordinal: u64,
    /// Its addresses.
    pub window: Window,
    /// Memory the tenant may hold on this device, bytes.
    pub quota: u64,
    /// The open request's nonce: sent again after a failover, it is answered with this session.
    pub nonce: u64,
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

/// Whose a session is: a row of a seal's answer, 48 bytes, fields in this order.
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
    #[serde(with = "rows")]
    pub sessions: Vec<SealedSession>,
    /// Accepted grants that are not done, in position order; they run first.
    #[serde(with = "rows")]
    pub outstanding: Vec<SealedGrant>,
    /// The epoch whose leader the `tail` was accepted from.
    pub tail_epoch: Epoch,
    /// The input of that epoch recorded through, as the worker knows.
    pub tail_recorded: InputNumber,
    /// Accepted grants whose inputs the worker does not know to be recorded, in position order;
    /// those that went ahead in pages are not repeated.
    #[serde(with = "rows")]
    pub tail: Vec<SealedGrant>,
    /// The highest ordinal of each tenant ever opened here.
    #[serde(with = "rows")]
    pub ordinals: Vec<(Tenant, u64)>,
    /// Sessions that failed and are not closed yet.
    #[serde(with = "list")]
    pub faults: Vec<SessionFault>,
    /// Whose the sessions of the `tail` are that are closed, and so not among `sessions`: where the
    /// record of their open grant died with its leader, nothing else says it. Workers of before
    /// name none.
    #[serde(with = "rows", default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<SealedName>,
    /// The first and the last position that belonged to the tail and that the worker keeps no more,
    /// because there were more than it may keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forgotten: Option<(GpuPosition, GpuPosition)>,
}

/// A part of the tail of a worker that has more of it than one message holds: the first grants
/// behind those that the leader has. The leader asks for the next part, until a [`SealAnswer`] comes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealPage {
    /// The epoch now obeyed.
    pub epoch: Epoch,
    /// Its leader.
    pub leader: LeaderId,
    /// What the leader asked for: the tail behind this position.
    pub after: GpuPosition,
    /// Accepted grants whose inputs the worker does not know to be recorded, in position order; at
    /// least one.
    #[serde(with = "rows")]
    pub tail: Vec<SealedGrant>,
    /// Whose the sessions of these grants are: one that closes before the answer is not among its
    /// `sessions`.
    #[serde(with = "rows", default, skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<SealedName>,
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

/// Worker to leader: the answer to a seal; also sent, refused, to a leader whose grant batch was stale.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealReply {
    /// Wire version.
    pub v: u16,
    /// The answer, where the seal was accepted.
    pub sealed: Option<SealAnswer>,
    /// The refusal, where it was not.
    pub refused: Option<Refusal>,
    /// In place of the answer, where it was accepted and more goes ahead of the answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page: Option<SealPage>,
}

impl Message for SealReply {
    const ARRAY: bool = false;
}
