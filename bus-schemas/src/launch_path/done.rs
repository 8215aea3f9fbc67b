//! The done report: work that a worker has finished, on its way to the leader.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Column, Fields, Row, put};
use crate::codec::message::Message;
use crate::error::{Code, Failure};
use crate::id::{Epoch, GpuPosition, OpNumber, SessionId};
use crate::record::chain::Chain;

/// The end of a position, or the progress of a standing grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The work ran. A grant without ops was carried out.
    Ran,
    /// Nothing ran; the ops must be queued again from `first` on.
    Void,
    /// Nothing ran and nothing will: the session has failed or ended.
    Gone,
    /// Not an end: ops of a standing grant ran, through `received`. The first such report tells
    /// that the grant stands, possibly before any op has run.
    Part,
    /// Not an end: a standing grant was closed, with `received` as its last op. Started ops run to
    /// their end, and then the position ends.
    Closed,
}

impl Outcome {
    const ALL: [Self; 5] = [Self::Ran, Self::Void, Self::Gone, Self::Part, Self::Closed];
}

/// The end of one position: a row of a done message, 40 bytes, with `outcome` in its own 4 bytes
/// before `declared`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoneReport {
    /// The position.
    pub position: GpuPosition,
    /// The session.
    pub session: SessionId,
    /// Measured device nanoseconds; for [`Outcome::Closed`], the grant's first op.
    pub measured: u64,
    /// Ops of the session received without a gap when the position ended. For a standing grant
    /// that has not ended, the op described at [`Outcome`].
    pub received: OpNumber,
    /// The outcome.
    pub outcome: Outcome,
    /// For a standing grant, the [`fold`] of the sum of [`crate::CostRun::declared`] over the ops that
    /// ran of it and of the standing grants that it continues. Else 0.
    pub declared: u32,
}

/// Folds a sum of declarations to half as many bits.
#[must_use]
pub fn fold(declared: u64) -> u32 {
    (declared ^ (declared >> 32)) as u32
}

impl Row for DoneReport {
    const SIZE: usize = 40;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.position, self.session.0]);
        put(out, &[self.measured, self.received]);
        out.extend_from_slice(&[self.outcome as u8, 0, 0, 0]);
        out.extend_from_slice(&self.declared.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            position: fields.u64()?,
            session: SessionId(fields.u64()?),
            measured: fields.u64()?,
            received: fields.u64()?,
            outcome: {
                let [outcome, ..] = fields.array::<4>()?;
                *Outcome::ALL.get(usize::from(outcome))?
            },
            declared: fields.u32()?,
        })
    }
}

/// Ops of a session that a worker has: a row of a done message, 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Received {
    /// The session.
    pub session: SessionId,
    /// Ops received without a gap.
    pub received: OpNumber,
}

impl Row for Received {
    const SIZE: usize = 16;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.session.0, self.received]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            session: SessionId(fields.u64()?),
            received: fields.u64()?,
        })
    }
}

/// A session that can run no more; the leader answers with its close grant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFault {
    /// The session.
    pub session: SessionId,
    /// The op that failed; 0 if none did.
    pub op: OpNumber,
    /// The error.
    pub failure: Failure,
}

/// A [`SessionFault`] in a done message, without its detail: 24 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FaultRow {
    /// The session.
    pub session: SessionId,
    /// The op that failed; 0 if none did.
    pub op: OpNumber,
    /// The stable code.
    pub code: Code,
    /// True if the same request may succeed later.
    pub retryable: bool,
    /// Length of the detail in bytes.
    pub detail: u32,
}

impl FaultRow {
    /// Creates the row of a fault, and appends its detail to `details`.
    #[must_use]
    pub fn of(fault: &SessionFault, details: &mut String) -> Self {
        let failure = &fault.failure;
        details.push_str(&failure.detail);
        Self {
            session: fault.session,
            op: fault.op,
            code: failure.code,
            retryable: failure.retryable,
            detail: u32::try_from(failure.detail.len()).unwrap_or(u32::MAX),
        }
    }

    fn with(self, detail: &str) -> SessionFault {
        SessionFault {
            session: self.session,
            op: self.op,
            failure: Failure {
                code: self.code,
                retryable: self.retryable,
                detail: detail.to_owned(),
            },
        }
    }
}

impl Row for FaultRow {
    const SIZE: usize = 24;

    fn write(&self, out: &mut Vec<u8>) {
        put(out, &[self.session.0, self.op]);
        out.extend_from_slice(&self.code.number().to_le_bytes());
        out.extend_from_slice(&[u8::from(self.retryable), 0]);
        out.extend_from_slice(&self.detail.to_le_bytes());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            session: SessionId(fields.u64()?),
            op: fields.u64()?,
            code: Code::from_number(fields.u16()?),
            retryable: fields.u16()? != 0,
            detail: fields.u32()?,
        })
    }
}

/// Worker to leader: accepted positions and finished work. Reports are numbered 1, 2, 3 … for the
/// life of the incarnation, and repeated until the `reports` of a grant batch covers them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done<'a> {
    /// Wire version.
    pub v: u16,
    /// The epoch the worker is sealed to.
    pub epoch: Epoch,
    /// Last gpu position accepted.
    pub accepted: GpuPosition,
    /// The chain there.
    pub chain: Chain,
    /// Number of the first report; without reports, the number of the next one.
    pub first: u64,
    /// The reports.
    #[serde(borrow)]
    pub reports: Column<'a, DoneReport>,
    /// Sessions for which the leader requested `received`, by granting only received ops.
    #[serde(borrow)]
    pub received: Column<'a, Received>,
    /// Sessions that failed and are not closed yet; repeated until then.
    #[serde(borrow)]
    pub faults: Column<'a, FaultRow>,
    /// The details of the faults, one after the other.
    pub details: &'a str,
    /// [`crate::DoneTimes`] of the reports. Empty if the leader has not requested them, or is of an
    /// earlier build, which has no such field.
    #[serde(
        default,
        skip_serializing_if = "<[u8]>::is_empty",
        with = "serde_bytes"
    )]
    pub times: &'a [u8],
}

impl Done<'_> {
    /// Returns the faults with their details. A missing detail is empty.
    pub fn session_faults(&self) -> impl Iterator<Item = SessionFault> {
        let mut rest = self.details;
        self.faults.iter().map(move |row| {
            let (detail, after) = rest
                .split_at_checked(row.detail as usize)
                .unwrap_or_default();
            rest = after;
            row.with(detail)
        })
    }
}

impl Message for Done<'_> {
    const ARRAY: bool = true;
}
