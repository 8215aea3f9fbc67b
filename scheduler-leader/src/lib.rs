//! The scheduler-leader role: start-up, election, record.
//!
//! [`run`] is a whole process: it serves until its shutdown signal comes and the leadership is
//! handed over. What a candidate does meanwhile is in `actors::leader`; what it decides, in
//! `scheduler-leader-core`.

use std::future::Future;

use actors::leader::serve;
use anyhow::{Context, Result};

pub use actors::leader::{Events, LeaderSettings};
pub use scheduler_leader_core::Config;

/// Runs a candidate on this thread until `shutdown` completes and it has handed over. `shutdown`
/// is called inside the runtime, so that it can listen to signals.
///
/// # Errors
/// When there is no runtime, when `shutdown` cannot be made, when the broker refuses the login or
/// a subscription, or when an actor dies.
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

/// As [`run`], inside an actix system that is there already.
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
