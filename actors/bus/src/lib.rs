//! The connection to the broker, and publishing without waiting; all roles use it.

mod greeting;
mod outgoing;
mod rotation;
mod silence;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, Event, ReconnectToServer, Server, ServerAddr,
    ServerInfo,
};
use bus_schemas::BrokerUrl;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use greeting::greets;
pub use outgoing::{Backlog, Outgoing};
use rotation::{Rotation, pause};
pub use silence::Silence;

/// Interval of pings on a connection; two pings without a pong end it.
const PING: Duration = Duration::from_secs(1);
/// Interval of pings if another server exists. A server that hangs is left after three intervals.
const PING_OF_SEVERAL: Duration = Duration::from_millis(500);
/// Timeout of a connection attempt to one of several servers, which has greeted in its time before.
/// A client cannot change it later.
const ENTRY_OF_SEVERAL: Duration = Duration::from_secs(8);
/// Time of silence after which a server is assumed to be cut off.
pub const SILENCE: Duration = Duration::from_secs(3);
/// Maximum wait for the next pulse before the silence is checked.
const LOOK: Duration = Duration::from_millis(500);

/// Settings of a connection.
#[derive(Clone)]
pub struct BusSettings {
    /// Address of the broker; several URLs are separated by commas.
    pub url: BrokerUrl,
    /// User and password; `None` if the broker requires no login.
    pub login: Option<(String, String)>,
    /// The connection's name, as shown in the broker's disconnect events.
    pub name: String,
    /// Prefix of reply inboxes, to which the user may subscribe.
    pub inbox: String,
    /// A subject that always has messages unless the server is cut off from the others: a leader's
    /// heartbeats. With several servers, a server on which it is silent is left.
    pub pulse: Option<String>,
    /// Maximum wait for the first connection; `None` waits forever.
    pub patience: Option<Duration>,
}

impl BusSettings {
    /// Settings for a broker without logins, with no limit on the wait for it. The role sets name,
    /// inbox and pulse.
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
        // Logs must not reveal passwords.
        f.debug_struct("BusSettings")
            .field("url", &self.url)
            .field("name", &self.name)
            .field("inbox", &self.inbox)
            .finish_non_exhaustive()
    }
}

/// A change of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionChange {
    /// The connection is established, or established again: messages under way may be lost.
    Up,
    /// The connection is lost and is being established again.
    Down,
    /// Messages of a subscription were dropped in this process because its receiver fell behind.
    Slow,
    /// The broker refused something, or closed the connection for good.
    Refused(String),
}

/// The reason that no connection exists.
#[derive(Debug, thiserror::Error)]
pub enum BusError {
    /// The broker does not accept the login.
    #[error("{url} refuses the login: {detail}")]
    Login {
        /// The broker.
        url: BrokerUrl,
        /// The broker's answer.
        detail: String,
    },
    /// The broker was not reached in time.
    #[error("no broker at {url}: {detail}")]
    Unreachable {
        /// The broker.
        url: BrokerUrl,
        /// The error of the last attempt.
        detail: String,
    },
}

/// Returns a random number that is unique on the bus and never 0. The standard library keys its
/// hash maps from the system's random numbers.
#[must_use]
pub fn random_id() -> u64 {
    let seed = (std::process::id(), std::time::Instant::now());
    RandomState::new().hash_one(seed).max(1)
}

/// Parses a duration of the settings: `30` and `30s`, `250ms`, `2m`.
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

/// A connection and the receiver of its changes.
pub type Connected = (Client, mpsc::UnboundedReceiver<ConnectionChange>);

/// Connects, and then keeps the connection forever. The receiver gets its changes.
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

/// Connects as [`connect`] does, but tries each server only once. If no server listens, it fails at
/// once.
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
    // The deadline passed: a server accepted the connection and stays silent, or the attempt got no
    // answer.
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

/// Leaves a server on which the pulse is silent. Ends when the connection has no other holder.
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

/// Reconnects to another server if the silence has lasted too long.
pub async fn leave_if_silent(client: &Client, silence: &mut Silence) {
    if client.connection_state() != State::Connected {
        silence.interrupted();
    } else if silence.lasts(std::time::Instant::now()) {
        tracing::warn!("nothing is heard through this server: another is tried");
        // Without a connection, no server has to be left.
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
                // The receiver may be gone while the role shuts down.
                let _ = heard.send(link);
            }
            std::future::ready(())
        });
    if let Some(rotation) = rotation {
        let next = move |pool: Vec<Server>, _: ServerInfo| {
            let pool = pool.into_iter().map(|server| server.addr).collect();
            greeter(Arc::clone(&rotation), pool)
        };
        options = options
            .ping_interval(PING_OF_SEVERAL)
            .connection_timeout(ENTRY_OF_SEVERAL)
            .reconnect_to_server_callback(next);
    }
    logged_in(options, settings.login.clone(), &settings.url)
}

/// Returns the next server that greets in time, or refuses at once: the attempt then tells why.
async fn greeter(rotation: Arc<Rotation>, pool: Vec<ServerAddr>) -> Option<ReconnectToServer> {
    loop {
        let next = rotation.next(&pool)?;
        tokio::time::sleep(next.pause).await;
        if greets(&next.addr, next.greeting).await {
            return Some(ReconnectToServer {
                addr: next.addr,
                delay: Some(Duration::ZERO),
            });
        }
    }
}

/// Adds a login: the given user and password, else the login of the URL. A connection gets
/// addresses without the login, because it logs them.
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
