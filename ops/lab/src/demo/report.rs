//! The result of a demo, as one JSON object and as a table.

use std::collections::BTreeMap;

use admin::evidence::WorkerChain;
use admin::table::{fitted, headed};
use bus_schemas::{Incarnation, Usage};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, Color, Table};
use serde::{Deserialize, Serialize};

/// Use by worker.
pub type UsageByWorker = BTreeMap<Incarnation, Usage>;

/// A demo's result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DemoReport {
    /// One entry per tenant.
    pub tenants: Vec<TenantReport>,
    /// The cluster.
    pub cluster: ClusterReport,
    /// True if all checks hold.
    pub ok: bool,
    /// Failed checks, one sentence each.
    pub complaints: Vec<String>,
}

/// One tenant's result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TenantReport {
    /// Its name.
    pub tenant: String,
    /// Its workload.
    pub workload: String,
    /// Its priority, 0 (highest) to 4.
    pub priority: u8,
    /// Its weight.
    pub weight: u32,
    /// Kernel launches.
    pub launches: u64,
    /// Requests answered.
    pub requests: u64,
    /// Median latency of a request, milliseconds.
    pub p50_ms: f64,
    /// 99th percentile, milliseconds.
    pub p99_ms: f64,
    /// Its share of all measured device time, a fraction.
    pub device_share: f64,
    /// SM-seconds.
    pub core_credits: f64,
    /// GiB-seconds.
    pub vram_credits: f64,
    /// Requests of which the whole result equals the reference.
    pub verified: u64,
}

/// Losses of leaders, workers and sessions without an action of the demo.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gone {
    /// Changes of leader that no kill caused.
    pub leader_changes: usize,
    /// Workers that a leader declared lost.
    pub workers_lost: usize,
    /// Sessions that a tenant lost before it was ready; it began again.
    pub sessions_lost: usize,
}

/// The cluster's result.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClusterReport {
    /// Median time from a leader's death to its successor's first grant, milliseconds.
    pub takeover_ms: Option<f64>,
    /// Leaders killed.
    pub kills: usize,
    /// Processes that were declared dead, and their sessions.
    #[serde(flatten)]
    pub gone: Gone,
    /// Submitted ops that never ran.
    pub lost: u64,
    /// Ops that ran more than once.
    pub duplicated: u64,
    /// Ops or positions out of order.
    pub reordered: u64,
    /// Grants that replay took from workers because their inputs died with a leader.
    pub adopted: u64,
    /// Share of wall time with at least one launch running, mean over devices.
    pub gpu_active: f64,
    /// Share of wall time in which a launch was ready and waiting, mean over devices.
    pub starvation: f64,
    /// Accepted positions that are in neither record nor tail; must be 0.
    pub skipped: u64,
    /// Digest of the launch order, from the workers' logs.
    pub digest: String,
    /// Digest of the launch order of the same workers, as a fresh process computes it from the record.
    pub replay_digest: String,
    /// Each worker's chain, and the chain that it was compared with.
    pub workers: Vec<WorkerChain>,
    /// Ops submitted.
    pub ops: u64,
    /// Positions granted.
    pub positions: u64,
    /// Devices.
    pub devices: Vec<String>,
}

fn judged(text: String, good: bool) -> Cell {
    let color = if good { Color::Green } else { Color::Red };
    Cell::new(text).fg(color)
}

impl DemoReport {
    /// The tables for people.
    #[must_use]
    pub fn table(&self) -> String {
        let mut tenants = headed(
            "tenant | priority> | weight> | launches> | requests> | p50 ms> | p99 ms> | \
         device> | core credits> | VRAM credits> | verified>",
        );
        for tenant in &self.tenants {
            let verified = format!("{}/{}", tenant.verified, tenant.requests);
            tenants.add_row([
                Cell::new(&tenant.tenant),
                Cell::new(tenant.priority),
                Cell::new(tenant.weight),
                Cell::new(tenant.launches),
                Cell::new(tenant.requests),
                Cell::new(format!("{:.2}", tenant.p50_ms)),
                Cell::new(format!("{:.2}", tenant.p99_ms)),
                Cell::new(format!("{:.1} %", tenant.device_share * 100.0)),
                Cell::new(format!("{:.2}", tenant.core_credits)),
                Cell::new(format!("{:.4}", tenant.vram_credits)),
                judged(
                    verified,
                    tenant.verified == tenant.requests && tenant.requests > 0,
                ),
            ]);
        }
        format!("{}\n{}", fitted(&tenants), fitted(&self.cluster_table()))
    }

    fn cluster_table(&self) -> Table {
        let cluster = &self.cluster;
        let faults = (cluster.lost, cluster.duplicated, cluster.reordered);
        let takeover = cluster
            .takeover_ms
            .map_or("no kill".into(), |ms| format!("{ms:.1} ms"));
        let mut table = Table::new();
        table.load_style(UTF8_FULL_CONDENSED);
        let mut row = |name: &str, value: Cell| {
            table.add_row([Cell::new(name), value]);
        };
        row("devices", Cell::new(cluster.devices.join(", ")));
        row(
            "ops / positions",
            Cell::new(format!("{} / {}", cluster.ops, cluster.positions)),
        );
        row("leaders killed", Cell::new(cluster.kills));
        row("takeover, kill to first grant", Cell::new(takeover));
        let gone = cluster.gone;
        let text = format!(
            "{} / {} / {}",
            gone.leader_changes, gone.workers_lost, gone.sessions_lost
        );
        row(
            "leaders / workers / sessions lost without a kill",
            judged(text, gone == Gone::default()),
        );
        let text = format!("{} / {} / {}", faults.0, faults.1, faults.2);
        row(
            "lost / run twice / out of order",
            judged(text, faults == (0, 0, 0)),
        );
        row(
            "GPU active",
            Cell::new(format!("{:.1} %", cluster.gpu_active * 100.0)),
        );
        row(
            "busy with more ready",
            Cell::new(format!("{:.1} %", cluster.starvation * 100.0)),
        );
        row("launch order", Cell::new(&cluster.digest));
        let same = cluster.digest == cluster.replay_digest;
        row("its replay", judged(cluster.replay_digest.clone(), same));
        let counts = format!("{} / {}", cluster.adopted, cluster.skipped);
        row(
            "adopted / skipped by the replay",
            judged(counts, cluster.skipped == 0),
        );
        table
    }
}
