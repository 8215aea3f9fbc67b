//! The settings of a client.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bus_schemas::BrokerUrl;
use telemetry::Telemetry;

/// How to join a cluster.
#[derive(Clone)]
pub struct ClientSettings {
    /// Where the broker listens, such as `nats://127.0.0.1:4222`; several, separated by commas.
    pub url: BrokerUrl,
    /// The tenant's user; none where the broker wants no login.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's name.
    pub tenant: String,
    /// How long connecting, opening a session and closing it may take.
    pub patience: Duration,
    /// How long a session waits for a broker, a leader or a worker that is silent before it fails, with a
    /// code that says which of them it was. Somebody who answers is waited for as long as it takes.
    pub deadline: Duration,
    /// Where to log the ops submitted, a line of JSON for each batch; none logs nothing.
    pub submitted: Option<PathBuf>,
    /// Where spans and metrics go; off unless set.
    pub telemetry: Telemetry,
}

impl ClientSettings {
    /// ClientSettings without a login, with 10 s of patience and a deadline of 30 s, without a log.
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

    /// User and password.
    pub(super) fn login(&self) -> Option<(String, String)> {
        let user = self.user.clone()?;
        Some((user, self.password.clone().unwrap_or_default()))
    }

    /// The same with a login.
    #[must_use]
    pub fn with_login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self.password = Some(password.into());
        self
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Logs must not give passwords away.
        f.debug_struct("ClientSettings")
            .field("url", &self.url)
            .field("user", &self.user)
            .field("cluster", &self.cluster)
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}
