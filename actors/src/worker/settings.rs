//! The settings of the worker role, but for those of its device.

use std::path::PathBuf;
use std::time::Duration;

use bus::BusSettings;
use bus_schemas::{BrokerUrl, GpuId, Incarnation, Tenant};
use gpu_worker_core::sequencer::Config;
use telemetry::Telemetry;

use super::compiler::CompileLimits;
use super::sharing_domains::Share;

/// How a worker is set.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// The broker.
    pub bus: BusSettings,
    /// The cluster.
    pub cluster: Tenant,
    /// The stable number of the device in the cluster.
    pub gpu: GpuId,
    /// This start of the worker; random if not given.
    pub incarnation: Option<Incarnation>,
    /// The group of workers that it is in; by default `default`.
    pub group: Option<Tenant>,
    /// It takes only tenants bound to its group, and one at a time.
    pub exclusive: bool,
    /// With whom sessions share what they hold alike.
    pub share: Share,
    /// Bytes of copies that are kept in the host's memory though no session uses them, so that they need not
    /// be sent again; 0 to keep none and answer no offer.
    pub chunk_memory: u64,
    /// Copies that no session used or wanted for so long, or for twice that, go; never where it is 0.
    pub chunk_idle: Duration,
    /// What sessions may hold together, percent of what fits on the device: above 100 what does not fit
    /// is swapped out.
    pub overcommit: u32,
    /// A session that ran nothing for so long is idle, and leaves the device first.
    pub swap_idle: Duration,
    /// Between two blocks of usage.
    pub metering: Duration,
    /// Where a line is appended for every position that ended.
    pub evidence: Option<PathBuf>,
    /// Bounds and periods of the sequencer.
    pub sequencer: Config,
    /// What preparing one module may take.
    pub compile: CompileLimits,
    /// Where spans and metrics go.
    pub telemetry: Telemetry,
}

impl WorkerSettings {
    /// Settings for a broker without logins, a cluster and a device number, everything else as it
    /// usually is.
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
            sequencer: Config::default(),
            compile: CompileLimits::default(),
            telemetry: Telemetry::off(),
        }
    }
}
