//! The intent: the cost of a client's ops, on its way to the leader.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Column, Fields, Row};
use crate::codec::message::Message;
use crate::id::{KernelKey, OpNumber};
use crate::launch_path::fingerprint::mix;
use crate::launch_path::op::Op;

/// The cost class of a run's ops for the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CostClass {
    /// Launches of one kernel key.
    Launch,
    /// Copies, sets and moves of `bytes` bytes each.
    Copy,
    /// Alloc, free, map, module load and unload, events.
    Light,
    /// Ops that end a slice: syncs, copies to the host (`bytes` each), symbols.
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
    /// Bytes that each op moves, 0 for launches.
    pub bytes: u64,
    /// Number of ops, at least 1.
    pub count: u32,
    /// The class of the ops.
    pub class: CostClass,
}

impl CostRun {
    /// Returns the run's contribution (wrapping) to its slice's [`crate::Grant::declared`]. It does
    /// not depend on how runs are split and joined, so the worker can compute it from the ops
    /// themselves.
    #[must_use]
    pub fn declared(&self) -> u64 {
        let one = mix(self.key.0 ^ mix(self.bytes ^ mix(self.class as u64)));
        one.wrapping_mul(u64::from(self.count))
    }
}

impl CostRun {
    /// Creates the run of one op; `key` is its kernel key if it is a launch.
    #[must_use]
    pub fn of(op: &Op, key: KernelKey) -> Self {
        let none = KernelKey(0);
        let (class, key, bytes) = match *op {
            Op::Launch(_) => (CostClass::Launch, key, 0),
            Op::CopyIn { bytes, .. } | Op::Copy { bytes, .. } | Op::Move { bytes, .. } => {
                (CostClass::Copy, none, bytes)
            }
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

/// Client to leader: the data by which the ops `first .. first + count` are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Intent<'a> {
    /// Wire version.
    pub v: u16,
    /// Number of the first op.
    pub first: OpNumber,
    /// Number of ops; equals the sum of the runs' counts.
    pub count: u32,
    /// Costs of the ops, run-length coded.
    #[serde(borrow)]
    pub runs: Column<'a, CostRun>,
}

impl Message for Intent<'_> {
    const ARRAY: bool = true;
}
