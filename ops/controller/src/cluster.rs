//! The cluster as the controller sees it: status and memory, asked once for all who want to know within a
//! moment, and the tenants and settings as the state bucket has them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus_schemas::{SessionId, Status};
use telemetry::Telemetry;
use tokio::sync::{Mutex, Semaphore, SemaphorePermit, watch};
use warploom_cli::admin::{Administrator, DeviceMemory};

use crate::access::{AccessStore, Full, Identities, Identity, Limiter, Share, Shares};
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
/// Streams of events at a time, in all and of one login.
const STREAMS: (usize, usize) = (1_024, 128);
/// Requests at a time, in all and of one login: those of all logins are as many as connections let through.
const REQUESTS: (usize, usize) = (usize::MAX, 128);
/// Requests at a time that read the usage, under way or waiting, in all and of one login.
const READERS: (usize, usize) = (64, 4);
/// Requests at a time that replay the record, under way or waiting, in all and of one login.
const REPLAYERS: (usize, usize) = (16, 1);
/// How long a replay waits for its turn: longer than a file to compare may take to come.
const TURN: Duration = Duration::from_secs(40);

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
    /// Logins that are renewed: each has the broker read its settings anew.
    pub(crate) renewals: Limiter,
    /// Secrets that the broker is asked for at a time.
    pub(crate) lookups: Semaphore,
    /// Requests that are under way.
    pub(crate) underway: Arc<Shares>,
    /// Streams of events.
    pub(crate) streams: Arc<Shares>,
    /// Replays and exports at a time: each reads the whole record.
    replays: Semaphore,
    replayers: Arc<Shares>,
    /// Readings of the usage at a time: each reads all of its blocks.
    readings: Semaphore,
    readers: Arc<Shares>,
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

/// A turn at what few do at a time, given back when it is dropped.
pub(crate) struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
    _share: Share,
}

/// The problem of a login that gets no place.
pub(crate) fn full_of(shares: &Shares, full: Full, what: &str) -> Problem {
    match full {
        Full::Own => Problem::share(format_args!("{} {what}", shares.each())),
        Full::All => Problem::busy(what),
    }
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
    pub(crate) async fn explain(
        &self,
        who: &Identity,
        asked: Option<SessionId>,
    ) -> Result<Arc<Reading>, Problem> {
        let turn = async || self.replay(who).await;
        let explained = &self.explained;
        explained.read(&self.administrator, turn, asked).await
    }

    /// The turn of a login that replays the record: one login after the other.
    ///
    /// # Errors
    /// `E-API-SHARE` where the login has one already, `E-API-BUSY` where its turn does not come.
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

    /// The turn of a login that reads the usage.
    ///
    /// # Errors
    /// `E-API-SHARE`, `E-API-BUSY` where too many wait, of this login or in all.
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

    /// Streams of events that are open.
    pub(crate) fn open_streams(&self) -> u64 {
        self.streams.all_taken() as u64
    }

    /// What was known is not true any more: somebody has changed it.
    pub(crate) async fn changed(&self) {
        *self.moment.lock().await = None;
    }
}
