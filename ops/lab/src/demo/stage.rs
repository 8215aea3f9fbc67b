//! A cluster with tenants at work on it, and all the evidence afterwards: what the demo and the
//! end-to-end tests stand on.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::observer::Observer;
use super::plan::TenantPlan;
use super::tenant::{Heard, TenantProcess};
use super::{ReplaySummary, Used};
use warploom_cli::admin::Administrator;
use warploom_cli::evidence::{Evidence, Kill, read_lines};
use warploom_cli::local::{LocalCluster, LocalOptions};

/// A cluster with tenants.
pub struct Stage {
    /// The cluster's processes.
    pub cluster: LocalCluster,
    /// A connection as administrator.
    pub administrator: Administrator,
    /// What passes on the bus.
    pub observer: Observer,
    /// The tenants' processes, in the plans' order.
    pub tenants: Vec<TenantProcess>,
    logs: Vec<PathBuf>,
}

impl Stage {
    /// Starts the cluster with these tenants' settings, but no tenant yet.
    ///
    /// # Errors
    /// When something does not start.
    pub async fn start(mut options: LocalOptions, plans: &[TenantPlan]) -> Result<Self> {
        options.evidence = true;
        options.tenants = plans
            .iter()
            .map(|plan| (plan.tenant.clone(), plan.settings.clone()))
            .collect();
        let cluster = LocalCluster::start(options).await?;
        let administrator = cluster.administrator().await?;
        let observer = Observer::start(&administrator).await?;
        let (tenants, logs) = (Vec::new(), Vec::new());
        Ok(Self {
            cluster,
            administrator,
            observer,
            tenants,
            logs,
        })
    }

    /// Starts one tenant's process; it prepares by itself.
    ///
    /// # Errors
    /// When the process does not start.
    pub fn add_tenant(&mut self, plan: &TenantPlan, seed: u64) -> Result<()> {
        let index = self.logs.len();
        let log = self
            .cluster
            .options()
            .state_dir
            .join(format!("submitted-{index}.jsonl"));
        let arguments = [
            format!("--tenant={}", plan.tenant),
            format!("--workload={}", plan.workload),
            format!("--seed={seed}"),
            format!("--think-ms={}", plan.think_ms),
            format!("--evidence={}", log.display()),
        ];
        let name = format!("tenant-{}-{index}", plan.tenant);
        self.tenants.push(TenantProcess::new(self.cluster.role(
            "demo-tenant",
            &name,
            &arguments,
        )?));
        self.logs.push(log);
        Ok(())
    }

    /// Waits until all tenants are prepared, and lets them begin.
    ///
    /// # Errors
    /// When one fails to.
    pub async fn go(&mut self) -> Result<()> {
        self.ready().await?;
        self.tenants.iter_mut().try_for_each(TenantProcess::go)
    }

    /// Waits until all tenants are prepared.
    ///
    /// # Errors
    /// When one fails to.
    pub async fn ready(&mut self) -> Result<()> {
        for tenant in &mut self.tenants {
            tenant.ready(Duration::from_secs(180)).await?;
        }
        Ok(())
    }

    /// Waits until tenant number `index` has had `more` further requests answered.
    ///
    /// # Errors
    /// When it has not within `patience`.
    pub async fn requests(&self, index: usize, more: usize, patience: Duration) -> Result<()> {
        let (asked, from) = (Instant::now(), self.tenants[index].heard().latencies.len());
        while self.tenants[index].heard().latencies.len() < from + more {
            if asked.elapsed() > patience {
                let complaints = self.tenants[index].heard().complaints.join("; ");
                bail!("tenant {index} had not {more} more answers in {patience:?}: {complaints}");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// Stops all tenants in order.
    ///
    /// # Errors
    /// When one does not stop.
    pub async fn stop(&mut self) -> Result<Vec<Heard>> {
        let mut heard = Vec::new();
        for tenant in &mut self.tenants {
            heard.push(tenant.stop(Duration::from_secs(60)).await?);
        }
        Ok(heard)
    }

    /// Every live worker's use, as said from now on.
    ///
    /// # Errors
    /// When not all say it within a minute: a busy machine takes its time.
    pub async fn usage(&self) -> Result<Used> {
        let asked = Instant::now();
        self.observer.see(|seen| seen.usage.clear());
        while asked.elapsed() < Duration::from_secs(60) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let used = self.observer.see(|seen| seen.usage.clone());
            if used.len() >= self.cluster.options().workers {
                return Ok(used);
            }
        }
        bail!("not all workers say what is used of them");
    }

    /// Replays the record in a fresh process and gathers all evidence; `kills` are the caller's.
    ///
    /// # Errors
    /// When the replay fails or a log is missing.
    pub async fn collect(&self, kills: &[Kill]) -> Result<(ReplaySummary, Evidence)> {
        let dir = &self.cluster.options().state_dir;
        let order = dir.join("order.jsonl");
        let arguments = [
            "--json".to_owned(),
            format!("--order={}", order.display()),
            // A busy machine takes its time, and so does a store that has just lost a server.
            "--set=command.deadline=15s".to_owned(),
        ];
        let mut role = self.cluster.role("replay", "replay", &arguments)?;
        let stdout = role.take_stdout().context("the replay's output")?;
        let read = tokio::task::spawn_blocking(move || std::io::read_to_string(stdout));
        let said = read.await.context("reading the replay's output")??;
        role.finished(Duration::from_secs(60)).await?;
        let log = self.cluster.log("replay");
        let replayed: ReplaySummary = serde_json::from_str(&said).with_context(|| {
            let why = std::fs::read_to_string(log).unwrap_or_default();
            format!("the replay said {said:?} and {why}")
        })?;
        let mut evidence = Evidence {
            order: read_lines(&order)?,
            kills: kills.to_vec(),
            digest: replayed.digest.clone(),
            workers: replayed.workers.clone(),
            ..Evidence::default()
        };
        for log in self.logs.iter().filter(|log| log.exists()) {
            evidence.submitted.append(&mut read_lines(log)?);
        }
        for log in self.cluster.started_logs() {
            evidence.started.append(&mut read_lines(&log)?);
        }
        evidence.sort();
        Ok((replayed, evidence))
    }
}
