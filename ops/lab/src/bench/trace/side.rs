//! The clusters that are compared, each with its program.

use std::path::Path;
use std::time::Duration;

use admin::settings::Settings;
use anyhow::{Context, Result, ensure};
use bus_schemas::TenantSettings;
use test_cluster::{Processes, TestCluster};

use super::collector::Collector;
use super::processor::spent_ns;
use super::program::{LAUNCHES, Program};
use super::received::Received;
use super::sampled;
use crate::bench::bench_cluster::{TENANT, cpu_cluster_of};
use crate::bench::spans::Receiver;

/// One request in so many is kept where not all are.
pub(super) const ONE_IN: usize = 100;
/// Time after the last request that belongs to a turn of each side. A program reports its last requests within it.
const SETTLE: Duration = Duration::from_secs(1);

/// The requests of a cluster that are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    /// None: the cluster has no tracer, and programs report nothing.
    None,
    /// One in a hundred.
    Some,
    /// All.
    All,
}

/// A cluster with its program.
pub(super) struct Side {
    pub(super) kept: Kept,
    /// The measured turns.
    pub(super) turns: Vec<Turn>,
    // Killed before the cluster ends.
    program: Program,
    collector: Option<Collector>,
    cluster: TestCluster<Processes>,
}

/// A repetition of one side.
#[derive(Debug)]
pub(super) struct Turn {
    /// Processor time of each process, in microseconds for each request.
    pub(super) spent_us: Vec<(&'static str, f64)>,
    /// Number of requests that the collector has received.
    pub(super) received: usize,
    pub(super) cover_p50: Option<f64>,
    pub(super) export_s_p99: Option<f64>,
}

impl Turn {
    /// Processor time of all processes, in microseconds for each launch.
    pub(super) fn us_per_launch(&self) -> f64 {
        let sum: f64 = self.spent_us.iter().map(|(_, spent)| spent).sum();
        sum / LAUNCHES as f64
    }
}

impl Side {
    /// Starts a cluster of a leader, a worker, and a tracer where requests are kept; then its program.
    ///
    /// # Errors
    /// If a process does not start.
    pub(super) async fn start(settings: &Settings, library: &Path, kept: Kept) -> Result<Self> {
        let receiver = match kept {
            Kept::None => None,
            Kept::Some | Kept::All => Some(Receiver::start()?),
        };
        let endpoint = receiver.as_ref().map_or("", Receiver::endpoint).to_owned();
        let requests = match receiver {
            Some(_) => "auto",
            None => "off",
        };
        let tenants = [(TENANT, TenantSettings::default())];
        let started = cpu_cluster_of(settings, tenants, |options| {
            options.settings.extend([
                ("telemetry.otlp".to_owned(), endpoint),
                ("telemetry.requests".to_owned(), requests.to_owned()),
            ]);
        });
        let mut cluster = started.await?;
        ensure!(
            cluster.tracer.is_some() == receiver.is_some(),
            "the environment switches traces on or off: see OTEL_SDK_DISABLED"
        );
        if kept == Kept::Some {
            // The first one is killed before it has a request.
            cluster.tracer = None;
            let command = format!("bench {}", sampled::PROCESS);
            let tracer = cluster.role(&command, "tracer", &[format!("--reps={ONE_IN}")])?;
            cluster.tracer = Some(tracer);
        }
        let collector = match receiver {
            Some(receiver) => Some(Collector::of(&cluster, receiver).await?),
            None => None,
        };
        Ok(Self {
            kept,
            turns: Vec::new(),
            program: Program::start(&cluster, library).await?,
            collector,
            cluster,
        })
    }

    /// The processes of this side. The collector is none of them.
    fn processes(&self) -> Result<Vec<(&'static str, u32)>> {
        let leader = self.cluster.leaders.first().context("a leader")?.1.pid();
        let worker = self.cluster.workers.first().context("a worker")?.pid();
        let mut processes = vec![
            ("broker", self.cluster.broker.pid()),
            ("leader", leader),
            ("worker", worker),
            ("program", self.program.pid()?),
        ];
        let tracer = self.cluster.tracer.iter();
        processes.extend(tracer.map(|tracer| ("tracer", tracer.pid())));
        Ok(processes)
    }

    /// Has the program do so many requests, and waits until all are exported.
    ///
    /// # Errors
    /// If a process has ended, or requests are lost.
    pub(super) async fn turn(&mut self, requests: u64) -> Result<Turn> {
        let processes = self.processes()?;
        let spent = || -> Result<Vec<u64>> {
            let each = processes.iter().map(|(_, pid)| spent_ns(*pid));
            each.collect()
        };
        let before = spent()?;
        self.program.run(requests).await?;
        tokio::time::sleep(SETTLE).await;
        let launches = match self.kept {
            Kept::All => requests * LAUNCHES,
            // The tracer drops reports too.
            Kept::None | Kept::Some => 0,
        };
        let received = match &self.collector {
            Some(collector) => collector.exported(launches).await?,
            None => Received::default(),
        };
        let after = spent()?;
        let spent = before.iter().zip(&after);
        let each = spent.map(|(before, after)| after.saturating_sub(*before) as f64 / 1e3);
        let names = processes.iter().map(|(name, _)| *name);
        Ok(Turn {
            spent_us: names.zip(each.map(|us| us / requests as f64)).collect(),
            received: received.requests(),
            cover_p50: received.cover_p50(),
            export_s_p99: received.export_s_p99(),
        })
    }
}
