//! The settings of the worker role, except those of its device.

use std::path::PathBuf;
use std::time::Duration;

use bus::BusSettings;
use bus_schemas::{BrokerUrl, GpuId, Incarnation, Tenant};
use gpu_worker_core::sequencer::SequencerConfig;
use gpu_worker_core::sharing_domains::Share;
use telemetry::Telemetry;

use super::compiler::CompileLimits;

/// Settings of a worker.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The broker.
    pub bus: BusSettings,
    /// The cluster.
    pub cluster: Tenant,
    /// The stable number of the device in the cluster.
    pub gpu: GpuId,
    /// The id of this start of the worker; random if not given.
    pub incarnation: Option<Incarnation>,
    /// The worker's group; `default` if not given.
    pub group: Option<Tenant>,
    /// True if the worker takes only tenants bound to its group, one at a time.
    pub exclusive: bool,
    /// Scope in which sessions share equal memory.
    pub share: Share,
    /// Maximum bytes of unused copies kept in the host's memory, so that they need not be sent
    /// again. 0 keeps none, and the worker says that it answers no offers.
    pub chunk_memory: u64,
    /// Time, or up to twice that, after which unused copies are dropped; 0 never drops them.
    pub chunk_idle: Duration,
    /// Memory that sessions may hold together, percent of the device's. Above 100, memory that does
    /// not fit is swapped out.
    pub overcommit: u32,
    /// Time without work after which a session is idle and is swapped out first.
    pub swap_idle: Duration,
    /// Interval of usage blocks.
    pub metering: Duration,
    /// Path of the evidence log, with a line for each position that ended.
    pub evidence: Option<PathBuf>,
    /// Bounds and periods of the sequencer.
    pub sequencer: SequencerConfig,
    /// Limits for the preparation of one module.
    pub compile: CompileLimits,
    /// Destination of spans and metrics.
    pub telemetry: Telemetry,
}

impl WorkerSettings {
    /// Creates settings for a broker without logins, a cluster and a device number, with defaults
    /// for the rest.
    #[must_use]
    pub fn new(url: impl Into<BrokerUrl>, cluster: Tenant, gpu: GpuId) -> Self {
        Self {
            bus: BusSettings::new(url),
            cluster,
            gpu,
            incarnation: None,
            group: None,
            exclusive: false,
            share: Share::default(),
            chunk_memory: 1 << 30,
            chunk_idle: Duration::ZERO,
            overcommit: 100,
            swap_idle: Duration::from_secs(1),
            metering: Duration::from_secs(1),
            evidence: None,
            sequencer: SequencerConfig::default(),
            compile: CompileLimits::default(),
            telemetry: Telemetry::off(),
        }
    }
}
