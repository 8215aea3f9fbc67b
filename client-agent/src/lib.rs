//! The Warploom client: a virtual device over NATS.
//!
//! A [`Client`] is one connection to a cluster; each [`Session`] it opens is a device of its own:
//! memory, modules, a program order. Calls return as soon as they are recorded; only
//! [`Session::sync`] and [`Session::copy_out`] wait for the device. The error of an earlier call is
//! reported by a later one, as in CUDA.
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
//! Calls that wait have two forms: `sync` blocks the calling thread, `sync_async` is a future that
//! runs on any executor. The others wait only while too much is on its way, and then block.

use std::sync::Arc;
use std::time::Duration;

use actors::client::Agent;

pub use actors::client::ClientSettings as Settings;
pub use bus_schemas::{Dim, SessionId, SpanId, TraceContext, TraceId};
pub use client_session::ClientError as Error;
pub use client_session::set_traceparent;
pub use client_session::{Function, Module, Session};
use client_session::{Images, block_on};
pub use telemetry;
pub use telemetry::Telemetry;

/// The result of every fallible call.
pub type Result<T> = std::result::Result<T, Error>;

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
    /// [`Error::Connect`] without a broker or with a wrong login; [`Error::Refused`] for invalid
    /// names.
    pub fn connect(settings: Settings) -> Result<Self> {
        let patience = settings.patience;
        let agent = Agent::start(settings)?;
        Ok(Self {
            agent,
            images: Arc::default(),
            patience,
        })
    }

    /// Opens a session: a virtual device of its own. Blocks until the leader has answered; without
    /// a leader or a worker, until the patience is over.
    ///
    /// # Errors
    /// The leader's refusal.
    pub fn open(&self) -> Result<Session> {
        block_on(self.open_async())
    }

    /// Same as [`Client::open`], for any executor.
    ///
    /// # Errors
    /// The leader's refusal.
    pub async fn open_async(&self) -> Result<Session> {
        let mut sessions = self.open_devices_async(1).await?;
        sessions.pop().ok_or_else(Error::closed)
    }

    /// Opens sessions on `devices` devices, each on another worker: all or none. Their address
    /// ranges are disjoint, so that an address belongs to one of them only.
    ///
    /// # Errors
    /// The leader's refusal.
    pub fn open_devices(&self, devices: u32) -> Result<Vec<Session>> {
        block_on(self.open_devices_async(devices))
    }

    /// Same as [`Client::open_devices`], for any executor.
    ///
    /// # Errors
    /// The leader's refusal.
    pub async fn open_devices_async(&self, devices: u32) -> Result<Vec<Session>> {
        let channels = self.agent.open(devices).await?;
        let session = |channel| Session::new(channel, Arc::clone(&self.images), self.patience);
        Ok(channels.into_iter().map(session).collect())
    }

    /// Name of the connection at the broker.
    #[must_use]
    pub fn connection(&self) -> &str {
        self.agent.connection()
    }
}
