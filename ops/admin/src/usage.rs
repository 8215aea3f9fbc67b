//! The usage of tenants, from the workers' usage blocks: read from the stream, grouped and summed.

mod losses;
mod moves;
mod reading;

use std::collections::BTreeMap;

use anyhow::Result;
use bus_schemas::{
    ClusterUsage, GpuId, KernelKey, KernelName, Tenant, UsageBlock, UsageEnds, UseTotals,
};

use crate::calendar::DAY_MS;
use crate::errors::ErrorCode;
pub use losses::{Loss, Unsaid};
pub use moves::{MOVED, MOVED_HEAD, in_csv, in_json, in_table, remark};

/// A key that rows are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum By {
    /// The tenant.
    Tenant,
    /// The day, in UTC.
    Day,
    /// The kernel key.
    Kernel,
    /// The device.
    Gpu,
}

/// A value of such a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// A tenant.
    Tenant(Tenant),
    /// A day: days since 1970.
    Day(u64),
    /// A kernel key; 0 is copies and memory.
    Kernel(KernelKey),
    /// A device.
    Gpu(GpuId),
}

/// A query of usage.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// The keys that rows are grouped by.
    pub by: Vec<By>,
    /// Milliseconds since 1970; blocks cut earlier do not count.
    pub since: Option<u64>,
    /// Milliseconds since 1970; blocks cut at this time or later do not count.
    pub until: Option<u64>,
    /// Rows of this tenant only.
    pub tenant: Option<Tenant>,
}

impl Query {
    /// True if a block cut at this time counts.
    fn spans(&self, at_ms: u64) -> bool {
        let before = self.since.is_some_and(|since| at_ms < since);
        let behind = self.until.is_some_and(|until| at_ms >= until);
        !before && !behind
    }
}

/// The sums of one row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Launches, device time, SM time, memory.
    pub totals: UseTotals,
    /// Nanoseconds of the shortest launch; 0 if there was none.
    pub least_ns: u64,
    /// Nanoseconds of the longest launch.
    pub most_ns: u64,
}

impl Used {
    /// Core credits: SM-seconds.
    #[must_use]
    pub fn core_credits(&self) -> f64 {
        self.totals.sm_ns as f64 / 1e9
    }

    /// VRAM credits: GiB-seconds.
    #[must_use]
    pub fn vram_credits(&self) -> f64 {
        self.totals.byte_ms as f64 / 1e3 / f64::from(1 << 30)
    }

    /// Seconds of device time.
    #[must_use]
    pub fn device_seconds(&self) -> f64 {
        self.totals.device_ns as f64 / 1e9
    }
}

/// The answer to a query.
#[derive(Debug, Default)]
pub struct Books {
    query: Query,
    /// By labels, in the query's order.
    pub rows: BTreeMap<Vec<Label>, Used>,
    /// All tenants together, of the interval.
    pub all: UseTotals,
    /// Names of kernel keys.
    pub names: BTreeMap<KernelKey, KernelName>,
    /// The blocks.
    pub usage: ClusterUsage,
    /// The end of each worker's blocks, in the interval or not.
    pub ends: UsageEnds,
}

impl Books {
    /// Empty books for a query.
    #[must_use]
    pub fn new(query: Query) -> Self {
        Self {
            query,
            ..Self::default()
        }
    }

    /// Takes in a block; one that is already known, or is outside the interval, changes nothing.
    pub fn take(&mut self, block: &UsageBlock) {
        for name in &block.names {
            self.names.insert(name.kernel, name.clone());
        }
        self.ends.take(block);
        if !self.query.spans(block.at_ms) || !self.usage.take(block) {
            return;
        }
        self.all.add(&block.sum());
        for row in &block.kernels {
            let mut totals = UseTotals::default();
            totals.add_kernel(row);
            if let Some(used) = self.row(block, &row.tenant, row.key) {
                used.totals.add(&totals);
                if row.launches > 0 {
                    let first = used.least_ns == 0 && used.most_ns == 0;
                    used.least_ns = if first {
                        row.least_ns
                    } else {
                        used.least_ns.min(row.least_ns)
                    };
                    used.most_ns = used.most_ns.max(row.most_ns);
                }
            }
        }
        for row in &block.memory {
            if let Some(used) = self.row(block, &row.tenant, KernelKey(0)) {
                used.totals.byte_ms = used.totals.byte_ms.saturating_add(row.byte_ms);
            }
        }
        for row in &block.moves {
            if let Some(used) = self.row(block, &row.tenant, KernelKey(0)) {
                used.totals.moves.add(&row.moves);
            }
        }
    }

    fn row(&mut self, block: &UsageBlock, tenant: &Tenant, key: KernelKey) -> Option<&mut Used> {
        let wanted = self.query.tenant.as_ref();
        if wanted.is_some_and(|wanted| wanted != tenant) {
            return None;
        }
        let label = |by: &By| match by {
            By::Tenant => Label::Tenant(tenant.clone()),
            By::Day => Label::Day(block.at_ms / DAY_MS),
            By::Kernel => Label::Kernel(key),
            By::Gpu => Label::Gpu(block.gpu),
        };
        let labels = self.query.by.iter().map(label).collect();
        Some(self.rows.entry(labels).or_default())
    }

    /// The sum of the rows.
    #[must_use]
    pub fn sum(&self) -> Used {
        let mut sum = Used::default();
        for used in self.rows.values() {
            sum.totals.add(&used.totals);
        }
        sum
    }

    /// Usage that later blocks include but the stream lacks.
    ///
    /// # Errors
    /// If a worker's rows do not add up to its totals: names the worker and the block.
    pub fn missing(&self) -> Result<UseTotals> {
        let whole = self.query.since.is_none();
        let mut missing = UseTotals::default();
        for (incarnation, worker) in self.usage.workers() {
            let gap = worker.missing(whole).map_err(|block| {
                anyhow::anyhow!(ErrorCode::Accounts.failed(format!(
                    "block {block} of worker {incarnation} does not add up to its totals"
                )))
            })?;
            missing.add(&gap);
        }
        Ok(missing)
    }
}

/// A launch in CUDA's notation, with the dimensions that are not 1: `saxpy <8> <128>`.
#[must_use]
pub fn kernel_text(name: &KernelName) -> String {
    let dim = |dim: [u32; 3]| {
        let end = dim
            .iter()
            .rposition(|size| *size != 1)
            .map_or(1, |at| at + 1);
        let sizes: Vec<_> = dim[..end].iter().map(ToString::to_string).collect();
        sizes.join("x")
    };
    let (grid, block) = (dim(name.grid_dim), dim(name.block_dim));
    let shared = match name.shared_bytes {
        0 => String::new(),
        bytes => format!(", {bytes} B"),
    };
    format!("{}<{grid}, {block}{shared}>", name.function)
}

#[cfg(test)]
mod tests;
