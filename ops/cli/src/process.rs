//! The process of a command or a role: the signals that stop it, and the process that it ends with.

use std::future::Future;

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{SignalKind, signal};

/// Names the process of the cluster that a role belongs to.
pub(crate) const PARENT: &str = "WARPLOOM_PARENT";

/// Whether a local cluster started this process.
pub(crate) fn has_parent() -> bool {
    std::env::var_os(PARENT).is_some()
}

/// Completes at SIGINT or SIGTERM.
///
/// # Errors
/// When signals cannot be listened to.
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

/// Does some work, which is dropped with all that it has started when the process is told to stop.
///
/// # Errors
/// The work's, or E-STOPPED.
pub async fn unless_stopped<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let stop = stop_signal()?;
    tokio::select! {
        done = work => done,
        () = stop => bail!("E-STOPPED: told to stop before it was done"),
    }
}

/// A role that a local cluster started ends, drained, when the cluster's process dies.
///
/// # Errors
/// When the kernel does not know parent-death signals, or the parent is gone already.
pub fn follow_parent() -> Result<()> {
    let Some(parent) = std::env::var_os(PARENT) else {
        return Ok(());
    };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if now.as_deref().map(std::ffi::OsStr::new) != Some(&parent) {
        anyhow::bail!("the process that started this role is gone");
    }
    // What it writes lies in the cluster's folder, and is its owner's only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    Ok(())
}
