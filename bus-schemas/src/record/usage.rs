//! The usage of a worker's tenants, in numbered blocks of the record plane, and the check that blocks
//! add up.

mod end;
mod fold;
mod moves;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::codec::decode_budget::{list, rows, text};
use crate::codec::message::Message;
use crate::id::{GpuId, Incarnation, KernelKey, ModuleId, Tenant};
use crate::launch_path::op::Dim;
pub use end::{UsageEnd, UsageEnds};
pub use fold::{Fold, Folded, usage_day};
pub use moves::{MoveTotals, TenantMoves};

/// What launches of one kernel key by one tenant used since the block before: a row of 80 bytes,
/// fields in this order. Key 0 is what the device did for the tenant beside launches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelUse {
    /// The tenant.
    pub tenant: Tenant,
    /// The key.
    pub key: KernelKey,
    /// Launches.
    pub launches: u64,
    /// Their device nanoseconds, added up.
    pub device_ns: u64,
    /// SMs occupied times nanoseconds, added up.
    pub sm_ns: u64,
    /// Nanoseconds of the shortest launch; of launches measured together, their mean.
    pub least_ns: u64,
    /// Nanoseconds of the longest launch, likewise.
    pub most_ns: u64,
}

impl Row for KernelUse {
    const SIZE: usize = 80;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.key.0, self.launches, self.device_ns]);
        put(out, &[self.sm_ns, self.least_ns, self.most_ns]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            key: KernelKey(fields.u64()?),
            launches: fields.u64()?,
            device_ns: fields.u64()?,
            sm_ns: fields.u64()?,
            least_ns: fields.u64()?,
            most_ns: fields.u64()?,
        })
    }
}

/// What one tenant's sessions held since the block before: a row of 40 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryUse {
    /// The tenant.
    pub tenant: Tenant,
    /// Byte-milliseconds resident.
    pub byte_ms: u64,
}

impl Row for MemoryUse {
    const SIZE: usize = 40;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &[self.byte_ms]);
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            tenant: fields.tenant()?,
            byte_ms: fields.u64()?,
        })
    }
}

/// What a kernel key stands for, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelName {
    /// The key.
    pub kernel: KernelKey,
    /// The entry function.
    #[serde(with = "text")]
    pub function: String,
    /// Blocks of the grid.
    pub grid_dim: Dim,
    /// Threads of a block.
    pub block_dim: Dim,
    /// Dynamic shared memory, bytes.
    pub shared_bytes: u32,
    /// The image it is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<ModuleId>,
}

/// Sums of use. Rows of a stored block may say anything, so none of the sums goes beyond what it holds:
/// such rows do not add up to the totals, which who reads blocks checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UseTotals {
    /// Launches.
    pub launches: u64,
    /// Device nanoseconds.
    pub device_ns: u64,
    /// SM-nanoseconds.
    pub sm_ns: u64,
    /// Byte-milliseconds resident.
    pub byte_ms: u64,
    /// What memory did beside; absent where it is nothing, and in blocks of a build before it was counted.
    #[serde(default, skip_serializing_if = "MoveTotals::is_zero")]
    pub moves: MoveTotals,
}

impl UseTotals {
    /// Adds what launches used.
    pub fn add_kernel(&mut self, row: &KernelUse) {
        self.launches = self.launches.saturating_add(row.launches);
        self.device_ns = self.device_ns.saturating_add(row.device_ns);
        self.sm_ns = self.sm_ns.saturating_add(row.sm_ns);
    }

    /// Adds other sums.
    pub fn add(&mut self, other: &Self) {
        self.launches = self.launches.saturating_add(other.launches);
        self.device_ns = self.device_ns.saturating_add(other.device_ns);
        self.sm_ns = self.sm_ns.saturating_add(other.sm_ns);
        self.byte_ms = self.byte_ms.saturating_add(other.byte_ms);
        self.moves.add(&other.moves);
    }

    /// What these are more than others; `None` where they are less.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Option<Self> {
        Some(Self {
            launches: self.launches.checked_sub(other.launches)?,
            device_ns: self.device_ns.checked_sub(other.device_ns)?,
            sm_ns: self.sm_ns.checked_sub(other.sm_ns)?,
            byte_ms: self.byte_ms.checked_sub(other.byte_ms)?,
            moves: self.moves.beyond(&other.moves)?,
        })
    }

    /// Whether nothing was used.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// A block of a worker's usage: what was used since the block before, and the sums since the
/// incarnation began, by which the blocks are checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageBlock {
    /// Wire version.
    pub v: u16,
    /// The worker.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// SMs of the device.
    pub sms: u32,
    /// Its number, from 1 without gaps.
    pub number: u64,
    /// The number of the first block that was folded into it: it stands for all from that one through
    /// its own. None for a block as it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// When it was cut, milliseconds since 1970 by the worker's clock.
    pub at_ms: u64,
    /// Nanoseconds since the incarnation began.
    pub elapsed_ns: u64,
    /// Nanoseconds with at least one launch running, since the incarnation began.
    pub active_ns: u64,
    /// Nanoseconds in which a launch was ready and waiting while the device was busy, likewise.
    pub starved_ns: u64,
    /// The worker has left in order: nothing follows.
    pub last: bool,
    /// Sums since the incarnation began, this block's rows included.
    pub totals: UseTotals,
    /// The worker's done reports through this one tell of nothing that is not in its blocks through
    /// this one; none where the next block goes on with what was cut together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<u64>,
    /// By tenant and kernel key.
    #[serde(with = "rows")]
    pub kernels: Vec<KernelUse>,
    /// By tenant.
    #[serde(with = "rows")]
    pub memory: Vec<MemoryUse>,
    /// By tenant: what memory did beside being held.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "rows")]
    pub moves: Vec<TenantMoves>,
    /// Kernel keys in the rows for the first time.
    #[serde(with = "list")]
    pub names: Vec<KernelName>,
}

impl Message for UsageBlock {
    const ARRAY: bool = false;
}

impl UsageBlock {
    /// The sum of its rows.
    #[must_use]
    pub fn sum(&self) -> UseTotals {
        let mut sum = UseTotals::default();
        self.kernels.iter().for_each(|row| sum.add_kernel(row));
        let held = self.memory.iter().map(|row| row.byte_ms);
        sum.byte_ms = held.fold(0, u64::saturating_add);
        self.moves.iter().for_each(|row| sum.moves.add(&row.moves));
        sum
    }
}

/// One incarnation's blocks, as far as they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorkerUsage {
    /// Its device.
    pub gpu: GpuId,
    /// It has left in order.
    pub left: bool,
    /// What is known of each block, by number.
    blocks: BTreeMap<u64, Sums>,
}

/// What is checked of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sums {
    /// The first block that it stands for.
    begins: u64,
    /// Others were folded into it.
    folded: bool,
    totals: UseTotals,
    rows: UseTotals,
}

impl Sums {
    /// Whether a leader of a build that knew no moves may have folded it, and so left them out: those of
    /// its blocks are then missing, and that is no fault of the block behind it.
    fn may_lack_moves(&self) -> bool {
        self.folded && self.totals.moves.is_zero()
    }
}

/// Blocks of all workers, each counted once however often it comes, and what is missing of them.
#[derive(Debug, Default)]
pub struct ClusterUsage {
    workers: BTreeMap<Incarnation, WorkerUsage>,
}

impl ClusterUsage {
    /// Takes a block in; whether it is new and its rows count.
    pub fn take(&mut self, block: &UsageBlock) -> bool {
        let worker = self.workers.entry(block.incarnation).or_default();
        worker.gpu = block.gpu;
        worker.left |= block.last;
        let sums = Sums {
            begins: block.begins(),
            folded: block.first.is_some(),
            totals: block.totals,
            rows: block.sum(),
        };
        worker.blocks.insert(block.number, sums).is_none()
    }

    /// Every incarnation of which there are blocks.
    pub fn workers(&self) -> impl Iterator<Item = (&Incarnation, &WorkerUsage)> {
        self.workers.iter()
    }
}

impl WorkerUsage {
    /// Sums of what the blocks that were read do not have, though they are about the time between
    /// them: of blocks that are missing. With `whole`, also of those before the first.
    ///
    /// # Errors
    /// The number of the first block whose rows do not add up to its totals.
    pub fn missing(&self, whole: bool) -> Result<UseTotals, u64> {
        let mut missing = UseTotals::default();
        let mut before = whole.then_some((0_u64, UseTotals::default(), false));
        for (number, sums) in &self.blocks {
            let mut totals = sums.totals;
            let lacks = sums.may_lack_moves();
            if let Some((last, known, lacked)) = before {
                if lacks {
                    totals.moves = known.moves;
                }
                let grown = totals.beyond(&known).ok_or(*number)?;
                let gap = grown.beyond(&sums.rows).ok_or(*number)?;
                let mut must = gap;
                if lacked {
                    must.moves = MoveTotals::default();
                }
                if last.checked_add(1) == Some(sums.begins) && !must.is_zero() {
                    return Err(*number);
                }
                missing.add(&gap);
            }
            before = Some((*number, totals, lacks));
        }
        Ok(missing)
    }

    /// Sums since the incarnation began, as its latest block that was read has them.
    #[must_use]
    pub fn totals(&self) -> UseTotals {
        let last = self.blocks.last_key_value();
        last.map_or_else(UseTotals::default, |(_, sums)| sums.totals)
    }
}

#[cfg(test)]
mod tests;
