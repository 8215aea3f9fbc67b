//! The Warploom client: a virtual device over NATS.
//!
//! A [`Client`] is one connection to a cluster; each [`Session`] it opens is a device of its own:
//! memory, modules, a program order. Calls return as soon as they are noted; only [`Session::sync`]
//! and [`Session::copy_out`] wait for the device. What goes wrong with an earlier call is the
//! error of a later one, as in CUDA.
//!
//! ```no_run
//! use client_agent::{Client, Settings};
//!
//! let client = Client::connect(Settings::new("nats://127.0.0.1:4222", "prod", "chat"))?;
//! let session = client.open()?;
//! let module = session.load(&std::fs::read("saxpy.ptx")?)?;
//! let saxpy = module.function("saxpy")?;
//! let x = session.alloc(4 << 10)?;
//! let mut params = Vec::new();
//! params.extend(1024_u32.to_le_bytes());
//! params.extend(2.0_f32.to_le_bytes());
//! params.extend(x.to_le_bytes());
//! params.extend(x.to_le_bytes());
//! session.launch(&saxpy, [8, 1, 1], [128, 1, 1], 0, &params)?;
//! let mut result = vec![0; 4 << 10];
//! session.copy_out(x, &mut result)?;
//! session.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Calls that wait come twice: `sync` blocks the calling thread, `sync_async` is a future that runs
//! on any executor. The others wait only while too much is on its way, and then block.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actors::client::{Agent, AgentSettings};
use bus_schemas::{Code, Tenant};

pub use bus_schemas::{Dim, SessionId};
pub use client_session::ClientError as Error;
pub use client_session::{Function, Module, Session};
use client_session::{Images, block_on, refused};
pub use telemetry;
pub use telemetry::{SpanId, Telemetry, TraceContext, TraceId};

/// What every fallible call returns.
pub type Result<T> = std::result::Result<T, Error>;

/// How to join a cluster.
#[derive(Clone)]
pub struct Settings {
    /// Where the broker listens, such as `nats://127.0.0.1:4222`; several, separated by commas.
    pub url: String,
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

impl Settings {
    /// Settings without a login, with 10 s of patience and a deadline of 30 s, without a log.
    pub fn new(
        url: impl Into<String>,
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

    /// The same with a login.
    #[must_use]
    pub fn with_login(mut self, user: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self.password = Some(password.into());
        self
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs must not give passwords away.
        f.debug_struct("Settings")
            .field("url", &self.url)
            .field("user", &self.user)
            .field("cluster", &self.cluster)
            .field("tenant", &self.tenant)
            .finish_non_exhaustive()
    }
}

/// One connection to a cluster. Dropping it closes its sessions.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    images: Arc<Images>,
    patience: Duration,
}

impl Client {
    /// Connects. Blocks until the broker has answered.
    ///
    /// # Errors
    /// [`Error::Connect`] without a broker or with a wrong login; [`Error::Refused`] for names
    /// that are none.
    pub fn connect(settings: Settings) -> Result<Self> {
        let name = |text: &str| {
            let parsed = text.parse::<Tenant>();
            parsed.map_err(|error| refused(Code::BadSettings, error.to_string()))
        };
        let login = settings
            .user
            .map(|user| (user, settings.password.unwrap_or_default()));
        let agent = Agent::start(AgentSettings {
            url: settings.url,
            login,
            cluster: name(&settings.cluster)?,
            tenant: name(&settings.tenant)?,
            patience: settings.patience,
            deadline: settings.deadline,
            submitted: settings.submitted,
            telemetry: settings.telemetry,
        })?;
        Ok(Self {
            agent,
            images: Arc::default(),
            patience: settings.patience,
        })
    }

    /// Opens a session: a virtual device of its own. Blocks until the leader has answered; while
    /// there is no leader or no worker, until the patience is over.
    ///
    /// # Errors
    /// What the leader answers.
    pub fn open(&self) -> Result<Session> {
        block_on(self.open_async())
    }

    /// As [`Client::open`], for any executor.
    ///
    /// # Errors
    /// What the leader answers.
    pub async fn open_async(&self) -> Result<Session> {
        let mut sessions = self.open_devices_async(1).await?;
        sessions.pop().ok_or_else(Error::closed)
    }

    /// Opens sessions on so many devices, each on another worker: all or none. Their addresses are
    /// apart, so that none of one is taken for another's.
    ///
    /// # Errors
    /// What the leader answers.
    pub fn open_devices(&self, devices: u32) -> Result<Vec<Session>> {
        block_on(self.open_devices_async(devices))
    }

    /// As [`Client::open_devices`], for any executor.
    ///
    /// # Errors
    /// What the leader answers.
    pub async fn open_devices_async(&self, devices: u32) -> Result<Vec<Session>> {
        let lines = self.agent.open(devices).await?;
        let session = |line| Session::new(line, Arc::clone(&self.images), self.patience);
        Ok(lines.into_iter().map(session).collect())
    }

    /// Name of the connection at the broker.
    #[must_use]
    pub fn connection(&self) -> &str {
        self.agent.connection()
    }
}
