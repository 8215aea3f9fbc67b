//! Clusters that are measured: those of tests, set as the bench is, with tenants of its own. And our
//! own programs in processes of theirs.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use bus_schemas::{ClusterSettings, TenantSettings, limits};
use serde::de::DeserializeOwned;
use test_cluster::{Processes, TestCluster, said_by};

use warploom_cli::local::{LocalCluster, LocalOptions};
use warploom_cli::settings::Settings;

/// The tenant whose sessions are measured.
pub(super) const TENANT: &str = "bench";

/// A process that takes longer hangs.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

/// What all measurements of clusters share.
pub(super) struct Bench<'a> {
    /// Repetitions.
    pub(super) reps: usize,
    /// Settings of the cluster's roles.
    pub(super) settings: &'a Settings,
}

/// Grants go by way of the leader, one by one, though a session is alone on its GPU.
pub(super) fn ordered_by_leader() -> ClusterSettings {
    ClusterSettings {
        standing: false,
        ..ClusterSettings::default()
    }
}

impl Bench<'_> {
    /// A fresh cluster of this many leader candidates and one worker.
    pub(super) async fn cluster(&self, leaders: usize) -> Result<TestCluster<Processes>> {
        // What is measured here goes by way of the leader, as it does where a GPU is shared.
        self.ordered(leaders, false).await
    }

    /// The same, with or without standing grants.
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

    /// A fresh cluster of one leader candidate and one worker, but for these changes.
    pub(super) async fn adjusted(
        &self,
        adjust: impl FnOnce(&mut LocalOptions),
    ) -> Result<TestCluster<Processes>> {
        // It has the cluster for itself.
        let unlimited = TenantSettings {
            sessions: 1 << 20,
            addresses: limits::ADDRESS_LAST - limits::ADDRESS_FIRST,
            ..TenantSettings::default()
        };
        let tenants = [(TENANT, unlimited)];
        cluster_of(self.settings, tenants, adjust).await
    }
}

/// A fresh cluster of one leader candidate and one worker for these tenants, but for what `adjust`
/// changes. Its roles compute and log as they are set to here.
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

/// The same with a CPU worker, whatever is set.
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

/// Runs a program to its end. Dropped before, it is killed.
pub(super) async fn output(command: Command) -> Result<Output> {
    let mut command = tokio::process::Command::from(command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    Ok(output.await?)
}

/// Runs one of our own processes to its end, and reads what it prints.
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
