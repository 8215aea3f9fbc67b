//! The GPU worker role: start-up, choice of the device, shutdown.
//!
//! A worker owns one device and serves it to the cluster until it is asked to leave (it then
//! finishes what it was granted) or a leader has declared it lost.

mod choice;
mod make_device;
mod settings;

use std::future::Future;

use actors::worker::{ExitReason, WorkerOptions, serve};
use anyhow::{Result, bail};
use bus::BusSettings;
use tokio::signal::unix::{SignalKind, signal};

pub use actors::worker::{CompileLimits, Share};
pub use choice::{DeviceChoice, EngineChoice};
pub use settings::WorkerSettings;

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
    let make = make_device::maker(&settings);
    match serve(bus, options, make, shutdown).await? {
        ExitReason::Drained => Ok(()),
        ExitReason::Lost => bail!(DeclaredLost),
    }
}

/// Comes when the process is asked to end (SIGTERM or SIGINT).
pub async fn asked_to_end() {
    let listen = |kind| match signal(kind) {
        Ok(signals) => Some(signals),
        Err(error) => {
            tracing::error!(%error, "signals cannot be heard: this worker ends only by force");
            None
        }
    };
    let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
    if let (Some(mut terminate), Some(mut interrupt)) = (listen(terminate), listen(interrupt)) {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    } else {
        std::future::pending().await
    }
}
