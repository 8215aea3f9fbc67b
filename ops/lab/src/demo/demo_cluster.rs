//! A test cluster with tenants at work on it, and all evidence afterwards. The demo and the end-to-end
//! tests use it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use admin::Administrator;
use admin::evidence::{Evidence, Kill, read_lines};
use anyhow::{Context, Result, bail};
use test_cluster::{Processes, TestCluster, said_by, within};

use super::observer::RunObserver;
use super::plan::TenantPlan;
use super::tenant::{Heard, TenantProcess};
use super::{ReplaySummary, UsageByWorker};
use warploom_cli::local::LocalOptions;

/// A cluster with tenants.
pub struct DemoCluster {
    /// The cluster's processes.
    pub cluster: TestCluster<Processes>,
    /// A connection as administrator.
    pub administrator: Administrator,
    /// Observations of the bus.
    pub observer: RunObserver,
    /// The tenants' processes, in the plans' order.
    pub tenants: Vec<TenantProcess>,
    logs: Vec<PathBuf>,
}

impl DemoCluster {
    /// Starts the cluster with these tenants' settings and the changes of `adjust`, but without tenants.
    ///
    /// # Errors
    /// If something does not start.
    pub async fn start(
        name: &str,
        plans: &[TenantPlan],
        adjust: impl FnOnce(&mut LocalOptions),
    ) -> Result<Self> {
        let started = TestCluster::start_processes(name, |options| {
            options.evidence = true;
            options.tenants = plans
                .iter()
                .map(|plan| (plan.tenant.clone(), plan.settings.clone()))
                .collect();
            adjust(options);
            Ok(())
        });
        let cluster = started.await?;
        let administrator = cluster.administrator().await?;
        let observer = RunObserver::start(&administrator).await?;
        let (tenants, logs) = (Vec::new(), Vec::new());
        Ok(Self {
            cluster,
            administrator,
            observer,
            tenants,
            logs,
        })
    }

    /// Starts one tenant's process, which prepares by itself.
    ///
    /// # Errors
    /// If the process does not start.
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
    /// If one fails to.
    pub async fn go(&mut self) -> Result<()> {
        self.ready().await?;
        self.tenants.iter_mut().try_for_each(TenantProcess::go)
    }

    /// Waits until all tenants are prepared.
    ///
    /// # Errors
    /// If one fails to.
    pub async fn ready(&mut self) -> Result<()> {
        for tenant in &mut self.tenants {
            tenant.ready(Duration::from_secs(180)).await?;
        }
        Ok(())
    }

    /// Waits until tenant number `index` has had `more` further requests answered.
    ///
    /// # Errors
    /// If it has not within `patience`.
    pub async fn requests(&self, index: usize, more: usize, patience: Duration) -> Result<()> {
        let tenant = &self.tenants[index];
        let wanted = tenant.heard().latencies.len() + more;
        let answered = || (tenant.heard().latencies.len() >= wanted).then_some(());
        if within(patience, answered).await.is_none() {
            let complaints = tenant.heard().complaints.join("; ");
            bail!("tenant {index} had not {more} more answers in {patience:?}: {complaints}");
        }
        Ok(())
    }

    /// Stops all tenants in order.
    ///
    /// # Errors
    /// If one does not stop.
    pub async fn stop(&mut self) -> Result<Vec<Heard>> {
        let mut heard = Vec::new();
        for tenant in &mut self.tenants {
            heard.push(tenant.stop(Duration::from_secs(60)).await?);
        }
        Ok(heard)
    }

    /// The use of every live worker, as reported from now on.
    ///
    /// # Errors
    /// If not all report it within a minute: a busy machine takes its time.
    pub async fn usage(&self) -> Result<UsageByWorker> {
        self.observer.see(|seen| seen.usage.clear());
        let of_all = || {
            let used = self.observer.see(|seen| seen.usage.clone());
            (used.len() >= self.cluster.options().workers).then_some(used)
        };
        let used = within(Duration::from_secs(60), of_all).await;
        used.context("not all workers say what is used of them")
    }

    /// Replays the record in a fresh process and gathers all evidence; `kills` are the caller's.
    ///
    /// # Errors
    /// If the replay fails or a log is missing.
    pub async fn collect(&self, kills: &[Kill]) -> Result<(ReplaySummary, Evidence)> {
        let dir = &self.cluster.options().state_dir;
        let order = dir.join("order.jsonl");
        let arguments = [
            "--json".to_owned(),
            format!("--order={}", order.display()),
            // A busy machine takes its time, and so does a store that has just lost a server.
            "--set=command.deadline=15s".to_owned(),
        ];
        let patience = Duration::from_secs(60);
        let replayed = said_by(&self.cluster, "replay", "replay", &arguments, patience);
        let replayed: ReplaySummary = replayed.await?;
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

    /// Writes the record beside the evidence, for a later replay or `why`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub async fn export_record(&self, dir: &Path) -> Result<()> {
        let dir = std::path::absolute(dir)?;
        let arguments = [
            "export".to_owned(),
            format!("--out={}", dir.join("order.record").display()),
            "--json".to_owned(),
        ];
        let patience = Duration::from_secs(60);
        let written = said_by(&self.cluster, "order", "order", &arguments, patience);
        let written: serde_json::Value = written.await?;
        anyhow::ensure!(written.is_object(), "the record was not written: {written}");
        Ok(())
    }
}
