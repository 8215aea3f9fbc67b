//! Clusters for measurements: test clusters with the settings of the bench and with tenants of its own.
//! Also our own programs, each in a process of its own.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use admin::settings::Settings;
use anyhow::{Context, Result};
use bus_schemas::{ClusterSettings, TenantSettings, limits};
use serde::de::DeserializeOwned;
use test_cluster::{Processes, TestCluster, said_by};

use warploom_cli::local::{LocalCluster, LocalOptions};

/// The tenant of the measured sessions.
pub(super) const TENANT: &str = "bench";

/// Timeout of a process; one that takes longer hangs.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// Parameters that all measurements of clusters share.
pub(super) struct Bench<'a> {
    /// Repetitions.
    pub(super) reps: usize,
    /// Settings of the cluster's roles.
    pub(super) settings: &'a Settings,
}

/// Settings under which the leader grants one by one, even to a session that is alone on its GPU.
pub(super) fn ordered_by_leader() -> ClusterSettings {
    ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    }
}

impl Bench<'_> {
    /// Starts a fresh cluster of this many leader candidates and one worker.
    pub(super) async fn cluster(&self, leaders: usize) -> Result<TestCluster<Processes>> {
        // The measured grants come from the leader, as they do on a shared GPU.
        self.ordered(leaders, false).await
    }

    /// As [`Self::cluster`], with or without standing grants.
    pub(super) async fn ordered(
        &self,
        leaders: usize,
        standing: bool,
    ) -> Result<TestCluster<Processes>> {
        self.adjusted(|options| {
            options.leaders = leaders;
            options.order = (!standing).then(ordered_by_leader);
        })
        .await
    }

    /// Starts a fresh cluster of one leader candidate and one worker, with the changes of `adjust`.
    pub(super) async fn adjusted(
        &self,
        adjust: impl FnOnce(&mut LocalOptions),
    ) -> Result<TestCluster<Processes>> {
        // The tenant has the cluster for itself.
        let unlimited = TenantSettings {
            sessions: 1 << 20,
            addresses: limits::ADDRESS_LAST - limits::ADDRESS_FIRST,
            ..TenantSettings::default()
        };
        let tenants = [(TENANT, unlimited)];
        cluster_of(self.settings, tenants, adjust).await
    }
}

/// Starts a fresh cluster of one leader candidate and one worker for these tenants, with the changes of
/// `adjust`. Its roles compute and log as configured here.
pub(super) async fn cluster_of(
    settings: &Settings,
    tenants: impl IntoIterator<Item = (&'static str, TenantSettings)>,
    adjust: impl FnOnce(&mut LocalOptions),
) -> Result<TestCluster<Processes>> {
    let started = TestCluster::start_processes("bench", |options| {
        options.configure(settings);
        for (name, settings) in tenants {
            let tenant = name.parse().context("a tenant's name")?;
            options.tenants.push((tenant, settings));
        }
        adjust(options);
        Ok(())
    });
    started.await
}

/// As [`cluster_of`], but always with a CPU worker.
pub(super) async fn cpu_cluster_of(
    settings: &Settings,
    tenants: impl IntoIterator<Item = (&'static str, TenantSettings)>,
    adjust: impl FnOnce(&mut LocalOptions),
) -> Result<TestCluster<Processes>> {
    let started = cluster_of(settings, tenants, |options| {
        let device = ("worker.device".into(), "cpu".into());
        options.settings.push(device);
        adjust(options);
    });
    started.await
}

/// Runs a program to its end. If the future is dropped before, the program is killed.
pub(super) async fn output(command: Command) -> Result<Output> {
    let mut command = tokio::process::Command::from(command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    Ok(output.await?)
}

/// Runs one of our own processes to its end, and parses its output.
pub(super) async fn play<T: DeserializeOwned + Send + 'static>(
    cluster: &LocalCluster,
    process: &str,
    amount: usize,
) -> Result<T> {
    let arguments = [format!("--reps={amount}")];
    said_by(
        cluster,
        &format!("bench .{process}"),
        process,
        &arguments,
        TIMEOUT,
    )
    .await
}
