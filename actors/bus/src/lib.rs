//! The connection to the broker, the same for every role.

use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// How often a connection is proven; two unanswered proofs end it.
const PING: Duration = Duration::from_secs(1);
/// Longest pause between attempts to connect.
const PAUSE: Duration = Duration::from_millis(200);

/// How to connect.
#[derive(Clone)]
pub struct BusSettings {
    /// Where the broker listens; several URLs are separated by commas.
    pub url: String,
    /// User and password; none where the broker wants no login.
    pub login: Option<(String, String)>,
    /// The connection's name, as the broker's disconnect events tell it.
    pub name: String,
    /// Prefix of reply inboxes: what the user may subscribe to.
    pub inbox: String,
    /// How long to wait for the first connection; none waits for ever.
    pub patience: Option<Duration>,
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
pub enum Link {
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
        url: String,
        /// What it said.
        detail: String,
    },
    /// The broker was not reached in time.
    #[error("no broker at {url}: {detail}")]
    Unreachable {
        /// The broker.
        url: String,
        /// What the last attempt said.
        detail: String,
    },
}

/// Connects, and keeps the connection for ever after. The receiver hears what becomes of it.
///
/// # Errors
/// [`BusError`]; without `patience` only for a refused login.
pub async fn connect(
    settings: &BusSettings,
) -> Result<(Client, mpsc::UnboundedReceiver<Link>), BusError> {
    let deadline = settings.patience.map(|patience| Instant::now() + patience);
    let (heard, events) = mpsc::unbounded_channel();
    let mut attempt = 0;
    loop {
        let options = options(settings, heard.clone());
        let addresses: Vec<&str> = settings.url.split(',').map(str::trim).collect();
        let url = settings.url.clone();
        let connected = match deadline {
            Some(deadline) => timeout_at(deadline, options.connect(&addresses[..])).await,
            None => Ok(options.connect(&addresses[..]).await),
        };
        let error = match connected {
            Ok(Ok(client)) => return Ok((client, events)),
            Ok(Err(error)) => error,
            // Somebody is there and says nothing, or nobody says that nobody is.
            Err(_) => {
                let detail = "it does not answer".into();
                return Err(BusError::Unreachable { url, detail });
            }
        };
        let detail = error.to_string();
        if matches!(
            error.kind(),
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication
        ) {
            return Err(BusError::Login { url, detail });
        }
        attempt += 1;
        let again = Instant::now() + pause(attempt);
        if deadline.is_some_and(|deadline| deadline <= again) {
            return Err(BusError::Unreachable { url, detail });
        }
        tokio::time::sleep_until(again).await;
    }
}

fn options(settings: &BusSettings, heard: mpsc::UnboundedSender<Link>) -> ConnectOptions {
    let options = ConnectOptions::new()
        .name(&settings.name)
        .custom_inbox_prefix(&settings.inbox)
        .ping_interval(PING)
        .max_reconnects(None)
        .reconnect_delay_callback(pause)
        .skip_subject_validation(true)
        .event_callback(move |event| {
            let link = match event {
                Event::Connected => Some(Link::Up),
                Event::Disconnected => Some(Link::Down),
                Event::SlowConsumer(_) => Some(Link::Slow),
                Event::ServerError(error) => Some(Link::Refused(error.to_string())),
                Event::Closed => Some(Link::Refused("the connection is closed".into())),
                _ => None,
            };
            if let Some(link) = link {
                // Nobody listens any more while the role shuts down.
                let _ = heard.send(link);
            }
            std::future::ready(())
        });
    match &settings.login {
        Some((user, password)) => options.user_and_password(user.clone(), password.clone()),
        None => options,
    }
}

fn pause(attempt: usize) -> Duration {
    match attempt {
        0 | 1 => Duration::ZERO,
        more => Duration::from_millis(2_u64.saturating_pow(more.min(16) as u32)).min(PAUSE),
    }
}
