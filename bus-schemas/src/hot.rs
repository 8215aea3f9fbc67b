//! Batch, intent and order (grants): with done the hot four. Arrays of a version, a few numbers
//! and packed columns.

use serde::{Deserialize, Serialize};

use crate::address::Window;
use crate::allowance::Allowance;
use crate::chain::GrantKind;
use crate::codec::Message;
use crate::column::{Column, Fields, Row, put};
use crate::fingerprint::mix;
use crate::id::{
    Epoch, GlobalPosition, GpuPosition, InputNumber, KernelKey, LeaderId, OpNumber, SessionId,
    Tenant,
};
use crate::op::Op;
use crate::ops::{OpError, Ops};
use crate::owned::rows;

/// Client to worker: the ops `first .. first + count` of a session. Sent again until the worker's
/// `received` covers it; an overlap with what was received is trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch<'a> {
    /// Wire version.
    pub v: u16,
    /// Number of the first op.
    pub first: OpNumber,
    /// Ops.
    pub count: u32,
    /// Results received so far, without a gap: the worker may forget them.
    pub results: u64,
    /// [`crate::DESCRIPTOR_BYTES`] bytes an op.
    #[serde(with = "serde_bytes")]
    pub descriptors: &'a [u8],
    /// The ops' payloads, one after the other.
    #[serde(with = "serde_bytes")]
    pub blob: &'a [u8],
}

impl Message for Batch<'_> {
    const ARRAY: bool = true;
}

impl<'a> Batch<'a> {
    /// The batch's ops, checked.
    ///
    /// # Errors
    /// [`OpError`] with the first thing that is wrong.
    pub fn ops(&self) -> Result<Ops<'a>, OpError> {
        Ops::new(self.count, self.descriptors, self.blob)
    }
}

/// What ops of a run cost, as the leader sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CostClass {
    /// Launches of one kernel key.
    Launch,
    /// Copies and sets of `bytes` bytes each.
    Copy,
    /// Alloc, free, module load and unload, events.
    Light,
    /// Ops behind which a slice ends: syncs, copies to the host (`bytes` each), symbols.
    Sync,
}

impl CostClass {
    const ALL: [Self; 4] = [Self::Launch, Self::Copy, Self::Light, Self::Sync];
}

/// `count` consecutive ops of equal cost: one row of an intent, 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostRun {
    /// The kernel key of launches, else 0.
    pub key: KernelKey,
    /// Bytes each op moves, 0 for launches.
    pub bytes: u64,
    /// Ops, at least 1.
    pub count: u32,
    /// What kind of ops.
    pub class: CostClass,
}

impl CostRun {
    /// What the run adds (wrapping) to its slice's [`Grant::declared`]: independent of how runs
    /// are split and joined, so the worker can recompute it from the ops themselves.
    #[must_use]
    pub fn declared(&self) -> u64 {
        let one = mix(self.key.0 ^ mix(self.bytes ^ mix(self.class as u64)));
        one.wrapping_mul(u64::from(self.count))
    }
}

impl CostRun {
    /// The run of one op; `key` is its kernel key if it is a launch.
    #[must_use]
    pub fn of(op: &Op, key: KernelKey) -> Self {
        let none = KernelKey(0);
        let (class, key, bytes) = match *op {
            Op::Launch(_) => (CostClass::Launch, key, 0),
            Op::CopyIn { bytes, .. } | Op::Copy { bytes, .. } => (CostClass::Copy, none, bytes),
            Op::Set { count, width, .. } => (
                CostClass::Copy,
                none,
                count.saturating_mul(u64::from(width)),
            ),
            Op::CopyOut { bytes, .. } => (CostClass::Sync, none, bytes),
            Op::Sync | Op::Symbols { .. } => (CostClass::Sync, none, 0),
            _ => (CostClass::Light, none, 0),
        };
        Self {
            key,
            bytes,
            count: 1,
            class,
        }
    }
}

impl Row for CostRun {
    const SIZE: usize = 24;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key.0.to_le_bytes());
        out.extend_from_slice(&self.bytes.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&[self.class as u8, 0, 0, 0]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            key: KernelKey(fields.u64()?),
            bytes: fields.u64()?,
            count: fields.u32().filter(|count| *count > 0)?,
            class: *CostClass::ALL.get(usize::from(fields.u8()?))?,
        })
    }
}

/// Client to leader: what it needs to know to order the ops `first .. first + count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent<'a> {
    /// Wire version.
    pub v: u16,
    /// Number of the first op.
    pub first: OpNumber,
    /// Ops; the runs' counts add up to it.
    pub count: u32,
    /// The ops' costs, run-length coded.
    #[serde(borrow)]
    pub runs: Column<'a, CostRun>,
}

impl Message for Intent<'_> {
    const ARRAY: bool = true;
}

/// One grant: a row of an order, 72 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// What it does.
    pub kind: GrantKind,
    /// The priority it runs at, 0 (highest) to 4: its session's when it was granted, or what its
    /// floor took the place of.
    pub priority: u8,
    /// Position in the cluster's order.
    pub global: GlobalPosition,
    /// The session.
    pub session: SessionId,
    /// First op; 0 for what runs none, and of a standing grant that goes on where its session's
    /// last one was closed.
    pub first: OpNumber,
    /// Last op; 0 for what runs none, and of a standing grant until it is closed.
    pub last: OpNumber,
    /// Charged device nanoseconds. Of a standing grant, those that its worker may have on the
    /// device at a time; in a seal's answer, those that it has.
    pub cost: u64,
    /// Sum (wrapping) of [`CostRun::declared`] over the slice as its client declared it. A worker
    /// that finds another sum in the ops ends the session: the client lied.
    pub declared: u64,
    /// The leader's last input before the decision.
    pub input: InputNumber,
    /// The epoch that decided it.
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

/// What an open grant says of its session beside the grant's row: a row of an order, 88 bytes,
/// fields in this order: the last 8 bytes are `priority`, a zero byte, `modules` and `staged` in 2
/// bytes each, and two zero bytes. Where both are 0, as they were before there were limits, there are none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenGrant {
    /// Its tenant.
    pub tenant: Tenant,
    /// The session.
    pub session: SessionId,
    /// It is the tenant's how manyth session, from 1.
    pub ordinal: u64,
    /// Its addresses.
    pub window: Window,
    /// Memory the tenant may hold on this device, bytes.
    pub quota: u64,
    /// The open request's nonce.
    pub nonce: u64,
    /// The tenant's priority, 0 (highest) to 4.
    pub priority: u8,
    /// What the images that its tenant's sessions have may take on this worker.
    pub modules: Allowance,
    /// What its tenant's sessions may have staged there.
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

/// Leader to worker: grants at consecutive gpu positions from `first`, and what the leader has.
/// Sent again until the worker's `accepted` covers it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantBatch<'a> {
    /// Wire version.
    pub v: u16,
    /// The leader's epoch.
    pub epoch: Epoch,
    /// The leader.
    pub leader: LeaderId,
    /// Gpu position of the first grant; with no grants, the next position there will be.
    pub first: GpuPosition,
    /// Inputs of this epoch recorded through this number: grants of this epoch decided at or
    /// before it need not be kept for replay.
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
