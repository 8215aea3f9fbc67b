//! The process of a command or a role: its stop signals, and the parent with which it ends.

use std::future::Future;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

use crate::errors::ErrorCode;

/// Variable with the process id of the cluster that a role belongs to.
pub const PARENT: &str = "WARPLOOM_PARENT";

/// True if a local cluster started this process.
#[must_use]
pub fn has_parent() -> bool {
    std::env::var_os(PARENT).is_some()
}

/// Completes at SIGINT or SIGTERM.
///
/// # Errors
/// If signals cannot be listened to.
pub fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate()).context("listening to SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening to SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Runs some work, and drops it with everything that it has started when the process is told to
/// stop.
///
/// # Errors
/// The work's error, or E-STOPPED.
pub async fn unless_stopped<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let stop = stop_signal()?;
    tokio::select! {
        done = work => done,
        () = stop => bail!(ErrorCode::Stopped.failed("told to stop before it was done")),
    }
}

/// Makes a role of a local cluster drain and end when the cluster's process dies.
///
/// # Errors
/// If the kernel does not support parent-death signals, or if the parent has already ended.
pub fn follow_parent() -> Result<()> {
    let Some(parent) = std::env::var_os(PARENT) else {
        return Ok(());
    };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if now.as_deref().map(std::ffi::OsStr::new) != Some(&parent) {
        anyhow::bail!("the process that started this role is gone");
    }
    // Its files lie in the cluster's folder, and only their owner may read them.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    Ok(())
}
