//! Settings of the role.

use std::path::PathBuf;
use std::time::Duration;

use actors::worker::{CompileLimits, Share};
use bus_schemas::{GpuId, Incarnation, Tenant};
use device_cpu::Model;
use telemetry::Telemetry;

use crate::choice::{DeviceChoice, EngineChoice};

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
    /// Between two usage blocks.
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
