//! The GPU worker role: start-up, choice of the device, shutdown.
//!
//! A worker owns one device and serves it to the cluster until it is asked to leave (it then
//! finishes what it was granted) or a leader has declared it lost.

mod choice;

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use actors::telemetry::Telemetry;
use actors::worker::{ExitReason, WorkerOptions, serve};
use anyhow::{Result, bail};
use bus::BusSettings;
use bus_schemas::{GpuId, Incarnation, Tenant};
use tokio::signal::unix::{SignalKind, signal};

pub use actors::worker::{CompileLimits, Share};
pub use choice::{DeviceChoice, EngineChoice};
use device_cpu::Model;

/// How a worker is set.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Where the broker listens; several URLs are separated by commas.
    pub url: String,
    /// The cluster's user and password; none where the broker wants no login.
    pub login: Option<(String, String)>,
    /// The cluster.
    pub cluster: Tenant,
    /// The stable number of the device in the cluster.
    pub gpu: GpuId,
    /// This start of the worker; random if not given.
    pub incarnation: Option<Incarnation>,
    /// Which device.
    pub device: DeviceChoice,
    /// The GPU's number on this host.
    pub ordinal: u32,
    /// Memory that sessions may have together, bytes; by default what the device has.
    pub capacity: Option<u64>,
    /// The group of workers that it is in; by default `default`.
    pub group: Option<Tenant>,
    /// It takes only tenants bound to its group, and one at a time.
    pub exclusive: bool,
    /// Memory kept free, bytes; by default 2 GiB on a GPU and none on a CPU.
    pub reserve: Option<u64>,
    /// With whom sessions share what they hold alike.
    pub share: Share,
    /// Between two blocks of the accounts.
    pub metering: Duration,
    /// Threads of the CPU device; 0 is one per core.
    pub threads: usize,
    /// A kernel that runs longer on the CPU device is ended.
    pub watchdog: Duration,
    /// What runs kernels on the CPU device.
    pub engine: EngineChoice,
    /// What a CPU device says of itself.
    pub model: Model,
    /// What preparing one module for the CPU device may take.
    pub compile: CompileLimits,
    /// How long to wait for the first connection; none waits for ever.
    pub patience: Option<Duration>,
    /// Where a line is appended for every position that ended.
    pub evidence: Option<PathBuf>,
    /// Where spans and metrics go.
    pub telemetry: Telemetry,
}

impl WorkerSettings {
    /// Settings for a broker, cluster and device number, everything else as it usually is.
    #[must_use]
    pub fn new(url: impl Into<String>, cluster: Tenant, gpu: GpuId) -> Self {
        Self {
            url: url.into(),
            login: None,
            cluster,
            gpu,
            incarnation: None,
            device: DeviceChoice::Auto,
            ordinal: 0,
            capacity: None,
            group: None,
            exclusive: false,
            reserve: None,
            share: Share::default(),
            metering: Duration::from_secs(1),
            threads: 1,
            watchdog: Duration::from_secs(30),
            engine: EngineChoice::Native,
            model: Model::default(),
            compile: CompileLimits::default(),
            patience: None,
            evidence: None,
            telemetry: Telemetry::off(),
        }
    }
}

/// A leader declared the worker lost, which is final for this start of it: its sessions are over.
/// Started again it is another worker, and is given new ones.
#[derive(Debug, thiserror::Error)]
#[error("a leader declared this worker lost; start it again")]
pub struct DeclaredLost;

/// Serves until `shutdown` comes and what was granted is done. Runs on the calling thread, in an
/// actix system of its own.
///
/// # Errors
/// When the worker cannot start, its device dies, or a leader declares it lost ([`DeclaredLost`]).
pub fn run(settings: WorkerSettings, shutdown: impl Future<Output = ()>) -> Result<()> {
    actix::System::new().block_on(run_in_system(settings, shutdown))
}

/// As [`run`], inside an actix system that there is already.
///
/// # Errors
/// As [`run`].
pub async fn run_in_system(
    settings: WorkerSettings,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let mut options = WorkerOptions::new(settings.cluster.clone(), settings.gpu);
    options.incarnation = settings.incarnation;
    options.group = settings.group.clone();
    options.exclusive = settings.exclusive;
    options.share = settings.share;
    options.evidence = settings.evidence.clone();
    options.metering = settings.metering;
    options.compile = settings.compile;
    options.telemetry = settings.telemetry.clone();
    let bus = BusSettings {
        url: settings.url.clone(),
        login: settings.login.clone(),
        name: String::new(),
        inbox: String::new(),
        pulse: None,
        patience: settings.patience,
    };
    let make = choice::maker(&settings);
    match serve(bus, options, make, shutdown).await? {
        ExitReason::Drained => Ok(()),
        ExitReason::Lost => bail!(DeclaredLost),
    }
}

/// Comes when the process is asked to end (SIGTERM or SIGINT).
pub async fn asked_to_end() {
    let heard = |kind| match signal(kind) {
        Ok(heard) => Some(heard),
        Err(error) => {
            tracing::error!(%error, "signals cannot be heard: this worker ends only by force");
            None
        }
    };
    let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
    if let (Some(mut terminate), Some(mut interrupt)) = (heard(terminate), heard(interrupt)) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    } else {
        std::future::pending().await
    }
}
