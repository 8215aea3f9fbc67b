//! The leader's shell: the actors Leader, Tenant and KernelQueue, and their links to the broker:
//! lease, state, record, disconnect events.
//!
//! Everything lives on the caller's thread. Each actor has a bounded mailbox. A message that finds
//! it full is dropped if the protocol repeats it, and kept if not.

mod actor;
mod cutter;
mod events;
mod folder;
mod gateway;
mod lease;
mod messages;
mod meters;
mod queue;
mod record;
mod state;
mod stores;
mod tenant;

use std::future::Future;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::Addr;
use async_nats::{Client, SubscribeError, Subscriber, jetstream};
use bus_schemas::subject::{ConnectionName, HearsTenants, Subjects};
use bus_schemas::{BrokerUrl, LeaderId, Tenant};
use futures_util::StreamExt;
use scheduler_leader_core::LeaderConfig;
use tokio::sync::{mpsc, oneshot};

use crate::inbox::Inbox;
use crate::repeated::Repeated;
use actor::Leader;
use bus::{BusError, BusSettings, ConnectionChange, connect, random_id};
pub use events::Events;
use gateway::Router;
use messages::LeaderMessage;
use storage::Storage;
use telemetry::Telemetry;

/// Settings of a leader candidate.
#[derive(Debug, Clone)]
pub struct LeaderSettings {
    /// The broker.
    pub bus: BusSettings,
    /// The candidate's id; random if not given.
    pub id: Option<LeaderId>,
    /// The protocol's durations and bounds, and the cluster.
    pub config: LeaderConfig,
    /// Login and subject for the broker's disconnect events. Without them only heartbeats reveal a
    /// leader's death.
    pub events: Option<Events>,
    /// Destination of spans and metrics.
    pub telemetry: Telemetry,
}

impl LeaderSettings {
    /// Creates settings for a broker without logins and a cluster, with defaults for the rest.
    #[must_use]
    pub fn new(url: impl Into<BrokerUrl>, cluster: Tenant) -> Self {
        Self {
            bus: BusSettings::new(url),
            id: None,
            config: LeaderConfig::new(cluster),
            events: None,
            telemetry: Telemetry::off(),
        }
    }
}

/// The reason that a candidate cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LeaderError {
    /// There is no connection.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// A subscription was refused.
    #[error("cannot subscribe: {0}")]
    Subscribe(String),
    /// The actor that holds the order has died; a candidate elsewhere takes over.
    #[error("the leader's actor died")]
    Died,
}

/// Maximum time for the last messages to reach the broker.
const FLUSH: Duration = Duration::from_secs(1);
/// Pause before limits that could not be set are set again.
const BOUND: Duration = Duration::from_secs(2);
/// Interval of the checks that everything has its copies.
const SETTLED: Duration = Duration::from_secs(30);

/// Runs a candidate, which leads when elected, until `shutdown` completes and it has handed over.
/// Sets name and inbox of the connection. Must run in an actix system.
///
/// # Errors
/// [`LeaderError`], before the candidate serves or when an actor dies.
pub async fn serve(
    settings: LeaderSettings,
    shutdown: impl Future<Output = ()>,
) -> Result<(), LeaderError> {
    let id = settings.id.unwrap_or_else(|| LeaderId(random_id()));
    let mut config = settings.config;
    let subjects = Subjects::new(&config.cluster);
    let bus = BusSettings {
        name: ConnectionName::Leader(id).to_string(),
        inbox: subjects.cluster_inbox(),
        ..settings.bus
    };
    let (client, links) = connect(&bus).await?;
    if client.server_info().cluster.is_some() && config.cluster_of.is_none() {
        config = config.on_servers();
    }
    if settings.events.is_some() {
        config = config.with_events();
    }
    let (gone, mut left) = oneshot::channel();
    let jetstream = jetstream::new(client.clone());
    let storage = Storage::new(jetstream.clone(), &subjects);
    let record = record::Appender::new(&storage, &subjects, id);
    let tenants = Inbox::open(client.clone(), subjects.clone(), HearsTenants::Candidate);
    let tenants = tenants.await.map_err(refused)?;
    let (leader, router) = Leader::launch(actor::Parts {
        id,
        client: client.clone(),
        lease: lease::LeaseStore::new(&storage, &subjects),
        state: state::Writer::start(jetstream, &subjects),
        record: record.clone(),
        telemetry: settings.telemetry,
        tenants: tenants.clone(),
        config: config.clone(),
        gone,
    });
    let mut tasks = Tasks::default();
    let cluster = config.cluster.clone();
    tasks.spawn(gateway::receive(tenants.messages(), router.clone()));
    for subject in scheduler_leader_core::Leader::new(config, id).subscriptions() {
        let source = subscribe(&client, subject).await?;
        tasks.spawn(gateway::receive(source, router.clone()));
    }
    for subject in [subjects.unstored(), subjects.unstored_ask()] {
        let source = subscribe(&client, subject).await?;
        let ask = subjects.unstored_ask();
        tasks.spawn(receive_unstored(source, record.clone(), ask));
    }
    tasks.look_after(storage, subjects, &record, &router, &leader);
    if let Some(events) = settings.events {
        let login = BusSettings {
            login: Some(events.login.clone()),
            name: format!("{}-events", bus.name),
            inbox: "_INBOX".into(),
            patience: None,
            ..bus
        };
        let leader = leader.clone().recipient();
        tasks.spawn(gateway::disconnects(login, events, leader));
    }
    tracing::info!(leader = %id, %cluster, "candidate");
    send(&leader, LeaderMessage::Connected(true)).await?;
    let result = wait(&leader, links, &mut left, shutdown).await;
    // The last messages must reach the broker before the process ends.
    let flushed = tokio::time::timeout(FLUSH, client.flush()).await;
    if !matches!(flushed, Ok(Ok(()))) {
        tracing::warn!("the last messages may be lost");
    }
    result
}

async fn subscribe(client: &Client, subject: String) -> Result<Subscriber, LeaderError> {
    client.subscribe(subject).await.map_err(refused)
}

fn refused(error: SubscribeError) -> LeaderError {
    LeaderError::Subscribe(error.to_string())
}

/// Waits until the candidate has left; asks it to leave when `shutdown` completes.
async fn wait(
    leader: &Addr<Leader>,
    mut links: mpsc::UnboundedReceiver<ConnectionChange>,
    left: &mut oneshot::Receiver<()>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), LeaderError> {
    let mut shutdown = std::pin::pin!(shutdown);
    let mut asked = false;
    loop {
        tokio::select! {
            gone = &mut *left => return gone.map_err(|_| LeaderError::Died),
            () = &mut shutdown, if !asked => {
                tracing::info!("the leader hands over");
                asked = true;
                send(leader, LeaderMessage::Leave).await?;
            }
            Some(link) = links.recv() => match link {
                ConnectionChange::Up => send(leader, LeaderMessage::Connected(true)).await?,
                ConnectionChange::Down => {
                    tracing::warn!("the broker is away");
                    send(leader, LeaderMessage::Connected(false)).await?;
                }
                ConnectionChange::Slow => tracing::warn!("messages were dropped: the leader fell behind"),
                ConnectionChange::Refused(why) => tracing::error!(why, "the broker refused something"),
            },
        }
    }
}

/// Sends the leader a message that is not repeated: waits for room in its mailbox.
async fn send(leader: &Addr<Leader>, message: LeaderMessage) -> Result<(), LeaderError> {
    leader.send(message).await.map_err(|_| LeaderError::Died)
}

/// Receives the blocks of other leaders that are not stored, and requests for ours.
async fn receive_unstored(mut source: Subscriber, record: record::Appender, ask: String) {
    while let Some(message) = source.next().await {
        if *message.subject == *ask {
            record.asked();
        } else if let Err(error) = record.receive(&message.payload) {
            tracing::warn!(%error, "a block of another leader cannot be read");
        }
    }
}

/// Creates missing streams and buckets, and gives all their limits and copies. Repeats that,
/// because a clustered broker may get more servers later.
async fn bound(storage: Storage) {
    let mut repeated = Repeated::default();
    loop {
        match storage.ensure().await {
            Ok(()) if !storage.is_clustered() => return,
            Ok(()) => {
                repeated.is_over();
                tokio::time::sleep(SETTLED).await;
            }
            Err(error) => {
                if let Some(unsaid) = repeated.happened(Instant::now()) {
                    tracing::warn!(error, unsaid, "what is kept lacks limits or copies");
                }
                tokio::time::sleep(BOUND).await;
            }
        }
    }
}

/// Tasks that are aborted when this is dropped.
#[derive(Default)]
struct Tasks(Vec<tokio::task::JoinHandle<()>>);

impl Tasks {
    fn spawn(&mut self, task: impl Future<Output = ()> + 'static) {
        self.0.push(tokio::task::spawn_local(task));
    }

    /// Starts the tasks for the streams and buckets: limits and copies, fill, cutting, folding.
    fn look_after(
        &mut self,
        storage: Storage,
        subjects: Subjects,
        record: &record::Appender,
        router: &Rc<Router>,
        leader: &Addr<Leader>,
    ) {
        self.spawn(stores::watch(
            storage.clone(),
            record.unwritten(),
            router.clone(),
            leader.clone().recipient(),
        ));
        let (cut, folded) = (storage.clone(), storage.clone());
        self.spawn(cutter::watch(cut, subjects.clone(), router.clone()));
        self.spawn(folder::watch(folded, subjects.clone(), router.clone()));
        self.spawn(bound(storage.clone()));
        self.spawn(state::watch(storage, subjects, leader.clone().recipient()));
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
