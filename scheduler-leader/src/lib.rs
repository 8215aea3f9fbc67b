//! The scheduler-leader role: start-up, election, record.
//!
//! [`run`] is a whole process: it serves until its shutdown signal comes and the leadership is
//! handed over. What a candidate does meanwhile is in `actors::leader`; what it decides, in
//! `scheduler-leader-core`.

use std::future::Future;
use std::time::Duration;

use actors::leader::{Events, LeaderOptions, serve};
use anyhow::{Context, Result};
use bus::BusSettings;
use bus_schemas::{LeaderId, Tenant};
use telemetry::Telemetry;

pub use scheduler_leader_core::Config;

/// What a leader candidate has to be told.
#[derive(Clone)]
pub struct LeaderSettings {
    /// Where the broker listens; several URLs are separated by commas.
    pub url: String,
    /// The cluster.
    pub cluster: Tenant,
    /// User and password of the cluster's own user; none where the broker wants no login.
    pub login: Option<(String, String)>,
    /// User and password of the broker's system user, and the subject of its disconnect events
    /// (`$SYS.ACCOUNT.<account>.DISCONNECT`). Without, heartbeats alone tell of a leader's death.
    pub events: Option<((String, String), String)>,
    /// The candidate's id; random if not given.
    pub id: Option<LeaderId>,
    /// Durations and bounds of the protocol; the defaults if not given.
    pub config: Option<Config>,
    /// How long to wait for the first connection; none waits for ever.
    pub patience: Option<Duration>,
    /// Where spans and metrics go.
    pub telemetry: Telemetry,
}

impl LeaderSettings {
    /// Settings for a broker without logins, everything else as it usually is.
    #[must_use]
    pub fn new(url: impl Into<String>, cluster: Tenant) -> Self {
        Self {
            url: url.into(),
            cluster,
            login: None,
            events: None,
            id: None,
            config: None,
            patience: None,
            telemetry: Telemetry::off(),
        }
    }
}

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
    let bus = BusSettings {
        url: settings.url.clone(),
        login: settings.login,
        // Name and inbox are the role's own.
        name: String::new(),
        inbox: String::new(),
        pulse: None,
        patience: settings.patience,
    };
    let mut options = LeaderOptions::new(settings.cluster);
    options.id = settings.id;
    options.events = settings
        .events
        .map(|(login, subject)| Events { login, subject });
    options.telemetry = settings.telemetry;
    if let Some(config) = settings.config {
        options.core = config;
    }
    let url = settings.url;
    serve(bus, options, shutdown)
        .await
        .with_context(|| format!("the leader candidate at {url}"))
}
