//! The administrator's side of a cluster: status, tenants, sessions, settings, hold, drain.

pub mod entries;
mod kept;
mod memory;
mod retries;
mod servers;
mod sessions;
mod state;
mod stored;
mod tenants;

pub(crate) use kept::Kept;
pub use memory::DeviceMemory;
pub use servers::ServerStatus;
pub use sessions::{SessionFilter, SessionProcess, SessionRow};
pub(crate) use stored::StoredMessages;
pub use tenants::{RemovedTenant, RenewedLogin, TenantChange};

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use async_nats::jetstream;
use broker::Credentials;
use bus_schemas::subject::{Admin, Subjects};
use bus_schemas::{
    Admission, AdmissionAnswer, AdmissionRequest, Drain, Failure, Hold, Incarnation, Status,
    StatusRequest, Tenant, TenantSettings, WIRE_VERSION, decode, encode,
};
use scheduler_leader_core::Placement;

use crate::credentials::{credentials, logged_in, own_broker};
use crate::errors::{Unreachable, UsageError};
use crate::output;
use crate::settings::Settings;
use retries::Pauses;

/// Timeout of one request to the leader; the request is repeated until the caller's patience ends.
const ASK: Duration = Duration::from_millis(500);

/// Default of `command.deadline`, used by [`Administrator::connect`].
const TIMEOUT: Duration = Duration::from_secs(5);
/// Pause before a server that gave up a login is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// A connection with the cluster's login.
pub struct Administrator {
    client: async_nats::Client,
    subjects: Subjects,
    patience: Duration,
    /// State folder of the broker, set if this command may change the broker's logins.
    broker: Option<PathBuf>,
}

impl Administrator {
    /// Connects to the cluster of the settings, within `command.deadline`.
    ///
    /// # Errors
    /// As [`Self::connect`]; [`Unreachable`] if there is no cluster.
    pub async fn of(settings: &Settings) -> Result<Self> {
        let patience = settings.duration("command.deadline")?;
        let administrator = Self::patient(&credentials(settings)?, patience).await?;
        Ok(match own_broker(settings) {
            Some(folder) => administrator.with_broker(folder),
            None => administrator,
        })
    }

    /// Sets the state folder of a broker of which this command may change the logins.
    #[must_use]
    pub fn with_broker(mut self, folder: PathBuf) -> Self {
        self.broker = Some(folder);
        self
    }

    /// Connects as a role does, within `role.deadline`; later answers are waited for as a command
    /// does. Logins can be changed if the broker is the one of this folder, or the cluster's own on
    /// this host.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub async fn as_role(settings: &Settings, broker: Option<PathBuf>) -> Result<Self> {
        let patience = settings.duration("role.deadline")?;
        let mut administrator = Self::patient(&credentials(settings)?, patience).await?;
        administrator.patience = settings.duration("command.deadline")?;
        administrator.broker = broker.or_else(|| own_broker(settings));
        Ok(administrator)
    }

    /// Connects as the cluster user.
    ///
    /// # Errors
    /// [`UsageError`] if the credentials are a tenant's; [`Unreachable`] if the broker does not answer
    /// within 5 s.
    pub async fn connect(credentials: &Credentials) -> Result<Self> {
        Self::patient(credentials, TIMEOUT).await
    }

    /// As [`Self::connect`], with this timeout for the broker and for every later wait on this
    /// connection.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub async fn patient(credentials: &Credentials, patience: Duration) -> Result<Self> {
        if credentials.cluster_user.is_none() && !credentials.tenants.is_empty() {
            // `warploom env`, for example, points a shell's programs at such credentials.
            bail!(UsageError(
                "these credentials are a tenant's, and this needs the cluster's own: see \
                 broker.credentials (WARPLOOM_BROKER_CREDENTIALS)"
                    .into()
            ));
        }
        let cluster: Tenant = credentials.cluster.parse().context("the cluster's name")?;
        let subjects = Subjects::new(&cluster);
        let asked = Instant::now();
        let client = loop {
            let options = async_nats::ConnectOptions::new()
                .name("administrator")
                .connection_timeout(credentials.entry_patience(patience))
                .custom_inbox_prefix(subjects.cluster_inbox());
            let options = logged_in(options, credentials, credentials.cluster_user.as_ref());
            match options.connect(credentials.url.addresses()).await {
                Ok(client) => break client,
                Err(error) if gave_up(&error) && asked.elapsed() < patience => {
                    tokio::time::sleep(AGAIN).await;
                }
                Err(error) => bail!(Unreachable(format!(
                    "no broker answers at {} ({error}); is `warploom up` running?",
                    credentials.url
                ))),
            }
        };
        Ok(Self {
            client,
            subjects,
            patience,
            broker: None,
        })
    }

    /// The timeout of an answer.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.patience
    }

    /// The timeout with which a command that can go on without a leader waits for one.
    #[must_use]
    pub fn glance(&self) -> Duration {
        self.patience / 5
    }

    /// The timeout for the next of many stored messages.
    #[must_use]
    pub fn stall(&self) -> Duration {
        2 * self.patience
    }

    /// The JetStream context, with this connection's patience for each answer.
    pub(crate) fn jetstream(&self) -> jetstream::Context {
        let mut jetstream = jetstream::new(self.client.clone());
        jetstream.set_timeout(self.patience);
        jetstream
    }

    /// The NATS connection.
    #[must_use]
    pub fn client(&self) -> &async_nats::Client {
        &self.client
    }

    /// The cluster's subjects.
    #[must_use]
    pub fn subjects(&self) -> &Subjects {
        &self.subjects
    }

    async fn ask(&self, verb: Admin, request: Vec<u8>, patience: Duration) -> Result<bytes::Bytes> {
        let asked = Instant::now();
        let subject = self.subjects.admin(verb);
        loop {
            let answer = self.client.request(subject.clone(), request.clone().into());
            match tokio::time::timeout(ASK, answer).await {
                Ok(Ok(message)) => return Ok(message.payload),
                _ if asked.elapsed() < patience => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                _ => bail!(Unreachable(format!(
                    "no leader of cluster {} answers after {patience:?}; `warploom up` starts one",
                    self.subjects.cluster()
                ))),
            }
        }
    }

    /// Waits until the leader's status matches a change; `late` is the error if it does not.
    /// Without a leader, prints `unled`: the next leader reads the change.
    ///
    /// # Errors
    /// [`Unreachable`] after this administrator's patience.
    pub(crate) async fn obeyed(
        &self,
        unled: &str,
        late: &str,
        done: impl Fn(&Status) -> bool + Send,
    ) -> Result<()> {
        let (begun, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let Ok(status) = self.status(self.glance()).await else {
                output::note(unled);
                return Ok(());
            };
            if done(&status) {
                return Ok(());
            }
            if begun.elapsed() > self.patience() {
                bail!(Unreachable(format!("{late} after {:?}", self.patience())));
            }
            pauses.pause().await;
        }
    }

    /// The leader's view of the cluster. The request is repeated until a leader answers.
    ///
    /// # Errors
    /// [`Unreachable`] after `patience`.
    pub async fn status(&self, patience: Duration) -> Result<Status> {
        let request = encode(&StatusRequest { v: WIRE_VERSION });
        let answer = self.ask(Admin::Status, request, patience).await?;
        decode(&answer).map_err(|error| anyhow!(Failure::from(error)))
    }

    /// The leader's verdicts on all targets if the tenant had these settings.
    ///
    /// # Errors
    /// [`Unreachable`] if no leader answers within `patience`.
    pub async fn admission(
        &self,
        tenant: &Tenant,
        settings: &TenantSettings,
        patience: Duration,
    ) -> Result<Vec<Admission>> {
        let request = encode(&AdmissionRequest {
            v: WIRE_VERSION,
            tenant: tenant.clone(),
            settings: settings.clone(),
        });
        let answer = self.ask(Admin::Admission, request, patience).await?;
        let answer: AdmissionAnswer =
            decode(&answer).map_err(|error| anyhow!(Failure::from(error)))?;
        Ok(answer.targets)
    }

    /// Waits until a leader answers and sees this many live workers.
    ///
    /// # Errors
    /// [`Unreachable`] after `patience`.
    pub async fn ready(&self, workers: usize, patience: Duration) -> Result<Status> {
        let asked = Instant::now();
        loop {
            let left = patience.saturating_sub(asked.elapsed());
            let status = self.status(left).await?;
            let live = status.workers.iter().filter(|worker| !worker.lost).count();
            if live >= workers {
                return Ok(status);
            }
            if left.is_zero() {
                bail!(Unreachable(format!(
                    "{live} of {workers} workers came up in {patience:?}"
                )));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Holds back all grants, or releases them. Returns once a leader that takes over from now on
    /// would do the same.
    ///
    /// # Errors
    /// [`Unreachable`] if no leader answers within 5 s, or if the change is not stored within
    /// another 5 s.
    pub async fn hold(&self, held: bool) -> Result<()> {
        let patience = Duration::from_secs(5);
        let request = encode(&Hold {
            v: WIRE_VERSION,
            held,
        });
        self.ask(Admin::Hold, request, patience).await?;
        self.stored(patience, |placement| placement.held == held)
            .await
    }

    /// Drains a worker, or ends its drain. A drained worker gets no new sessions and leaves after
    /// its last session has ended.
    ///
    /// Returns once a leader that takes over from now on would do the same. The result is the
    /// leader's status; it lacks the worker if the leader does not know it.
    ///
    /// # Errors
    /// [`Unreachable`] if no leader answers within 5 s, or if the change is not stored within
    /// another 5 s.
    pub async fn drain(&self, incarnation: Incarnation, draining: bool) -> Result<Status> {
        let patience = Duration::from_secs(5);
        let request = encode(&Drain {
            v: WIRE_VERSION,
            incarnation,
            draining,
        });
        let answer = self.ask(Admin::Drain, request, patience).await?;
        let status: Status = decode(&answer).map_err(|error| anyhow!(Failure::from(error)))?;
        let mut workers = status.workers.iter();
        if workers.any(|worker| worker.incarnation == incarnation) {
            // A worker without sessions may have left in the meantime.
            let done = |placement: &Placement| {
                let gone = placement.lost.contains(&incarnation);
                gone || placement.drained.contains(&incarnation) == draining
            };
            self.stored(patience, done).await?;
        }
        Ok(status)
    }

    /// Waits until the stored placement of the leader satisfies `is`.
    async fn stored(&self, patience: Duration, is: impl Fn(&Placement) -> bool) -> Result<()> {
        let (asked, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let placement = self.value("placement").await?;
            let stored = placement.and_then(|entry| serde_json::from_slice(&entry).ok());
            if stored.is_some_and(|placement: Placement| is(&placement)) {
                return Ok(());
            }
            if asked.elapsed() > patience {
                bail!(Unreachable(format!(
                    "the leader did as asked, but has not stored it after {patience:?}: its \
                     successor would not know"
                )));
            }
            pauses.pause().await;
        }
    }
}

/// True if the server ended the connection for a reason that may pass. On a busy machine the login
/// came too late, or too many clients are connected.
fn gave_up(error: &async_nats::ConnectError) -> bool {
    let source = std::error::Error::source(error);
    let said = source.and_then(|source| source.downcast_ref::<async_nats::ServerError>());
    matches!(said, Some(async_nats::ServerError::Other(_)))
}
