//! The actor of one client process: its connection, its sessions' beginnings, its signs of life.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, StreamHandler, System,
    WrapFuture,
};
use async_nats::{Client, Message as BusMessage};
use bus::{BusSettings, Link};
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    Alive, Epoch, LeaderBeat, LeaderId, Opened, SessionId, Tenant, WIRE_VERSION, decode, encode,
};
use client_session::{ClientError, Driver, Opening, SessionChannel, block_until, open, serve};
use futures_util::stream;
use tokio::sync::oneshot;

use super::evidence::Evidence;
use super::request::Requests;
use telemetry::Telemetry;

/// How often the leader is told that the sessions live.
const ALIVE: Duration = Duration::from_secs(10);
/// How long a new leader, or a new connection, takes to be there for it.
const SETTLING: Duration = Duration::from_millis(250);
/// How long a dropped agent waits for its sessions to end.
const FAREWELL: Duration = Duration::from_secs(2);

/// How a client joins a cluster.
#[derive(Clone)]
pub struct AgentSettings {
    /// Where the broker listens.
    pub url: String,
    /// User and password; none where the broker wants no login.
    pub login: Option<(String, String)>,
    /// The cluster.
    pub cluster: Tenant,
    /// The tenant.
    pub tenant: Tenant,
    /// How long connecting, and opening a session, may take.
    pub patience: Duration,
    /// A session fails when those that it waits for are silent so long.
    pub deadline: Duration,
    /// The log of submitted ops, if one is wanted.
    pub submitted: Option<PathBuf>,
    /// Where spans and metrics go.
    pub telemetry: Telemetry,
}

type Table = Arc<Mutex<BTreeMap<SessionId, Arc<SessionChannel>>>>;

/// One client process: a connection and the sessions on it. Dropping it closes them, for 2 s at
/// most.
pub struct Agent {
    actor: Addr<AgentActor>,
    channels: Table,
    stop: Option<oneshot::Sender<()>>,
    threads: Vec<JoinHandle<()>>,
    driver: Driver,
    connection: String,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent")
            .field("connection", &self.connection)
            .finish_non_exhaustive()
    }
}

impl Agent {
    /// Starts the client's threads and connects.
    ///
    /// # Errors
    /// Where there is no broker within the patience, it refuses the login, or the log cannot be
    /// written.
    pub fn start(settings: AgentSettings) -> Result<Self, ClientError> {
        let evidence = match &settings.submitted {
            Some(path) => Some(Evidence::open(path, settings.tenant.clone())?),
            None => None,
        };
        let connection = format!("client-{:016x}", random());
        let failed = |error: std::io::Error| ClientError::Connect(error.to_string());
        let (driver, driving) = Driver::start(|| {}).map_err(failed)?;
        let channels = Table::default();
        let (started, starts) = std::sync::mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let (name, table, theirs) = (connection.clone(), Arc::clone(&channels), driver.clone());
        let thread = std::thread::Builder::new()
            .name("warploom-client".into())
            .spawn(move || {
                System::new().block_on(async move {
                    let evidence = evidence.map(Arc::new);
                    let actor = begin(settings, name, table, evidence, theirs).await;
                    let failed = actor.is_err();
                    if started.send(actor).is_ok() && !failed {
                        let _ = stopped.await;
                    }
                });
            })
            .map_err(failed)?;
        let started = starts.recv().map_err(|_| ClientError::closed());
        let actor = started.flatten().inspect_err(|_| driver.stop())?;
        Ok(Self {
            actor,
            channels,
            stop: Some(stop),
            threads: vec![thread, driving],
            driver,
            connection,
        })
    }

    /// Name of the connection.
    #[must_use]
    pub fn connection(&self) -> &str {
        &self.connection
    }

    /// Opens sessions on so many devices, each on another worker: all or none.
    ///
    /// # Errors
    /// What the leader answers, or that none does within the patience.
    pub async fn open(&self, devices: u32) -> Result<Vec<Arc<SessionChannel>>, ClientError> {
        let (reply, answer) = oneshot::channel();
        self.actor
            .send(Open(devices, reply))
            .await
            .map_err(|_| ClientError::closed())?;
        answer.await.map_err(|_| ClientError::closed())?
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let channels: Vec<_> = locked(&self.channels).values().cloned().collect();
        channels.iter().for_each(|channel| channel.close());
        let deadline = Instant::now() + FAREWELL;
        for channel in &channels {
            block_until(channel.ended(), deadline);
        }
        drop(self.stop.take());
        // Whoever still waits for them is told, and lets go of the wheel.
        channels.iter().for_each(|channel| channel.abandon());
        self.driver.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Open sessions on so many devices and say how it went.
struct Open(
    u32,
    oneshot::Sender<Result<Vec<Arc<SessionChannel>>, ClientError>>,
);

impl Message for Open {
    type Result = ();
}

struct AgentActor {
    client: Client,
    settings: AgentSettings,
    subjects: Subjects,
    connection: String,
    channels: Table,
    evidence: Option<Arc<Evidence>>,
    driver: Driver,
    /// The epoch and leader of the latest beat.
    term: Option<(Epoch, LeaderId)>,
}

async fn begin(
    settings: AgentSettings,
    connection: String,
    channels: Table,
    evidence: Option<Arc<Evidence>>,
    driver: Driver,
) -> Result<Addr<AgentActor>, ClientError> {
    let subjects = Subjects::new(&settings.cluster);
    let bus = BusSettings {
        url: settings.url.clone(),
        login: settings.login.clone(),
        name: connection.clone(),
        inbox: subjects.tenant_inbox(&settings.tenant),
        pulse: Some(subjects.term(&settings.tenant)),
        patience: Some(settings.patience),
    };
    let connected = async move { bus::connect(&bus).await };
    let connected = driver.handle().spawn(connected).await;
    let (client, mut links) = connected.map_err(|_| ClientError::closed())??;
    let terms = client
        .subscribe(subjects.term(&settings.tenant))
        .await
        .map_err(|error| ClientError::Connect(error.to_string()))?;
    Ok(AgentActor::create(|context| {
        context.add_stream(terms);
        context.add_stream(stream::poll_fn(move |context| links.poll_recv(context)));
        context.run_interval(ALIVE, |agent, context| agent.live(context));
        AgentActor {
            client,
            settings,
            subjects,
            connection,
            channels,
            evidence,
            driver,
            term: None,
        }
    }))
}

impl Actor for AgentActor {
    type Context = Context<Self>;
}

impl AgentActor {
    /// Tells the leader on which connection the sessions are: a new one would not know whose they
    /// are when that is closed.
    fn live_soon(&self, context: &mut Context<Self>) {
        context.run_later(SETTLING, |agent, context| agent.live(context));
    }

    fn live(&self, context: &mut Context<Self>) {
        let channels = locked(&self.channels);
        let living = channels.iter();
        let (sessions, workers): (Vec<_>, Vec<_>) = living
            .map(|(session, channel)| (*session, channel.opened().incarnation))
            .unzip();
        drop(channels);
        if sessions.is_empty() {
            return;
        }
        let alive = Alive {
            v: WIRE_VERSION,
            connection: self.connection.clone(),
            sessions,
            workers,
        };
        let subject = self
            .subjects
            .to_leader(&self.settings.tenant, ToLeader::Alive);
        let client = self.client.clone();
        let said = async move {
            // A lost one is made up for by the next.
            let _ = client.publish(subject, encode(&alive).into()).await;
        };
        context.spawn(said.into_actor(self));
    }
}

impl Handler<Open> for AgentActor {
    type Result = ();

    fn handle(&mut self, Open(devices, reply): Open, context: &mut Context<Self>) {
        let opening = Opening {
            tenant: self.settings.tenant.clone(),
            connection: self.connection.clone(),
            nonce: random(),
            devices,
            patience: self.settings.patience,
        };
        let (client, subjects) = (self.client.clone(), self.subjects.clone());
        let asked = async move { open(&client, &subjects, &opening).await };
        let begun = asked.into_actor(self).map(move |answer, agent, _| {
            let channels = answer.map(|devices| {
                let devices = devices.into_iter();
                let channels = devices.map(|(opened, heard)| agent.begin(opened, heard));
                channels.collect::<Vec<_>>()
            });
            // Whoever asked may have given up: then nobody holds the channels but us.
            if let Err(Ok(channels)) = reply.send(channels) {
                channels.iter().for_each(|channel| channel.close());
            }
        });
        context.spawn(begun);
    }
}

impl AgentActor {
    fn begin(&mut self, opened: Opened, heard: async_nats::Subscriber) -> Arc<SessionChannel> {
        let session = opened.session;
        let (telemetry, tenant) = (&self.settings.telemetry, &self.settings.tenant);
        let requests = Requests::new(telemetry.clone(), tenant, self.evidence.clone());
        let channel = Arc::new(SessionChannel::new(
            opened,
            self.client.clone(),
            &self.subjects,
            &self.settings.tenant,
            Box::new(requests),
            self.driver.clone(),
            self.settings.deadline,
        ));
        locked(&self.channels).insert(session, Arc::clone(&channel));
        let (served, channels) = (Arc::clone(&channel), Arc::clone(&self.channels));
        let subjects = self.subjects.clone();
        self.driver.handle().spawn(async move {
            serve(served, subjects, heard).await;
            locked(&channels).remove(&session);
        });
        channel
    }
}

impl StreamHandler<BusMessage> for AgentActor {
    fn handle(&mut self, message: BusMessage, context: &mut Context<Self>) {
        if let Ok(beat) = decode::<LeaderBeat>(&message.payload)
            // Of a cluster of brokers it is said every second, and is news only once.
            && self.term.replace((beat.epoch, beat.leader)) != Some((beat.epoch, beat.leader))
        {
            for channel in locked(&self.channels).values() {
                channel.new_term(beat);
            }
            self.live_soon(context);
        }
    }
}

impl StreamHandler<Link> for AgentActor {
    fn handle(&mut self, link: Link, context: &mut Context<Self>) {
        match link {
            Link::Up => {
                for channel in locked(&self.channels).values() {
                    channel.reconnected();
                }
                self.live_soon(context);
            }
            Link::Down => {
                tracing::info!("the connection to the broker is gone");
                for channel in locked(&self.channels).values() {
                    channel.disconnected();
                }
            }
            Link::Slow => tracing::warn!("messages of the broker were dropped here"),
            Link::Refused(detail) => tracing::warn!(detail, "the broker refuses"),
        }
    }
}

fn locked(channels: &Table) -> std::sync::MutexGuard<'_, BTreeMap<SessionId, Arc<SessionChannel>>> {
    channels.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number nobody else has: the standard library's hash keys are drawn by the system.
fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}
