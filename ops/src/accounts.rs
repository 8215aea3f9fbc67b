//! What tenants used, as the workers' accounts have it: read from the stream, grouped and summed.

mod losses;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::stream;
use bus_schemas::{
    AccountEnds, Accounts, Failure, Folded, GpuId, KernelKey, KernelName, Tenant, UsageBlock,
    UseTotals, decode,
};
use futures_util::StreamExt;

use crate::admin::Administrator;
use crate::calendar::DAY_MS;
pub use losses::{Loss, Unsaid};

/// How much later than it was cut a block may have come into the stream, milliseconds: a broker can be
/// away, and clocks differ.
const LATE_MS: u64 = 3_600_000;
/// How often the accounts are read at most, where they are folded meanwhile.
const READS: u32 = 5;

/// What rows are told apart by.
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

/// One of them.
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

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// How rows are told apart.
    pub by: Vec<By>,
    /// Milliseconds since 1970: blocks cut before do not count.
    pub since: Option<u64>,
    /// Nor those cut then or later.
    pub until: Option<u64>,
    /// Rows of this tenant only.
    pub tenant: Option<Tenant>,
}

impl Query {
    /// Whether what was cut then counts.
    fn spans(&self, at_ms: u64) -> bool {
        let before = self.since.is_some_and(|since| at_ms < since);
        let behind = self.until.is_some_and(|until| at_ms >= until);
        !before && !behind
    }
}

/// What one row sums up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Launches, device time, SM time, memory.
    pub totals: UseTotals,
    /// Nanoseconds of the shortest launch; 0 where there was none.
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

/// The answer.
#[derive(Debug, Default)]
pub struct Books {
    query: Query,
    /// By labels, in the query's order.
    pub rows: BTreeMap<Vec<Label>, Used>,
    /// All tenants together, of the interval.
    pub all: UseTotals,
    /// What kernel keys stand for.
    pub names: BTreeMap<KernelKey, KernelName>,
    /// The blocks.
    pub accounts: Accounts,
    /// Where each worker's blocks end, in the interval or not.
    pub ends: AccountEnds,
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

    /// Takes a block in; one that was taken before, or is not of the interval, changes nothing.
    pub fn take(&mut self, block: &UsageBlock) {
        for name in &block.names {
            self.names.insert(name.kernel, name.clone());
        }
        self.ends.take(block);
        if !self.query.spans(block.at_ms) || !self.accounts.take(block) {
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
                used.totals.byte_ms += row.byte_ms;
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

    /// What the stream lacks although later blocks say that it was used.
    ///
    /// # Errors
    /// Where a worker's rows do not add up to its totals: names the worker and the block.
    pub fn missing(&self) -> Result<UseTotals> {
        let whole = self.query.since.is_none();
        let mut missing = UseTotals::default();
        for (incarnation, worker) in self.accounts.workers() {
            let gap = worker.missing(whole).map_err(|block| {
                anyhow::anyhow!(
                    "E-ACCOUNTS: block {block} of worker {incarnation} does not add up to its totals"
                )
            })?;
            missing.add(&gap);
        }
        Ok(missing)
    }
}

impl Administrator {
    /// Reads the accounts.
    ///
    /// # Errors
    /// [`crate::exit::Unreachable`] without a broker; where a block cannot be read.
    pub async fn books(&self, query: Query) -> Result<Books> {
        let name = self.subjects().account_stream();
        let Ok(stream) = self.jetstream().get_stream(&name).await else {
            // No worker was ever there.
            return Ok(Books::new(query));
        };
        // A leader that folds meanwhile writes first and removes then: what it removed before it could
        // be read is in what it wrote.
        for _ in 0..READS {
            if let Some(books) = self.read(&stream, query.clone()).await? {
                return Ok(books);
            }
        }
        anyhow::bail!("E-ACCOUNTS: the accounts are folded while they are read; read them again")
    }

    /// Reads the accounts once; `None` where blocks were folded meanwhile.
    async fn read(&self, stream: &stream::Stream, query: Query) -> Result<Option<Books>> {
        let mut folded = Folded::default();
        self.blocks(
            stream,
            DeliverPolicy::All,
            self.subjects().account_days(),
            |block| {
                folded.take(block);
            },
        )
        .await?;
        let created = stream.cached_info().created;
        let made = u64::try_from(created.unix_timestamp_nanos() / 1_000_000).unwrap_or(0);
        let since = query.since.unwrap_or(0).saturating_sub(LATE_MS);
        let policy = match since.checked_sub(made) {
            Some(later) if later > 0 => DeliverPolicy::ByStartTime {
                start_time: created + Duration::from_millis(later),
            },
            _ => DeliverPolicy::All,
        };
        let mut books = Books::new(query);
        for block in folded.blocks() {
            books.take(block);
        }
        let mut news = false;
        self.blocks(stream, policy, String::new(), |block| {
            if !folded.covers(&block) {
                news |= block.first.is_some();
                books.take(&block);
            }
        })
        .await?;
        Ok((!news).then_some(books))
    }

    /// Reads blocks, of one subject or all, up to the last there is.
    async fn blocks(
        &self,
        stream: &stream::Stream,
        deliver_policy: DeliverPolicy,
        filter_subject: String,
        mut take: impl FnMut(UsageBlock),
    ) -> Result<()> {
        let config = pull::OrderedConfig {
            deliver_policy,
            filter_subject,
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await?;
        let mut left = consumer.cached_info().num_pending;
        let mut messages = consumer.messages().await?;
        while left > 0 {
            let next = tokio::time::timeout(self.stall(), messages.next()).await;
            let Some(message) = next.context("E-ACCOUNTS: the accounts' stream stalls")? else {
                break;
            };
            let message = message?;
            // Not counted down: what is removed meanwhile never comes.
            let info = message
                .info()
                .map_err(|error| anyhow::anyhow!("E-ACCOUNTS: {error}"))?;
            left = info.pending;
            let block = decode::<UsageBlock>(&message.payload).map_err(|error| {
                let failure = Failure::from(error);
                anyhow::anyhow!("E-ACCOUNTS: {}: {failure}", message.subject)
            })?;
            take(block);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
