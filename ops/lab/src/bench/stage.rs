//! What is measured: a cluster of its own, and parties in processes of theirs.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bus_schemas::{ClusterSettings, Tenant, TenantSettings, limits};
use serde::de::DeserializeOwned;

use warploom_cli::local::{LocalCluster, LocalOptions, Scratch};
use warploom_cli::settings::Settings;

/// The tenant whose sessions are measured.
pub(super) const TENANT: &str = "bench";

/// A party that takes longer hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What all measurements share.
pub(super) struct Stage<'a> {
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

/// A cluster that is measured, and where it lives. Dropped, both are gone.
pub(super) struct Measured {
    // Dropped before the directory it runs in.
    /// The cluster.
    pub(super) cluster: LocalCluster,
    _directory: Scratch,
}

impl Stage<'_> {
    /// A fresh cluster of this many leader candidates and one worker.
    pub(super) async fn cluster(&self, leaders: usize) -> Result<Measured> {
        // What is measured here goes by way of the leader, as it does where a GPU is shared.
        self.ordered(leaders, false).await
    }

    /// The same, with or without standing grants.
    pub(super) async fn ordered(&self, leaders: usize, standing: bool) -> Result<Measured> {
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
    ) -> Result<Measured> {
        let directory = Scratch::new()?;
        let mut options = self.options(directory.path())?;
        adjust(&mut options);
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
        // It has the cluster for itself.
        let settings = TenantSettings {
            sessions: 1 << 20,
            addresses: limits::ADDRESS_LAST - limits::ADDRESS_FIRST,
            ..TenantSettings::default()
        };
        options.tenants = vec![(tenant, settings)];
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

/// Runs a program to its end. Dropped before, it is killed.
pub(super) async fn output(command: Command) -> Result<Output> {
    let mut command = tokio::process::Command::from(command);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    Ok(output.await?)
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
