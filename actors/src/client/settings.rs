//! The settings of a client.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bus_schemas::BrokerUrl;
use telemetry::Telemetry;

/// Settings for joining a cluster.
#[derive(Clone)]
pub struct ClientSettings {
    /// Addresses of the broker, such as `nats://127.0.0.1:4222`, separated by commas.
    pub url: BrokerUrl,
    /// The tenant's user; `None` if the broker requires no login.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<String>,
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's name.
    pub tenant: String,
    /// Timeout for connecting, for opening a session and for closing it.
    pub patience: Duration,
    /// Maximum time that a session waits for a silent broker, leader or worker before it fails. The
    /// error code names the silent one. The wait for a peer that answers has no limit.
    pub deadline: Duration,
    /// Path of the log of submitted ops, a line of JSON for each batch; `None` disables the log.
    pub submitted: Option<PathBuf>,
    /// Destination of spans and metrics; off by default.
    pub telemetry: Telemetry,
}

impl ClientSettings {
    /// Creates settings without a login and without a log, with a patience of 10 s and a deadline
    /// of 30 s.
    pub fn new(
        url: impl Into<BrokerUrl>,
        cluster: impl Into<String>,
        tenant: impl Into<String>,
    ) -> Self {
        Self {
            url: url.into(),
            user: None,
            password: None,
            cluster: cluster.into(),
            tenant: tenant.into(),
            patience: Duration::from_secs(10),
            deadline: Duration::from_secs(30),
            submitted: None,
            telemetry: Telemetry::off(),
        }
    }

    /// Returns user and password.
    pub(super) fn login(&self) -> Option<(String, String)> {
        let user = self.user.clone()?;
        Some((user, self.password.clone().unwrap_or_default()))
    }

    /// Returns the settings with a login.
    #[must_use]
    pub fn with_login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self.password = Some(password.into());
        self
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Logs must not reveal passwords.
        f.debug_struct("ClientSettings")
            .field("url", &self.url)
            .field("user", &self.user)
            .field("cluster", &self.cluster)
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}
