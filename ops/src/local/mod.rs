//! A cluster on this host, every role a process of its own: what `up`, `demo`, `bench` and the
//! end-to-end tests start.

mod process;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use broker::{Broker, BrokerConfig, Lifetime, SyncInterval};
use bus_schemas::{ClusterSettings, KernelKey, LeaderId, Tenant, TenantSettings};

pub use process::Role;

use crate::admin::Administrator;
use crate::profiles::ProfileVersion;

/// What to start.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Holds everything the cluster writes.
    pub state_dir: PathBuf,
    /// The cluster's name.
    pub cluster: String,
    /// The `warploom` binary.
    pub binary: PathBuf,
    /// Leader candidates.
    pub leaders: usize,
    /// Workers.
    pub workers: usize,
    /// Tenants with their settings.
    pub tenants: Vec<(Tenant, TenantSettings)>,
    /// How the leaders order, where that is not left to what the cluster was set to before.
    pub order: Option<ClusterSettings>,
    /// What kernels are estimated to cost, pinned from the start; empty where nothing is pinned.
    pub profile: Vec<(KernelKey, u64)>,
    /// Settings handed to every role, as `key=value`.
    pub settings: Vec<(String, String)>,
    /// The nats-server binary, where it was set.
    pub server: Option<PathBuf>,
    /// The broker's port; a free one if none.
    pub port: Option<u16>,
    /// When JetStream writes reach the disk.
    pub sync: SyncInterval,
    /// Whether the broker has a system account (disconnect events).
    pub system_account: bool,
    /// Whether workers log what they start to `started-<gpu>.jsonl` in the state directory.
    pub evidence: bool,
}

impl LocalOptions {
    /// A cluster in a directory: one leader candidate, one worker, no tenants.
    ///
    /// # Errors
    /// When this program's own path cannot be told.
    pub fn new(state_dir: impl Into<PathBuf>, cluster: impl Into<String>) -> Result<Self> {
        Ok(Self {
            state_dir: state_dir.into(),
            cluster: cluster.into(),
            binary: std::env::current_exe().context("finding this program's own binary")?,
            leaders: 1,
            workers: 1,
            tenants: Vec::new(),
            order: None,
            profile: Vec::new(),
            settings: Vec::new(),
            server: None,
            port: None,
            sync: SyncInterval::Relaxed,
            system_account: true,
            evidence: false,
        })
    }
}

/// A running cluster. Dropped, all its processes die.
pub struct LocalCluster {
    /// The broker.
    pub broker: Broker,
    /// The leader candidates, each with its id.
    pub leaders: Vec<(LeaderId, Role)>,
    /// The workers.
    pub workers: Vec<Role>,
    options: LocalOptions,
    logs: Vec<PathBuf>,
}

impl LocalCluster {
    /// Starts the broker and all roles, writes the tenants, and waits until a leader leads all
    /// workers.
    ///
    /// # Errors
    /// When a process does not start or the cluster is not ready within 20 s.
    pub async fn start(options: LocalOptions) -> Result<Self> {
        let mut config = BrokerConfig::new(options.state_dir.join("broker"), &options.cluster);
        config.tenants = options
            .tenants
            .iter()
            .map(|(name, _)| name.to_string())
            .collect();
        config.server = options.server.clone();
        config.port = options.port;
        config.sync = options.sync;
        config.system_account = options.system_account;
        config.lifetime = Lifetime::Owned;
        let broker = Broker::start(&config)?;
        let mut cluster = Self {
            broker,
            leaders: Vec::new(),
            workers: Vec::new(),
            options,
            logs: Vec::new(),
        };
        let administrator = cluster.administrator().await?;
        for (tenant, settings) in &cluster.options.tenants {
            // A state directory that was used before keeps what its tenants were set to.
            if administrator.tenant(tenant).await?.is_some() {
                continue;
            }
            administrator.set_tenant(tenant, settings).await?;
        }
        if let Some(order) = &cluster.options.order {
            administrator.set_cluster(order).await?;
        }
        if !cluster.options.profile.is_empty() {
            let entries = cluster.options.profile.clone();
            administrator.pin(&ProfileVersion::of(entries)).await?;
        }
        for _ in 0..cluster.options.leaders {
            cluster.start_leader()?;
        }
        for gpu in 0..cluster.options.workers {
            cluster.start_worker(gpu as u32)?;
        }
        administrator
            .ready(cluster.options.workers, Duration::from_secs(20))
            .await?;
        Ok(cluster)
    }

    /// What the cluster was started with.
    #[must_use]
    pub fn options(&self) -> &LocalOptions {
        &self.options
    }

    /// Path of the credentials file.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.broker.credentials_path()
    }

    /// Where all workers started so far log what they start.
    #[must_use]
    pub fn started_logs(&self) -> Vec<PathBuf> {
        self.logs.clone()
    }

    /// A connection as administrator.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn administrator(&self) -> Result<Administrator> {
        Administrator::connect(self.broker.credentials()).await
    }

    /// Starts one more leader candidate.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start_leader(&mut self) -> Result<LeaderId> {
        // The standard library's hasher keys are the randomness at hand without a dependency.
        let id = LeaderId(RandomState::new().build_hasher().finish());
        let arguments = ["--id".to_owned(), id.to_string()];
        let role = self.role(
            "leader",
            &format!("leader-{}", self.leaders.len()),
            &arguments,
        )?;
        self.leaders.push((id, role));
        Ok(id)
    }

    /// The candidate of this id.
    pub fn leader(&mut self, id: LeaderId) -> Option<&mut Role> {
        self.leaders
            .iter_mut()
            .find(|(of, _)| *of == id)
            .map(|(_, role)| role)
    }

    /// Starts a worker for device number `gpu`.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn start_worker(&mut self, gpu: u32) -> Result<&mut Role> {
        let mut arguments = vec!["--set".to_owned(), format!("worker.gpu={gpu}")];
        if self.options.evidence {
            arguments.push("--evidence".into());
            // A restarted worker is another incarnation, with a log of its own.
            let log = format!("started-{gpu}-{}.jsonl", self.logs.len());
            let log = self.options.state_dir.join(log);
            arguments.push(log.display().to_string());
            self.logs.push(log);
        }
        let role = self.role("worker", &format!("worker-{gpu}"), &arguments)?;
        self.workers.push(role);
        Ok(self.workers.last_mut().expect("just pushed"))
    }

    /// Starts `warploom <command>` as part of this cluster, its stderr in `<name>.log`.
    ///
    /// # Errors
    /// When the process cannot be started.
    pub fn role(&self, command: &str, name: &str, arguments: &[String]) -> Result<Role> {
        let mut all: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let credentials = self.credentials();
        let fixed = [
            (
                "broker.credentials".to_owned(),
                credentials.display().to_string(),
            ),
            ("cluster.name".to_owned(), self.options.cluster.clone()),
        ];
        for (key, value) in fixed.iter().chain(&self.options.settings) {
            all.push("--set".into());
            all.push(format!("{key}={value}"));
        }
        all.extend_from_slice(arguments);
        Role::start(name, &self.options.binary, &all, &self.log(name))
    }

    /// Where a role's stderr goes.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.options.state_dir.join(format!("{name}.log"))
    }

    /// Drains workers, lets leaders hand over and stop; the broker goes on until dropped.
    ///
    /// # Errors
    /// When a process cannot be signalled or does not end within 15 s.
    pub fn drain(&mut self) -> Result<()> {
        let leaders = self.leaders.iter_mut().map(|(_, role)| role);
        for role in self.workers.iter_mut().chain(leaders) {
            role.stop(Duration::from_secs(15))?;
        }
        Ok(())
    }
}

/// The state directory where none is set: under the workspace's target directory for whoever
/// builds Warploom, else where the user's programs keep state.
#[must_use]
pub fn default_state_dir() -> PathBuf {
    if let Some(target) = broker::tools_dir(None)
        .parent()
        .filter(|dir| dir.ends_with("target"))
    {
        return target.join("warploom");
    }
    let home = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".local/state")));
    home.unwrap_or_else(std::env::temp_dir).join("warploom")
}
