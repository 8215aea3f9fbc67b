//! A cluster with processes of the binary as its roles.

use std::fmt::Write;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use broker::Broker;
use serde::de::DeserializeOwned;
use warploom_cli::local::{LocalCluster, LocalOptions, Scratch};

use crate::{RunningRole, TestCluster};

/// Number of lines of each role's log that are shown after a failure.
const TAIL: usize = 25;

/// Broker, leaders and workers as processes, and the folder of their logs and files.
pub struct Processes {
    // Ended before the folder is removed.
    cluster: LocalCluster,
    _folder: Scratch,
}

impl TestCluster<Processes> {
    /// Starts a cluster in a fresh folder: by default a leader candidate, a worker and no tenants;
    /// `adjust` changes that. Returns when a leader leads all workers.
    ///
    /// # Errors
    /// If a process does not start, or the cluster is not ready in time.
    pub async fn start_processes(
        name: &str,
        adjust: impl FnOnce(&mut LocalOptions) -> Result<()>,
    ) -> Result<Self> {
        let folder = Scratch::new()?;
        let mut options = LocalOptions::new(folder.path(), name)?;
        adjust(&mut options)?;
        let running = Processes {
            cluster: LocalCluster::start(options).await?,
            _folder: folder,
        };
        Ok(Self { running })
    }

    /// The last lines of every role's log.
    #[must_use]
    pub fn log_tails(&self) -> String {
        let mut tails = String::new();
        let files = std::fs::read_dir(&self.options().state_dir);
        for path in files.into_iter().flatten().flatten().map(|it| it.path()) {
            if path.extension().is_none_or(|extension| extension != "log") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(TAIL)..].join("\n  ");
            let _ = write!(tails, "\n{}:\n  {tail}", path.display());
        }
        tails
    }
}

/// Runs a command of the binary as part of a cluster, to its end; parses the JSON that it prints.
///
/// # Errors
/// With its log, if it prints something else, fails, or has not ended within `patience`.
pub async fn said_by<T: DeserializeOwned>(
    cluster: &LocalCluster,
    command: &str,
    name: &str,
    arguments: &[String],
    patience: Duration,
) -> Result<T> {
    let mut role = cluster.role(command, name, arguments)?;
    let stdout = role.take_stdout().context("its output")?;
    let read = tokio::task::spawn_blocking(move || std::io::read_to_string(stdout));
    let log = || std::fs::read_to_string(cluster.log(name)).unwrap_or_default();
    let Ok(read) = tokio::time::timeout(patience, read).await else {
        role.kill()?;
        bail!("{name} has not ended after {patience:?}: {}", log());
    };
    let said = read.context("reading its output")??;
    let ended = role.finished(patience).await;
    ended.with_context(|| format!("{name} said {said:?} and {}", log()))?;
    serde_json::from_str(&said).with_context(|| format!("{name} said {said:?} and {}", log()))
}

impl RunningRole for Processes {
    fn broker(&self) -> &Broker {
        &self.cluster.broker
    }
}

impl Deref for Processes {
    type Target = LocalCluster;

    fn deref(&self) -> &LocalCluster {
        &self.cluster
    }
}

impl DerefMut for Processes {
    fn deref_mut(&mut self) -> &mut LocalCluster {
        &mut self.cluster
    }
}
