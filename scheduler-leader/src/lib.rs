//! The scheduler-leader role: start-up, election, record.
//!
//! [`run`] is a whole process: it serves until its shutdown signal comes and the leadership is
//! handed over. `actors::leader` implements the candidate; `scheduler-leader-core` makes its
//! decisions.

use std::future::Future;

use actors::leader::serve;
use anyhow::{Context, Result};

pub use actors::leader::{Events, LeaderSettings};
pub use scheduler_leader_core::LeaderConfig;

/// Runs a candidate on this thread until `shutdown` completes and it has handed over. `shutdown`
/// is called inside the runtime, so that it can listen to signals.
///
/// # Errors
/// If there is no runtime, if `shutdown` cannot be made, if the broker refuses the login or a
/// subscription, or if an actor dies.
pub fn run<S, F>(settings: LeaderSettings, shutdown: S) -> Result<()>
where
    S: FnOnce() -> Result<F>,
    F: Future<Output = ()>,
{
    let system = actix::System::new();
    system.block_on(async {
        let shutdown = shutdown()?;
        serve_with(settings, shutdown).await
    })
}

/// Like [`run`], inside an existing actix system.
///
/// # Errors
/// As [`run`].
pub async fn serve_with(
    settings: LeaderSettings,
    shutdown: impl Future<Output = ()>,
) -> Result<()> {
    let url = settings.bus.url.clone();
    serve(settings, shutdown)
        .await
        .with_context(|| format!("the leader candidate at {url}"))
}
