//! The usage of a worker's tenants, in numbered blocks of the record plane, and the check that the
//! blocks add up.

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

/// Usage by launches of one kernel key by one tenant since the previous block: a row of 80 bytes,
/// fields in this order. Key 0 is device work for the tenant other than launches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelUse {
    /// The tenant.
    pub tenant: Tenant,
    /// The key.
    pub key: KernelKey,
    /// Launches.
    pub launches: u64,
    /// Sum of their device nanoseconds.
    pub device_ns: u64,
    /// Sum of occupied SMs times nanoseconds.
    pub sm_ns: u64,
    /// Nanoseconds of the shortest launch; for launches measured together, their mean.
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

/// Memory held by one tenant's sessions since the previous block: a row of 40 bytes.
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

/// The kernel behind a kernel key, for people.
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
    /// The image that contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<ModuleId>,
}

/// Sums of usage. Rows of a stored block may have any values, so sums saturate: such rows do not
/// add up to the totals, which readers of blocks check.
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
    /// Moves of memory; absent if all are zero, and in blocks from before they were counted.
    #[serde(default, skip_serializing_if = "MoveTotals::is_zero")]
    pub moves: MoveTotals,
}

impl UseTotals {
    /// Adds the usage of launches.
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

    /// Returns the difference to smaller sums; `None` if any of these is less.
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

    /// True if nothing was used.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

/// A block of a worker's usage: the usage since the previous block, and the sums since the
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
    /// The block's number, from 1 without gaps.
    pub number: u64,
    /// Number of the first block that was folded into it: it replaces all from that one through its
    /// own. `None` for a block as it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// Time of the cut, milliseconds since 1970 by the worker's clock.
    pub at_ms: u64,
    /// Nanoseconds since the incarnation began.
    pub elapsed_ns: u64,
    /// Nanoseconds with at least one launch running, since the incarnation began.
    pub active_ns: u64,
    /// Nanoseconds in which a launch was ready and waiting while the device was busy, likewise.
    pub starved_ns: u64,
    /// True if the worker has left in order: no block follows.
    pub last: bool,
    /// Sums since the incarnation began, this block's rows included.
    pub totals: UseTotals,
    /// The worker's done reports through this one report only usage that is in its blocks through
    /// this one. `None` if the next block continues the same cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reports: Option<u64>,
    /// Usage by tenant and kernel key.
    #[serde(with = "rows")]
    pub kernels: Vec<KernelUse>,
    /// Memory by tenant.
    #[serde(with = "rows")]
    pub memory: Vec<MemoryUse>,
    /// Moves of memory by tenant.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "rows")]
    pub moves: Vec<TenantMoves>,
    /// Kernel keys that the rows have for the first time.
    #[serde(with = "list")]
    pub names: Vec<KernelName>,
}

impl Message for UsageBlock {
    const ARRAY: bool = false;
}

impl UsageBlock {
    /// Returns the sum of its rows.
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
    /// True if it has left in order.
    pub left: bool,
    /// The sums of each block, by number.
    blocks: BTreeMap<u64, Sums>,
}

/// The checked sums of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sums {
    /// The first block that it replaces.
    begins: u64,
    /// True if others were folded into it.
    folded: bool,
    totals: UseTotals,
    rows: UseTotals,
}

impl Sums {
    /// True if a leader of a build without moves may have folded it, and so left them out. The
    /// moves of its blocks are then missing, which is no fault of the next block.
    fn may_lack_moves(&self) -> bool {
        self.folded && self.totals.moves.is_zero()
    }
}

/// Blocks of all workers, each counted once even if it comes repeatedly, and the usage missing from
/// them.
#[derive(Debug, Default)]
pub struct ClusterUsage {
    workers: BTreeMap<Incarnation, WorkerUsage>,
}

impl ClusterUsage {
    /// Takes in a block; true if it is new and its rows count.
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

    /// Returns every incarnation that has blocks.
    pub fn workers(&self) -> impl Iterator<Item = (&Incarnation, &WorkerUsage)> {
        self.workers.iter()
    }
}

impl WorkerUsage {
    /// Returns the usage that the blocks lack for the time between them, because blocks are
    /// missing. With `whole`, it includes that of missing blocks before the first one.
    ///
    /// # Errors
    /// The number of the first block with rows that do not add up to its totals.
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

    /// Returns the sums since the incarnation began, by the latest block that was read.
    #[must_use]
    pub fn totals(&self) -> UseTotals {
        let last = self.blocks.last_key_value();
        last.map_or_else(UseTotals::default, |(_, sums)| sums.totals)
    }
}

#[cfg(test)]
mod tests;
