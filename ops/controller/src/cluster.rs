//! The cluster as the controller sees it: status and memory, asked once for all who want to know within a
//! moment, and the tenants and settings as the state bucket has them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{SessionId, Status};
use telemetry::Telemetry;
use tokio::sync::{Mutex, Semaphore, watch};
use warploom_cli::admin::{Administrator, DeviceMemory};

use crate::access::{AccessStore, Identities, Limiter};
use crate::explained::Around;
use crate::feed::OrderFeed;
use crate::prices::Prices;
use crate::problem::Problem;
use crate::reading::{Reading, Readings};
use crate::view::View;

/// How old a status may be that somebody is told.
const FRESH: Duration = Duration::from_millis(100);
/// Secrets that the broker is asked for at a time.
const LOOKUPS: usize = 32;
/// Readings of the usage at a time.
const READINGS: usize = 2;
/// Streams of events at a time.
const STREAMS: usize = 1_024;

/// Status and memory of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    /// The leader's word.
    pub(crate) status: Arc<Status>,
    /// The workers'.
    pub(crate) memory: Arc<Vec<DeviceMemory>>,
}

/// What all requests share.
pub(crate) struct Cluster {
    /// The connection.
    pub(crate) administrator: Arc<Administrator>,
    /// Tokens and logins.
    pub(crate) access: AccessStore,
    /// Tenants and settings.
    pub(crate) view: View,
    /// Positions of the order.
    pub(crate) order: OrderFeed,
    /// Positions of the record that somebody asked for.
    pub(crate) around: Around,
    /// What the record explains.
    pub(crate) explained: Readings,
    /// Requests of those who are known.
    pub(crate) requests: Limiter,
    /// Requests of those who are not.
    pub(crate) strangers: Limiter,
    /// Secrets that the broker is asked for at a time.
    pub(crate) lookups: Semaphore,
    /// Replays and exports at a time: each reads the whole record.
    pub(crate) replays: Semaphore,
    /// Readings of the usage at a time: each reads all of its blocks.
    pub(crate) readings: Semaphore,
    /// Streams of events at a time.
    pub(crate) streams: Arc<Semaphore>,
    /// Identities that were looked up just now.
    pub(crate) identities: Identities,
    /// Completes when the controller is told to stop.
    pub(crate) stopping: watch::Receiver<bool>,
    /// Whether programs may change things through the Model Context Protocol.
    pub(crate) mcp_changes: bool,
    /// The folder that the page is read from, of whoever works on it.
    pub(crate) page: Option<PathBuf>,
    /// The public key that evidence is signed with, where the credentials name one.
    pub(crate) evidence_key: Option<String>,
    /// Whether browsers are to use https.
    pub(crate) secure: bool,
    /// What credits cost.
    pub(crate) prices: Option<Prices>,
    /// What is measured of the interface and the cluster.
    pub(crate) telemetry: Telemetry,
    moment: Mutex<Option<(Instant, Result<Moment, Problem>)>>,
}

/// As handlers have it.
pub(crate) type Shared = Arc<Cluster>;

/// What a controller is made of, beside its connection.
pub(crate) struct Parts {
    pub(crate) access: AccessStore,
    pub(crate) view: View,
    pub(crate) telemetry: Telemetry,
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) options: Options,
}

/// What is chosen when a controller starts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// The public key that evidence is signed with, where the credentials name one.
    pub(crate) evidence_key: Option<String>,
    /// Whether browsers are to use https.
    pub(crate) secure: bool,
    /// What credits cost.
    pub(crate) prices: Option<Prices>,
    /// Whether programs may change things through the Model Context Protocol.
    pub(crate) mcp_changes: bool,
    /// The folder that the page is read from, of whoever works on it.
    pub(crate) page: Option<PathBuf>,
}

impl Cluster {
    /// Of these parts.
    pub(crate) fn new(administrator: Arc<Administrator>, parts: Parts) -> Self {
        Self {
            administrator,
            access: parts.access,
            view: parts.view,
            order: OrderFeed::default(),
            around: Around::default(),
            explained: Readings::default(),
            requests: Limiter::new(4_000, 2_000),
            strangers: Limiter::new(40, 10),
            lookups: Semaphore::new(LOOKUPS),
            replays: Semaphore::new(1),
            readings: Semaphore::new(READINGS),
            streams: Arc::new(Semaphore::new(STREAMS)),
            identities: Identities::default(),
            stopping: parts.stopping,
            mcp_changes: parts.options.mcp_changes,
            page: parts.options.page,
            evidence_key: parts.options.evidence_key,
            secure: parts.options.secure,
            prices: parts.options.prices,
            telemetry: parts.telemetry,
            moment: Mutex::new(None),
        }
    }

    /// Status and memory of this moment, or of one just before; or that nobody tells them.
    pub(crate) async fn moment(&self) -> Result<Moment, Problem> {
        // Who comes while it is asked waits for the same answer.
        let mut kept = self.moment.lock().await;
        if let Some((at, moment)) = kept.as_ref()
            && at.elapsed() < FRESH
        {
            return moment.clone();
        }
        let moment = self.ask().await;
        *kept = Some((Instant::now(), moment.clone()));
        moment
    }

    async fn ask(&self) -> Result<Moment, Problem> {
        let administrator = &self.administrator;
        let status = administrator.status(administrator.glance()).await?;
        let memory = administrator.memory(&status).await;
        Ok(Moment {
            status: Arc::new(status),
            memory: Arc::new(memory),
        })
    }

    /// What the record explains; with a session that is asked for, of that too.
    pub(crate) async fn explain(&self, asked: Option<SessionId>) -> Result<Arc<Reading>, Problem> {
        let explained = &self.explained;
        explained
            .read(&self.administrator, &self.replays, asked)
            .await
    }

    /// Streams of events that are open.
    pub(crate) fn open_streams(&self) -> u64 {
        (STREAMS - self.streams.available_permits().min(STREAMS)) as u64
    }

    /// What was known is not true any more: somebody has changed it.
    pub(crate) async fn changed(&self) {
        *self.moment.lock().await = None;
    }
}
