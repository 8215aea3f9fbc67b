//! The connection to the broker, and publishing on it without waiting, the same for every role.

mod outgoing;
mod rotation;
mod silence;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ReconnectToServer};
use bus_schemas::BrokerUrl;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

pub use outgoing::{Backlog, Outgoing};
use rotation::{Rotation, pause};
pub use silence::Silence;

/// How often a connection is proven; two unanswered proofs end it.
const PING: Duration = Duration::from_secs(1);
/// The same where there is another server to go to: three of them pass before one that stands
/// still is left.
const PING_OF_SEVERAL: Duration = Duration::from_millis(500);
/// How long one of several servers may take to let us in.
const ENTRY_OF_SEVERAL: Duration = Duration::from_secs(1);
/// A server on which nobody is heard for so long who should be is taken to be cut off.
pub const SILENCE: Duration = Duration::from_secs(3);
/// How often it is looked whether somebody was.
const LOOK: Duration = Duration::from_millis(500);

/// How to connect.
#[derive(Clone)]
pub struct BusSettings {
    /// Where the broker listens; several URLs are separated by commas.
    pub url: BrokerUrl,
    /// User and password; none where the broker wants no login.
    pub login: Option<(String, String)>,
    /// The connection's name, as the broker's disconnect events tell it.
    pub name: String,
    /// Prefix of reply inboxes: what the user may subscribe to.
    pub inbox: String,
    /// A subject on which something is always heard where the server is not cut off from the
    /// others: a leader's heartbeats. Of several servers, one on which it is silent is left.
    pub pulse: Option<String>,
    /// How long to wait for the first connection; none waits for ever.
    pub patience: Option<Duration>,
}

impl BusSettings {
    /// Settings for a broker without logins, waited for without end. Name, inbox and pulse are the
    /// role's to set.
    #[must_use]
    pub fn new(url: impl Into<BrokerUrl>) -> Self {
        Self {
            url: url.into(),
            login: None,
            name: String::new(),
            inbox: String::new(),
            pulse: None,
            patience: None,
        }
    }
}

impl std::fmt::Debug for BusSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Logs must not give passwords away.
        f.debug_struct("BusSettings")
            .field("url", &self.url)
            .field("name", &self.name)
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

/// What happened to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionChange {
    /// It is there (again): what was under way may be lost.
    Up,
    /// It is gone; it is being made again.
    Down,
    /// Messages of a subscription were dropped here: its receiver fell behind.
    Slow,
    /// The broker refused something, or closed the connection for good.
    Refused(String),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The broker does not accept the login.
    #[error("{url} refuses the login: {detail}")]
    Login {
        /// The broker.
        url: BrokerUrl,
        /// What it said.
        detail: String,
    },
    /// The broker was not reached in time.
    #[error("no broker at {url}: {detail}")]
    Unreachable {
        /// The broker.
        url: BrokerUrl,
        /// What the last attempt said.
        detail: String,
    },
}

/// A number that nobody else on the bus has, and never 0: the standard library keys its hash maps from
/// the system's random numbers.
#[must_use]
pub fn random_id() -> u64 {
    let seed = (std::process::id(), std::time::Instant::now());
    RandomState::new().hash_one(seed).max(1)
}

/// Parses the times of settings: `30` and `30s`, `250ms`, `2m`.
#[must_use]
pub fn parse_duration(text: &str) -> Option<Duration> {
    let units = [("ms", 1), ("m", 60_000), ("s", 1_000)];
    let (digits, scale) = units
        .iter()
        .find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)))
        .unwrap_or((text, 1_000));
    digits
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(scale)
        .map(Duration::from_millis)
}

/// A connection, and what becomes of it.
pub type Connected = (Client, mpsc::UnboundedReceiver<ConnectionChange>);

/// Connects, and keeps the connection for ever after. The receiver hears what becomes of it.
///
/// # Errors
/// [`BusError`]; without `patience` only for a refused login.
pub async fn connect(settings: &BusSettings) -> Result<Connected, BusError> {
    let deadline = settings.patience.map(|patience| Instant::now() + patience);
    let mut tries = 0;
    loop {
        let error = match attempt(settings, deadline).await {
            Err(error @ BusError::Unreachable { .. }) => error,
            done => return done,
        };
        tries += 1;
        let again = Instant::now() + pause(tries);
        if deadline.is_some_and(|deadline| deadline <= again) {
            return Err(error);
        }
        tokio::time::sleep_until(again).await;
    }
}

/// Connects as [`connect`] does, but tries each server only once: where nobody listens, that is the
/// answer, and at once.
///
/// # Errors
/// [`BusError`].
pub async fn connect_once(settings: &BusSettings) -> Result<Connected, BusError> {
    let deadline = settings.patience.map(|patience| Instant::now() + patience);
    attempt(settings, deadline).await
}

async fn attempt(settings: &BusSettings, deadline: Option<Instant>) -> Result<Connected, BusError> {
    let (heard, events) = mpsc::unbounded_channel();
    let addresses = settings.url.addresses();
    let rotation = (addresses.len() > 1).then(Arc::<Rotation>::default);
    let options = options(settings, rotation.clone(), heard);
    let url = settings.url.clone();
    let connected = match deadline {
        Some(deadline) => timeout_at(deadline, options.connect(&addresses[..])).await,
        None => Ok(options.connect(&addresses[..]).await),
    };
    // Somebody is there and says nothing, or nobody says that nobody is.
    let Ok(connected) = connected else {
        let detail = "it does not answer".into();
        return Err(BusError::Unreachable { url, detail });
    };
    let error = match connected {
        Ok(client) => {
            if let Some(pulse) = settings.pulse.clone().filter(|_| rotation.is_some()) {
                tokio::spawn(feel(client.clone(), pulse));
            }
            return Ok((client, events));
        }
        Err(error) => error,
    };
    let detail = error.to_string();
    match error.kind() {
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
            Err(BusError::Login { url, detail })
        }
        _ => Err(BusError::Unreachable { url, detail }),
    }
}

/// Leaves a server where the pulse is silent, for as long as somebody else holds the connection.
async fn feel(client: Client, pulse: String) {
    let Ok(mut beats) = client.subscribe(pulse).await else {
        return;
    };
    let mut silence = Silence::new(SILENCE);
    loop {
        match tokio::time::timeout(LOOK, beats.next()).await {
            Ok(Some(_)) => silence.heard(),
            Ok(None) => return,
            Err(_) => leave_if_silent(&client, &mut silence).await,
        }
    }
}

/// Goes to another server where silence has lasted too long.
pub async fn leave_if_silent(client: &Client, silence: &mut Silence) {
    if client.connection_state() != State::Connected {
        silence.interrupted();
    } else if silence.lasts(std::time::Instant::now()) {
        tracing::warn!("nobody is heard through this server: another is tried");
        // Without a connection there is nothing to leave.
        let _ = client.force_reconnect().await;
    }
}

fn options(
    settings: &BusSettings,
    rotation: Option<Arc<Rotation>>,
    heard: mpsc::UnboundedSender<ConnectionChange>,
) -> ConnectOptions {
    let reached = rotation.clone();
    let mut options = ConnectOptions::new()
        .name(&settings.name)
        .custom_inbox_prefix(&settings.inbox)
        .ping_interval(PING)
        .max_reconnects(None)
        .reconnect_delay_callback(pause)
        .skip_subject_validation(true)
        .event_callback(move |event| {
            if let (Event::Connected, Some(rotation)) = (&event, &reached) {
                rotation.connected();
            }
            let link = match event {
                Event::Connected => Some(ConnectionChange::Up),
                Event::Disconnected => Some(ConnectionChange::Down),
                Event::SlowConsumer(_) => Some(ConnectionChange::Slow),
                Event::ServerError(error) => Some(ConnectionChange::Refused(error.to_string())),
                Event::Closed => Some(ConnectionChange::Refused("the connection is closed".into())),
                _ => None,
            };
            if let Some(link) = link {
                // Nobody listens any more while the role shuts down.
                let _ = heard.send(link);
            }
            std::future::ready(())
        });
    if let Some(rotation) = rotation {
        let next = move |pool: Vec<async_nats::Server>| {
            let pool: Vec<_> = pool.into_iter().map(|server| server.addr).collect();
            let (addr, delay) = rotation.next(&pool)?;
            let delay = Some(delay);
            Some(ReconnectToServer { addr, delay })
        };
        options = options
            .ping_interval(PING_OF_SEVERAL)
            .connection_timeout(ENTRY_OF_SEVERAL)
            .reconnect_to_server_callback(move |pool, _| std::future::ready(next(pool)));
    }
    logged_in(options, settings.login.clone(), &settings.url)
}

/// Adds a login, user and password, else the one that the URL has. A connection is given addresses without it, for
/// it logs where it goes.
#[must_use]
pub fn logged_in(
    options: ConnectOptions,
    login: Option<(String, String)>,
    url: &BrokerUrl,
) -> ConnectOptions {
    match (login, url.login()) {
        (Some((user, password)), _) | (None, Some((user, Some(password)))) => {
            options.user_and_password(user, password)
        }
        (None, Some((token, None))) => options.token(token),
        (None, None) => options,
    }
}
