//! `warploom bench bus`: whole processes over a real broker.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use broker::testing::TempDir;
use bus_schemas::{ClusterSettings, Tenant, TenantSettings};
use serde::de::DeserializeOwned;

use super::baseline::Baselines;
use super::metric::{Goal, Metric, Spec};
use super::{footprint, latency, takeover, throughput};
use crate::local::{LocalCluster, LocalOptions};
use crate::settings::Settings;

/// The tenant whose sessions are measured.
pub(super) const TENANT: &str = "bench";

macro_rules! metrics {
    ($($constant:ident = $name:literal, $unit:literal, $goal:expr, $what:literal;)*) => {
        $(pub(super) const $constant: Spec =
            Spec { name: $name, unit: $unit, goal: $goal, what: $what };)*
        /// Everything that is measured.
        pub(super) const METRICS: &[Spec] = &[$($constant),*];
    };
}

metrics! {
    SYNC_US = "sync_launch_us", "us", Goal::None,
        "p50 of one launch and its sync, client -> leader -> worker -> client";
    SYNC_RATIO = "sync_launch_ratio", "ratio", Goal::AtMost(1.25),
        "that / p50 of a bare three-hop relay with messages of the same sizes";
    ENQUEUE_NS = "enqueue_ns", "ns", Goal::AtMost(300.0),
        "mean time of an asynchronous launch in its caller's thread, in bursts of 1000";
    ENQUEUE_ALLOCS = "enqueue_allocs", "allocations", Goal::AtMost(0.0),
        "memory allocations per asynchronous launch in its caller's thread";
    LAUNCHES = "launches_per_s", "1/s", Goal::AtLeast(300_000.0),
        "empty kernels end to end, from first enqueued to last known done, batches of 64";
    LAUNCHES_RATIO = "launches_ratio", "ratio", Goal::AtLeast(0.3),
        "that / launches in what a bare publisher and subscriber move of such batches";
    TAKEOVER = "takeover_ms", "ms", Goal::AtMost(50.0),
        "SIGKILL of the leader to its successor's first grant, broker healthy";
    LEADER_RSS = "leader_rss_mib", "MiB", Goal::AtMost(30.0),
        "resident memory of an idle leader";
    WORKER_RSS = "worker_rss_mib", "MiB", Goal::AtMost(40.0),
        "resident memory of an idle worker";
    SESSION = "session_kib", "KiB", Goal::AtMost(64.0),
        "growth of broker, leader, worker and client per idle session, over 1000 of one client";
    BINARY = "binary_mib", "MB", Goal::AtMost(30.0),
        "size of the stripped binary, millions of bytes";
}

/// A party that takes longer hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What all measurements share.
pub(super) struct Stage<'a> {
    /// Repetitions.
    pub(super) reps: usize,
    /// Settings of the cluster's roles.
    pub(super) settings: &'a Settings,
}

/// A cluster that is measured, and where it lives. Dropped, both are gone.
pub(super) struct Measured {
    // Dropped before the directory it runs in.
    /// The cluster.
    pub(super) cluster: LocalCluster,
    _directory: TempDir,
}

impl Stage<'_> {
    /// A fresh cluster of this many leader candidates and one worker.
    pub(super) async fn cluster(&self, leaders: usize) -> Result<Measured> {
        // What is measured here goes by way of the leader, as it does where a GPU is shared.
        self.ordered(leaders, false).await
    }

    /// The same, with or without standing grants.
    pub(super) async fn ordered(&self, leaders: usize, standing: bool) -> Result<Measured> {
        let directory = TempDir::new()?;
        let mut options = self.options(directory.path())?;
        options.leaders = leaders;
        options.order = Some(ClusterSettings {
            standing,
            ..ClusterSettings::default()
        });
        let cluster = LocalCluster::start(options).await?;
        Ok(Measured {
            cluster,
            _directory: directory,
        })
    }

    fn options(&self, directory: &Path) -> Result<LocalOptions> {
        let mut options = LocalOptions::new(directory, "bench")?;
        options.server = self.settings.given("broker.server").map(Into::into);
        let tenant: Tenant = TENANT.parse().context("the measured tenant")?;
        options.tenants = vec![(tenant, TenantSettings::default())];
        for key in [
            "worker.device",
            "worker.threads",
            "worker.engine",
            "log.filter",
        ] {
            options
                .settings
                .push((key.into(), self.settings.text(key).into()));
        }
        Ok(options)
    }
}

/// Runs one of our own parties to its end, in a process of its own, and reads what it prints.
pub(super) async fn play<T: DeserializeOwned + Send + 'static>(
    cluster: &LocalCluster,
    party: &str,
    amount: usize,
) -> Result<T> {
    let arguments = [format!("--reps={amount}")];
    let mut role = cluster.role(&format!("bench .{party}"), party, &arguments)?;
    let stdout = role.take_stdout().context("the party's output")?;
    let read = tokio::task::spawn_blocking(move || std::io::read_to_string(stdout));
    let Ok(said) = tokio::time::timeout(PATIENCE, read).await else {
        role.kill()?;
        bail!("party {party} has not ended after {PATIENCE:?}");
    };
    let said = said??;
    serde_json::from_str(&said).with_context(|| {
        let log = std::fs::read_to_string(cluster.log(party)).unwrap_or_default();
        format!("party {party} said {said:?} and {log}")
    })
}

/// Measures everything that is wanted.
pub(super) async fn bus(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Metric),
) -> Result<()> {
    let stage = Stage { reps, settings };
    let any = |specs: &[Spec]| specs.iter().any(|spec| wanted(spec.name));
    let mut tell = |metrics: Vec<Metric>| {
        metrics
            .into_iter()
            .filter(|metric| wanted(metric.metric))
            .for_each(&mut tell);
    };
    if any(&[BINARY]) {
        tell(vec![footprint::binary()?]);
    }
    if any(&[LEADER_RSS, WORKER_RSS, SESSION]) {
        tell(footprint::resident(&stage, any(&[SESSION])).await?);
    }
    if any(&[
        SYNC_US,
        SYNC_RATIO,
        ENQUEUE_NS,
        ENQUEUE_ALLOCS,
        LAUNCHES,
        LAUNCHES_RATIO,
    ]) {
        let measured = stage.cluster(1).await?;
        let baselines = Baselines::find(measured.cluster.broker.credentials());
        let baselines = baselines.map_err(|error| format!("{error:#}"));
        let baselines = baselines.as_ref().map_err(String::as_str);
        if any(&[SYNC_US, SYNC_RATIO]) {
            tell(latency::sync(&stage, &measured.cluster, baselines).await?);
        }
        if any(&[ENQUEUE_NS, ENQUEUE_ALLOCS]) {
            tell(latency::enqueue(&stage, &measured.cluster).await?);
        }
        if any(&[LAUNCHES, LAUNCHES_RATIO]) {
            tell(throughput::launches(&stage, &measured.cluster, baselines).await?);
        }
    }
    if any(&[TAKEOVER]) {
        tell(vec![takeover::takeover(&stage).await?]);
    }
    Ok(())
}
