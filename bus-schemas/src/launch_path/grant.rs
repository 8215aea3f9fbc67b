//! The grant batch: the work that a leader lets a worker run, with its positions.

use serde::{Deserialize, Serialize};

use crate::address::Window;
use crate::codec::column::{Column, Fields, Row, put};
use crate::codec::decode_budget::rows;
use crate::codec::message::Message;
use crate::control::allowance::Allowance;
use crate::id::{
    Epoch, GlobalPosition, GpuPosition, InputNumber, LeaderId, OpNumber, SessionId, Tenant,
};
use crate::record::chain::GrantKind;

/// One grant: a row of a grant batch, 72 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The kind.
    pub kind: GrantKind,
    /// The priority of the grant, 0 (highest) to 4. It is that of its session at the time of the
    /// grant, or the one that its floor displaced.
    pub priority: u8,
    /// Position in the cluster's order.
    pub global: GlobalPosition,
    /// The session.
    pub session: SessionId,
    /// First op. 0 for a grant without ops, and for a standing grant that continues the last one of
    /// its session.
    pub first: OpNumber,
    /// Last op. 0 for a grant without ops, and for a standing grant until it is closed.
    pub last: OpNumber,
    /// Charged device nanoseconds. For a standing grant, the maximum that its worker may have on
    /// the device at a time; in a seal's answer, the current amount.
    pub cost: u64,
    /// Sum (wrapping) of [`crate::CostRun::declared`] over the slice, as its client declared it. A
    /// worker that computes another sum from the ops ends the session: the client lied.
    pub declared: u64,
    /// The leader's last input before it decided.
    pub input: InputNumber,
    /// The epoch in which it was decided.
    pub epoch: Epoch,
}

impl Row for Grant {
    const SIZE: usize = 72;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.kind.number(), self.priority, 0, 0, 0, 0, 0, 0]);
        put(out, &[self.global, self.session.0, self.first, self.last]);
        put(out, &[self.cost, self.declared, self.input, self.epoch]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let kind = GrantKind::from_number(fields.u8()?)?;
        let priority = fields.u8().filter(|priority| *priority < 5)?;
        fields.array::<6>()?;
        Some(Self {
            kind,
            priority,
            global: fields.u64()?,
            session: SessionId(fields.u64()?),
            first: fields.u64()?,
            last: fields.u64()?,
            cost: fields.u64()?,
            declared: fields.u64()?,
            input: fields.u64()?,
            epoch: fields.u64()?,
        })
    }
}

/// Data of a session's open grant beside the grant's row: a row of a grant batch, 88 bytes, fields
/// in this order. The last 8 bytes are `priority`, a zero byte, `modules` and `staged` in 2 bytes
/// each, and two zero bytes. If both are 0, as before limits existed, there are no limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenGrant {
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
    /// The open request's nonce.
    pub nonce: u64,
    /// The tenant's priority, 0 (highest) to 4.
    pub priority: u8,
    /// Maximum memory of the tenant's module images on this worker.
    pub modules: Allowance,
    /// Maximum staged memory of the tenant's sessions on this worker.
    pub staged: Allowance,
}

impl Row for OpenGrant {
    const SIZE: usize = 88;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.session.0, self.ordinal]);
        put(out, &[self.window.base, self.window.size]);
        put(out, &[self.quota, self.nonce]);
        let [modules, staged] = [self.modules, self.staged].map(|it| u64::from(it.number()));
        put(
            out,
            &[u64::from(self.priority) | modules << 16 | staged << 32],
        );
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
            priority: {
                let priority = fields.u8().filter(|priority| *priority < 5)?;
                fields.u8()?;
                priority
            },
            modules: Allowance::from_number(fields.u16()?),
            staged: Allowance::from_number(fields.u16()?),
        })
    }
}

/// Leader to worker: grants at consecutive gpu positions from `first`, and the progress of the
/// leader. Repeated until the worker's `accepted` covers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantBatch<'a> {
    /// Wire version.
    pub v: u16,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// Gpu position of the first grant; without grants, the next position.
    pub first: GpuPosition,
    /// Inputs of this epoch recorded through this number. Grants of this epoch that were decided at
    /// or before it need not be kept for replay.
    pub recorded: InputNumber,
    /// Done reports received without a gap: the worker may forget them.
    pub reports: u64,
    /// The grants.
    #[serde(borrow)]
    pub grants: Column<'a, Grant>,
    /// One entry for each open grant among them.
    #[serde(with = "rows")]
    pub opens: Vec<OpenGrant>,
}

impl Message for GrantBatch<'_> {
    const ARRAY: bool = true;
}
