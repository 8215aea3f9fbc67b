//! The GPU worker role: start-up, choice of the device, shutdown.
//!
//! A worker owns one device and serves it to the cluster until it is asked to leave (it then finishes its
//! grants) or a leader has declared it lost.

mod choice;
mod make_device;

use std::future::Future;

use actors::worker::{ExitReason, WorkerError, serve};
use anyhow::{Result, bail};
use tokio::signal::unix::{SignalKind, signal};

pub use actors::worker::{CompileLimits, Share, WorkerSettings};
pub use choice::{DeviceChoice, EngineChoice};
pub use make_device::{DeviceSettings, SwapSettings};

/// The error after a leader declared the worker lost, which is final for this incarnation: its sessions are
/// over. A restart makes another worker, which gets new sessions.
#[derive(Debug, thiserror::Error)]
#[error("a leader declared this worker lost; start it again")]
pub struct DeclaredLost;

/// The error after the device stopped serving, such as a GPU with a context that a kernel's fault has ended.
/// The worker's sessions are over. A fresh process may be another worker on the device.
#[derive(Debug, thiserror::Error)]
#[error("the device was lost: {0}")]
pub struct DeviceLost(WorkerError);

/// The error of a worker that came with the gpu number of a live worker. It never joined the cluster.
#[derive(Debug, thiserror::Error)]
#[error("a live worker has this gpu number")]
pub struct NumberTaken;

/// Serves until `shutdown` comes and all granted work is done. Runs on the calling thread, in an actix system
/// of its own.
///
/// # Errors
/// When the worker cannot start, its device is lost ([`DeviceLost`]), a leader declares the worker lost
/// ([`DeclaredLost`]), or its gpu number is taken ([`NumberTaken`]).
pub fn run(
    settings: WorkerSettings,
    device: DeviceSettings,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    actix::System::new().block_on(run_in_system(settings, device, shutdown))
}

/// As [`run`], inside an existing actix system.
///
/// # Errors
/// As [`run`].
pub async fn run_in_system(
    settings: WorkerSettings,
    device: DeviceSettings,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    match serve(settings, device.maker(), shutdown).await {
        Ok(ExitReason::Drained) => Ok(()),
        Ok(ExitReason::Lost) => bail!(DeclaredLost),
        Ok(ExitReason::NumberTaken) => bail!(NumberTaken),
        Err(error @ WorkerError::DeviceLost(_)) => bail!(DeviceLost(error)),
        Err(error) => Err(error.into()),
    }
}

/// Completes when the process is asked to end (SIGTERM or SIGINT).
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
