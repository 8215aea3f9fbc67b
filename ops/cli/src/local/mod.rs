//! A cluster on this host, with one process for each role: `up`, `demo`, `bench` and the end-to-end
//! tests start it.

mod controller;
mod controllers;
mod disk_supervision;
mod disks;
mod draining;
mod metrics;
mod process;
mod restarts;
mod scratch;
mod supervision;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use admin::Administrator;
use admin::errors::UsageError;
use admin::evidence::EvidenceKey;
use admin::profiles::ProfileVersion;
use admin::settings::Settings;
use admin::state_dir::Lock;
use anyhow::{Context, Result};
use broker::{Broker, BrokerConfig, BrokerError, Lifetime, Routes, SyncInterval};
use bus_schemas::{ClusterSettings, KernelKey, LeaderId, Tenant, TenantSettings};

use telemetry::{Role, TelemetrySettings};

pub use controller::{Controller, ControllerSaid};
pub use disks::disk_fault;
pub use process::RoleProcess;
pub use scratch::Scratch;

use disks::{Announcer, Disk};
use restarts::Restarts;

/// Time that the broker of a killed cluster may take to end.
const ORPHANED: Duration = Duration::from_secs(20);
/// Maximum number of processes of one role.
const MOST_ROLES: usize = 256;

/// Options of a local cluster.
#[derive(Debug, Clone)]
pub struct LocalOptions {
    /// Folder for everything that the cluster writes.
    pub state_dir: PathBuf,
    /// The cluster's name.
    pub cluster: String,
    /// The `warploom` binary.
    pub binary: PathBuf,
    /// Number of nats-servers: 1, or 3 or 5 that replicate what they store.
    pub brokers: usize,
    /// Routes among several nats-servers; free ports if `None`.
    pub routes: Option<Routes>,
    /// Leader candidates.
    pub leaders: usize,
    /// Workers.
    pub workers: usize,
    /// Controllers.
    pub controllers: usize,
    /// The first port of this host at which metrics are read: the leaders', then the workers', then the tracer's.
    pub metrics: Option<u16>,
    /// Tenants with their settings.
    pub tenants: Vec<(Tenant, TenantSettings)>,
    /// The settings that leaders order by; `None` keeps those that the cluster already has.
    pub order: Option<ClusterSettings>,
    /// Estimated costs of kernels, pinned from the start; empty if nothing is pinned.
    pub profile: Vec<(KernelKey, u64)>,
    /// Settings handed to every role, as `key=value`.
    pub settings: Vec<(String, String)>,
    /// The nats-server binary, if it was set.
    pub server: Option<PathBuf>,
    /// The port of the broker, or of its first server; free ports if `None`.
    pub port: Option<u16>,
    /// Interval at which JetStream syncs writes to disk.
    pub sync: SyncInterval,
    /// True if the broker has a system account (disconnect events).
    pub system_account: bool,
    /// True if workers log each position to `started-<gpu>.jsonl` in the state directory.
    pub evidence: bool,
    /// URLs with which roles reach the broker, by the role's name; other roles use the broker's own
    /// URL.
    pub links: BTreeMap<String, String>,
    /// Maximum time until a leader leads all workers.
    pub deadline: Duration,
}

impl LocalOptions {
    /// A cluster in a directory: one leader candidate, one worker, no tenants. [`Self::configure`]
    /// adds the user's settings.
    ///
    /// # Errors
    /// If this program's own path is unknown.
    pub fn new(state_dir: impl Into<PathBuf>, cluster: impl Into<String>) -> Result<Self> {
        Ok(Self {
            state_dir: state_dir.into(),
            cluster: cluster.into(),
            binary: std::env::current_exe().context("finding this program's own binary")?,
            brokers: 1,
            routes: None,
            leaders: 1,
            workers: 1,
            controllers: 0,
            metrics: None,
            tenants: Vec::new(),
            order: None,
            profile: Vec::new(),
            settings: Vec::new(),
            server: None,
            port: None,
            sync: SyncInterval::Relaxed,
            system_account: true,
            evidence: false,
            links: BTreeMap::new(),
            deadline: Duration::from_secs(60),
        })
    }

    /// Refuses more processes than one machine can use.
    fn check_roles(&self) -> Result<(), UsageError> {
        for (what, count) in [
            ("leaders", self.leaders),
            ("workers", self.workers),
            ("controllers", self.controllers),
        ] {
            if count > MOST_ROLES {
                return Err(UsageError(format!(
                    "{count} {what}: a cluster on one machine has {MOST_ROLES} at most"
                )));
            }
        }
        Ok(())
    }

    /// True if the cluster has a tracer: telemetry is exported or read, by the settings or by this process's
    /// environment, and programs may report their requests.
    fn is_traced(&self) -> bool {
        if self.setting("telemetry.requests") == Some("off") {
            return false;
        }
        let endpoint = self.setting("telemetry.otlp").unwrap_or_default();
        let chosen = TelemetrySettings::from_environment(Role::Tracer, &self.cluster, endpoint);
        let page = self.metrics.is_some() || self.setting("tracer.metrics").is_some();
        page || !chosen.is_off()
    }

    /// The last value of a setting, unless it is empty.
    fn setting(&self, key: &str) -> Option<&str> {
        let mut settings = self.settings.iter().rev();
        let set = settings.find(|(of, _)| of == key)?;
        Some(set.1.as_str()).filter(|value| !value.is_empty())
    }

    /// Passes on the settings for roles, programs and the broker's binary. Settings that the
    /// cluster sets itself, such as each worker's number, are not passed on.
    pub fn configure(&mut self, settings: &Settings) {
        self.server = settings.given("broker.server").map(Into::into);
        let own = ["broker.", "cluster.", "up.", "run.", "worker.gpu"];
        let others = settings
            .iter()
            .filter(|(key, _, _)| !own.iter().any(|section| key.starts_with(section)));
        let others = others.map(|(key, value, _)| (key.to_owned(), value.to_owned()));
        self.settings.extend(others);
    }
}

/// A running cluster. All its processes are killed when it is dropped.
pub struct LocalCluster {
    /// The broker.
    pub broker: Broker,
    /// The leader candidates, each with its id.
    pub leaders: Vec<(LeaderId, RoleProcess)>,
    /// The workers.
    pub workers: Vec<RoleProcess>,
    /// The controllers.
    pub controllers: Vec<Controller>,
    /// The tracer, if the cluster's requests are traced.
    pub tracer: Option<RoleProcess>,
    options: LocalOptions,
    logs: Vec<PathBuf>,
    /// Number of leader candidates started so far, for their names.
    candidates: usize,
    /// Restart state of children that died, by name.
    restarts: BTreeMap<String, Restarts>,
    /// Messages for people about events during the start of the cluster.
    unsaid: Vec<String>,
    /// Time of the last start of each of the broker's servers.
    brokers_started: Vec<Instant>,
    /// The disk of each server.
    disks: Vec<Disk>,
    announcer: Announcer,
    /// Dropped last: its holder owns the state folder.
    _lock: Lock,
}

impl LocalCluster {
    /// Starts the broker and all roles, writes the tenants, and waits until a leader leads all
    /// workers.
    ///
    /// # Errors
    /// If a process does not start, keeps dying, or the cluster is not ready within
    /// [`LocalOptions::deadline`].
    pub async fn start(options: LocalOptions) -> Result<Self> {
        options.check_roles()?;
        options.check_metrics()?;
        broker::private_dir(&options.state_dir)?;
        let lock = Lock::take(&options.state_dir)?;
        let mut config = BrokerConfig::new(options.state_dir.join("broker"), &options.cluster);
        config.tenants = options
            .tenants
            .iter()
            .map(|(name, _)| name.to_string())
            .collect();
        config.servers = options.brokers;
        config.routes = options.routes.clone();
        config.server = options.server.clone();
        config.port = options.port;
        config.sync = options.sync;
        config.system_account = options.system_account;
        config.lifetime = Lifetime::Owned;
        let key = EvidenceKey::of(&options.state_dir)?;
        config.evidence_key = Some(key.public());
        let (broker, brokers) = (start_broker(&config).await?, options.brokers);
        let speaker = Administrator::connect(broker.credentials()).await?;
        let announcer = Announcer::start(speaker, &options.state_dir);
        let mut cluster = Self {
            broker,
            leaders: Vec::new(),
            workers: Vec::new(),
            controllers: Vec::new(),
            tracer: None,
            options,
            logs: Vec::new(),
            candidates: 0,
            restarts: BTreeMap::new(),
            unsaid: Vec::new(),
            brokers_started: vec![Instant::now(); brokers],
            disks: (0..brokers).map(|_| Disk::default()).collect(),
            announcer,
            _lock: lock,
        };
        let deadline = cluster.options.deadline;
        let administrator = Administrator::patient(cluster.broker.credentials(), deadline).await?;
        administrator.stored_everywhere(deadline).await?;
        for (tenant, settings) in &cluster.options.tenants {
            // A state directory that was used before keeps its tenants' settings.
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
        let ready = administrator.ready(cluster.options.workers, cluster.options.deadline);
        cluster.started(ready).await?;
        for _ in 0..cluster.options.controllers {
            cluster.start_controller().await?;
        }
        cluster.start_tracer()?;
        Ok(cluster)
    }

    /// The options that the cluster was started with.
    #[must_use]
    pub fn options(&self) -> &LocalOptions {
        &self.options
    }

    /// Makes processes that are started from now on run this `warploom`, for example another build.
    pub fn use_binary(&mut self, binary: impl Into<PathBuf>) {
        self.options.binary = binary.into();
    }

    /// Path of the credentials file.
    #[must_use]
    pub fn credentials(&self) -> PathBuf {
        self.broker.credentials_path()
    }

    /// The evidence logs of all workers started so far.
    #[must_use]
    pub fn started_logs(&self) -> Vec<PathBuf> {
        self.logs.clone()
    }

    /// A connection as administrator.
    ///
    /// # Errors
    /// If the broker does not answer.
    pub async fn administrator(&self) -> Result<Administrator> {
        Administrator::connect(self.broker.credentials()).await
    }

    /// Starts one more leader candidate.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start_leader(&mut self) -> Result<LeaderId> {
        let (id, name) = (new_id(), format!("leader-{}", self.candidates));
        let role = self.leader_role(&name, id)?;
        self.candidates += 1;
        self.leaders.push((id, role));
        Ok(id)
    }

    fn leader_role(&self, name: &str, id: LeaderId) -> Result<RoleProcess> {
        let mut arguments = vec!["--id".to_owned(), id.to_string()];
        arguments.extend(self.options.metrics_of("leader", name));
        if self.tracer_asks() {
            arguments.extend(["--set".to_owned(), "telemetry.requests=on".to_owned()]);
        }
        self.role("leader", name, &arguments)
    }

    /// The candidate of this id.
    pub fn leader(&mut self, id: LeaderId) -> Option<&mut RoleProcess> {
        self.leaders
            .iter_mut()
            .find(|(of, _)| *of == id)
            .map(|(_, role)| role)
    }

    /// Starts a worker for device number `gpu`.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn start_worker(&mut self, gpu: u32) -> Result<&mut RoleProcess> {
        let role = self.worker_role(gpu)?;
        self.workers.push(role);
        Ok(self.workers.last_mut().expect("just pushed"))
    }

    fn worker_role(&mut self, gpu: u32) -> Result<RoleProcess> {
        let mut arguments = vec!["--set".to_owned(), format!("worker.gpu={gpu}")];
        if self.options.evidence {
            arguments.push("--evidence".into());
            // A restarted worker is another incarnation, with its own log.
            let log = format!("started-{gpu}-{}.jsonl", self.logs.len());
            let log = self.options.state_dir.join(log);
            arguments.push(log.display().to_string());
            self.logs.push(log);
        }
        let name = format!("worker-{gpu}");
        arguments.extend(self.options.metrics_of("worker", &name));
        let role = self.role("worker", &name, &arguments)?;
        Ok(role.of_device(gpu))
    }

    /// Starts the tracer, if the cluster's requests are traced.
    fn start_tracer(&mut self) -> Result<()> {
        if self.options.is_traced() {
            self.tracer = Some(self.tracer_role()?);
        }
        Ok(())
    }

    fn tracer_role(&self) -> Result<RoleProcess> {
        let arguments = self.options.metrics_of("tracer", "tracer");
        self.role("tracer", "tracer", &arguments)
    }

    /// True if the leaders must be told that there is a tracer.
    fn tracer_asks(&self) -> bool {
        let set = self.options.setting("telemetry.requests");
        self.options.is_traced() && matches!(set, None | Some("auto"))
    }

    /// Starts `warploom <command>` as part of this cluster, with its stderr in `<name>.log`.
    ///
    /// # Errors
    /// If the process cannot be started.
    pub fn role(&self, command: &str, name: &str, arguments: &[String]) -> Result<RoleProcess> {
        let mut all: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let credentials = self.credentials();
        let link = self.options.links.get(name);
        // Passed even if it equals that of the credentials, as the environment may have another.
        let url = link.map_or(self.broker.url(), String::as_str);
        let fixed = [
            (
                "broker.credentials".to_owned(),
                credentials.display().to_string(),
            ),
            ("cluster.name".to_owned(), self.options.cluster.clone()),
            ("broker.url".to_owned(), url.to_owned()),
        ];
        all.extend(flags(fixed.iter().chain(&self.options.settings), arguments));
        all.extend_from_slice(arguments);
        RoleProcess::start(name, &self.options.binary, &all, &self.log(name))
    }

    /// The log file with a role's stderr.
    #[must_use]
    pub fn log(&self, name: &str) -> PathBuf {
        self.options.state_dir.join(format!("{name}.log"))
    }
}

/// Settings as flags, each once: the last one if it is given more than once, and without those
/// among the arguments.
fn flags<'s>(
    settings: impl Iterator<Item = &'s (String, String)>,
    arguments: &[String],
) -> Vec<String> {
    let settings: BTreeMap<_, _> = settings.map(|(key, value)| (key, value)).collect();
    let given = |key: &str| {
        let mut words = arguments
            .iter()
            .map(|word| word.strip_prefix("--set=").unwrap_or(word));
        words.any(|word| word.split_once('=').is_some_and(|(of, _)| of == key))
    };
    let left = settings.into_iter().filter(|(key, _)| !given(key));
    left.flat_map(|(key, value)| ["--set".to_owned(), format!("{key}={value}")])
        .collect()
}

/// Starts the broker. The folder belongs to this cluster, and the broker of a killed cluster ends
/// by itself within moments, so the start waits for that.
async fn start_broker(config: &BrokerConfig) -> Result<Broker> {
    let asked = Instant::now();
    loop {
        match Broker::start(config) {
            Err(BrokerError::Running { .. }) if asked.elapsed() < ORPHANED => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            started => return Ok(started?),
        }
    }
}

/// An id for a leader candidate.
fn new_id() -> LeaderId {
    // The standard library's hasher keys are a source of randomness without a dependency.
    LeaderId(RandomState::new().build_hasher().finish())
}
