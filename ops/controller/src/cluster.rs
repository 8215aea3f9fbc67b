//! The controller's view of the cluster: status and memory, fetched once for all concurrent
//! callers, and the tenants and settings from the state bucket.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use admin::why::Within;
use admin::{Administrator, DeviceMemory};
use bus_schemas::{SessionId, Status};
use telemetry::Telemetry;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};

use crate::access::{AccessStore, Full, Identities, Identity, Limiter, Share, Shares};
use crate::explained::Around;
use crate::feed::OrderFeed;
use crate::prices::Prices;
use crate::problem::Problem;
use crate::reading::{Reading, Readings};
use crate::view::View;

/// Maximum age of a cached status.
const FRESH: Duration = Duration::from_millis(100);
/// Maximum number of concurrent lookups of secrets at the broker.
const LOOKUPS: usize = 32;
/// Maximum number of concurrent reads of the usage.
const READINGS: usize = 2;
/// Maximum number of event streams, in all and per login.
const STREAMS: (usize, usize) = (1_024, 128);
/// Maximum number of concurrent requests, in all and per login. The number in all is bounded by
/// connections.
const REQUESTS: (usize, usize) = (usize::MAX, 128);
/// Maximum number of requests that read the usage or wait for it, in all and per login.
const READERS: (usize, usize) = (64, 4);
/// Maximum number of requests that replay the record or wait for it, in all and per login.
const REPLAYERS: (usize, usize) = (16, 1);
/// Maximum time that a replay waits for its turn: longer than the upload of a file to compare may
/// take.
const TURN: Duration = Duration::from_secs(40);

/// Status and memory of one moment.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    /// The leader's status.
    pub(crate) status: Arc<Status>,
    /// The workers' memory.
    pub(crate) memory: Arc<Vec<DeviceMemory>>,
}

/// State shared by all requests.
pub(crate) struct Cluster {
    /// The connection.
    pub(crate) administrator: Arc<Administrator>,
    /// Tokens and logins.
    pub(crate) access: AccessStore,
    /// Tenants and settings.
    pub(crate) view: View,
    /// Positions of the order.
    pub(crate) order: OrderFeed,
    /// Positions of the record around the last lookup.
    pub(crate) around: Around,
    /// Explanations read from the record.
    pub(crate) explained: Readings,
    /// Rate limit of known callers.
    pub(crate) requests: Limiter,
    /// Rate limit of unknown callers.
    pub(crate) strangers: Limiter,
    /// Rate limit of login renewals: each makes the broker reload its configuration.
    pub(crate) renewals: Limiter,
    /// Bound on concurrent lookups of secrets at the broker.
    pub(crate) lookups: Semaphore,
    /// Slots of requests in progress.
    pub(crate) underway: Arc<Shares>,
    /// Slots of event streams.
    pub(crate) streams: Arc<Shares>,
    /// Bound on concurrent replays and exports: each reads the whole record.
    replays: Semaphore,
    replayers: Arc<Shares>,
    /// Bound on concurrent reads of the usage: each reads all of its blocks.
    readings: Semaphore,
    readers: Arc<Shares>,
    /// Cache of identities.
    pub(crate) identities: Identities,
    /// Completes when the controller is told to stop.
    pub(crate) stopping: watch::Receiver<bool>,
    /// True if programs may make changes through the Model Context Protocol.
    pub(crate) mcp_changes: bool,
    /// The folder to read the page from, for development of the page.
    pub(crate) page: Option<PathBuf>,
    /// The public key of signed evidence, if the credentials name one.
    pub(crate) evidence_key: Option<String>,
    /// True if browsers must use https.
    pub(crate) secure: bool,
    /// Prices of credits.
    pub(crate) prices: Option<Prices>,
    /// Metrics of the interface and the cluster.
    pub(crate) telemetry: Telemetry,
    moment: Mutex<Option<(Instant, Result<Moment, Problem>)>>,
}

/// A turn at an operation with bounded concurrency, released on drop.
pub(crate) struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
    _share: Share,
}

/// The problem of a login that gets no slot.
pub(crate) fn full_of(shares: &Shares, full: Full, what: &str) -> Problem {
    match full {
        Full::Own => Problem::share(format_args!("{} {what}", shares.each())),
        Full::All => Problem::busy(what),
    }
}

/// The state as handlers hold it.
pub(crate) type Shared = Arc<Cluster>;

/// The parts of a controller, except its connection.
pub(crate) struct Parts {
    pub(crate) access: AccessStore,
    pub(crate) view: View,
    pub(crate) telemetry: Telemetry,
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) options: Options,
}

/// Options of a controller.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options {
    /// The public key of signed evidence, if the credentials name one.
    pub(crate) evidence_key: Option<String>,
    /// True if browsers must use https.
    pub(crate) secure: bool,
    /// Prices of credits.
    pub(crate) prices: Option<Prices>,
    /// True if programs may make changes through the Model Context Protocol.
    pub(crate) mcp_changes: bool,
    /// The folder to read the page from, for development of the page.
    pub(crate) page: Option<PathBuf>,
}

impl Cluster {
    /// The state made of these parts.
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
            renewals: Limiter::new(5, 1),
            lookups: Semaphore::new(LOOKUPS),
            underway: Shares::new(REQUESTS.0, REQUESTS.1),
            streams: Shares::new(STREAMS.0, STREAMS.1),
            replays: Semaphore::new(1),
            replayers: Shares::new(REPLAYERS.0, REPLAYERS.1),
            readings: Semaphore::new(READINGS),
            readers: Shares::new(READERS.0, READERS.1),
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

    /// Returns the current status and memory, or cached ones younger than `FRESH`.
    pub(crate) async fn moment(&self) -> Result<Moment, Problem> {
        // Concurrent callers wait for the same answer.
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

    /// Returns the explanations of the record, or of a stretch of time; with a session, its explanation is
    /// included.
    pub(crate) async fn explain(
        &self,
        who: &Identity,
        asked: Option<SessionId>,
        within: Option<Within>,
    ) -> Result<Arc<Reading>, Problem> {
        if let Some(within) = within {
            // The answer is for this caller alone, and counts for its share.
            let _turn = self.replay(who).await?;
            return Reading::within(&self.administrator, within, asked).await;
        }
        let turn = async || self.replay(who).await;
        let explained = &self.explained;
        explained.read(&self.administrator, turn, asked).await
    }

    /// Waits for the caller's turn to replay the record: one login after another.
    ///
    /// # Errors
    /// `E-API-SHARE` if the login already has a turn or waits for one, `E-API-BUSY` if its turn
    /// does not come in time.
    pub(crate) async fn replay(&self, who: &Identity) -> Result<Turn<'_>, Problem> {
        let share = self.replayers.take(&who.share());
        let share = share
            .map_err(|full| full_of(&self.replayers, full, "replay of the record at a time"))?;
        let turn = tokio::time::timeout(TURN, self.replays.acquire()).await;
        let busy = || Problem::busy("a replay of the record");
        Ok(Turn {
            _permit: turn.ok().and_then(Result::ok).ok_or_else(busy)?,
            _share: share,
        })
    }

    /// Waits for the caller's turn to read the usage.
    ///
    /// # Errors
    /// `E-API-SHARE` if too many of this login wait, `E-API-BUSY` if too many wait in all.
    pub(crate) async fn reading(&self, who: &Identity) -> Result<Turn<'_>, Problem> {
        let what = "readings of the usage at a time";
        let share = self.readers.take(&who.share());
        let share = share.map_err(|full| full_of(&self.readers, full, what))?;
        let turn = self.readings.acquire().await;
        let ended = |_| Problem::busy("a reading of the usage");
        Ok(Turn {
            _permit: turn.map_err(ended)?,
            _share: share,
        })
    }

    /// Number of open event streams.
    pub(crate) fn open_streams(&self) -> u64 {
        self.streams.all_taken() as u64
    }

    /// Drops the cached moment after a change.
    pub(crate) async fn changed(&self) {
        *self.moment.lock().await = None;
    }
}
