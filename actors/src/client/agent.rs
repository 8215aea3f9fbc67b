//! The actor of one client process: its connection, the start of its sessions, its signs of life.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use actix::{
    Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, Message, StreamHandler, System,
    WrapFuture,
};
use async_nats::{Client, Message as BusMessage};
use bus::{BusSettings, ConnectionChange, random_id};
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{
    Alive, Code, Epoch, LeaderBeat, LeaderId, Opened, SessionId, Tenant, decode, encode,
};
use client_session::{
    ClientError, Driver, Opening, SessionChannel, block_until, open, refused, serve,
};
use futures_util::stream;
use tokio::sync::oneshot;

use super::evidence::Evidence;
use super::request::Requests;
use super::settings::ClientSettings;

/// Interval at which the leader is told that the sessions are alive.
const ALIVE: Duration = Duration::from_secs(10);
/// Time until a new leader or a new connection is ready to receive it.
const SETTLING: Duration = Duration::from_millis(250);
/// Maximum time that a dropped agent waits for its sessions to end.
const FAREWELL: Duration = Duration::from_secs(2);

type Table = Arc<Mutex<BTreeMap<SessionId, Arc<SessionChannel>>>>;

/// One client process: a connection and the sessions on it. Dropping it closes them, and waits at
/// most 2 s for their end.
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
    /// No broker answers within the patience, the broker refuses the login, or the log cannot be
    /// written.
    pub fn start(settings: ClientSettings) -> Result<Self, ClientError> {
        let name = |text: &str| {
            let parsed = text.parse::<Tenant>();
            parsed.map_err(|error| refused(Code::BadSettings, error.to_string()))
        };
        let (cluster, tenant) = (name(&settings.cluster)?, name(&settings.tenant)?);
        let evidence = match &settings.submitted {
            Some(path) => Some(Arc::new(Evidence::open(path, tenant.clone())?)),
            None => None,
        };
        let connection = format!("client-{:016x}", random_id());
        let failed = |error: std::io::Error| ClientError::Connect(error.to_string());
        let (driver, driving) = Driver::start(|| {}).map_err(failed)?;
        let channels = Table::default();
        let (started, starts) = std::sync::mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let parts = Parts {
            settings,
            subjects: Subjects::new(&cluster),
            tenant,
            connection: connection.clone(),
            channels: Arc::clone(&channels),
            evidence,
            driver: driver.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("warploom-client".into())
            .spawn(move || {
                System::new().block_on(async move {
                    let actor = begin(parts).await;
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

    /// Opens sessions on `devices` devices, each on another worker; opens all or none.
    ///
    /// # Errors
    /// The leader's refusal, or the lack of a leader's answer within the patience.
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
        // Callers that still wait for the channels get an error, and release the wheel.
        channels.iter().for_each(|channel| channel.abandon());
        self.driver.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Asks the actor to open sessions on a number of devices, and to report the result.
struct Open(
    u32,
    oneshot::Sender<Result<Vec<Arc<SessionChannel>>, ClientError>>,
);

impl Message for Open {
    type Result = ();
}

/// Parts of the actor, except its connection.
struct Parts {
    settings: ClientSettings,
    subjects: Subjects,
    tenant: Tenant,
    connection: String,
    channels: Table,
    evidence: Option<Arc<Evidence>>,
    driver: Driver,
}

struct AgentActor {
    client: Client,
    parts: Parts,
    /// The leader of the last heartbeat.
    leader: Option<(Epoch, LeaderId)>,
}

async fn begin(parts: Parts) -> Result<Addr<AgentActor>, ClientError> {
    let beats = parts.subjects.term(&parts.tenant);
    let bus = BusSettings {
        url: parts.settings.url.clone(),
        login: parts.settings.login(),
        name: parts.connection.clone(),
        inbox: parts.subjects.tenant_inbox(&parts.tenant),
        pulse: Some(beats.clone()),
        patience: Some(parts.settings.patience),
    };
    let connected = async move { bus::connect(&bus).await };
    let connected = parts.driver.handle().spawn(connected).await;
    let (client, mut links) = connected.map_err(|_| ClientError::closed())??;
    let beats = client.subscribe(beats).await;
    let beats = beats.map_err(|error| ClientError::Connect(error.to_string()))?;
    Ok(AgentActor::create(|context| {
        context.add_stream(beats);
        context.add_stream(stream::poll_fn(move |context| links.poll_recv(context)));
        context.run_interval(ALIVE, |agent, context| agent.live(context));
        AgentActor {
            client,
            parts,
            leader: None,
        }
    }))
}

impl Actor for AgentActor {
    type Context = Context<Self>;
}

impl AgentActor {
    /// Reports the connection of the sessions to the leader. A new leader would not know the
    /// sessions of a connection that closes.
    fn live_soon(&self, context: &mut Context<Self>) {
        context.run_later(SETTLING, |agent, context| agent.live(context));
    }

    fn live(&self, context: &mut Context<Self>) {
        let channels = locked(&self.parts.channels);
        let opened = channels.values().map(|channel| channel.opened());
        let alive = Alive::of(&self.parts.connection, opened);
        drop(channels);
        if alive.sessions.is_empty() {
            return;
        }
        let subject = self
            .parts
            .subjects
            .to_leader(&self.parts.tenant, ToLeader::Alive);
        let client = self.client.clone();
        let said = async move {
            // The next report makes up for a lost one.
            let _ = client.publish(subject, encode(&alive).into()).await;
        };
        context.spawn(said.into_actor(self));
    }
}

impl Handler<Open> for AgentActor {
    type Result = ();

    fn handle(&mut self, Open(devices, reply): Open, context: &mut Context<Self>) {
        let opening = Opening {
            tenant: self.parts.tenant.clone(),
            connection: self.parts.connection.clone(),
            nonce: random_id(),
            devices,
            patience: self.parts.settings.patience,
        };
        let (client, subjects) = (self.client.clone(), self.parts.subjects.clone());
        let asked = async move { open(&client, &subjects, &opening).await };
        let begun = asked.into_actor(self).map(move |answer, agent, _| {
            let channels = answer.map(|devices| {
                let devices = devices.into_iter();
                let channels = devices.map(|(opened, heard)| agent.begin(opened, heard));
                channels.collect::<Vec<_>>()
            });
            // The caller may have given up: then only the agent holds the channels.
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
        let (telemetry, tenant) = (&self.parts.settings.telemetry, &self.parts.tenant);
        let requests = Requests::new(telemetry, tenant, self.parts.evidence.clone());
        let channel = Arc::new(SessionChannel::new(
            opened,
            self.client.clone(),
            &self.parts.subjects,
            &self.parts.tenant,
            Box::new(requests),
            self.parts.driver.clone(),
            self.parts.settings.deadline,
        ));
        locked(&self.parts.channels).insert(session, Arc::clone(&channel));
        let (served, channels) = (Arc::clone(&channel), Arc::clone(&self.parts.channels));
        let subjects = self.parts.subjects.clone();
        self.parts.driver.handle().spawn(async move {
            serve(served, subjects, heard).await;
            locked(&channels).remove(&session);
        });
        channel
    }
}

impl StreamHandler<BusMessage> for AgentActor {
    fn handle(&mut self, message: BusMessage, context: &mut Context<Self>) {
        if let Ok(beat) = decode::<LeaderBeat>(&message.payload)
            // With a clustered broker the heartbeat comes every second, and is new only once.
            && self.leader.replace((beat.epoch, beat.leader)) != Some((beat.epoch, beat.leader))
        {
            for channel in locked(&self.parts.channels).values() {
                channel.new_term(beat);
            }
            self.live_soon(context);
        }
    }
}

impl StreamHandler<ConnectionChange> for AgentActor {
    fn handle(&mut self, link: ConnectionChange, context: &mut Context<Self>) {
        match link {
            ConnectionChange::Up => {
                for channel in locked(&self.parts.channels).values() {
                    channel.reconnected();
                }
                self.live_soon(context);
            }
            ConnectionChange::Down => {
                tracing::info!("the connection to the broker is gone");
                for channel in locked(&self.parts.channels).values() {
                    channel.disconnected();
                }
            }
            ConnectionChange::Slow => tracing::warn!("messages of the broker were dropped here"),
            ConnectionChange::Refused(detail) => tracing::warn!(detail, "the broker refuses"),
        }
    }
}

fn locked(channels: &Table) -> std::sync::MutexGuard<'_, BTreeMap<SessionId, Arc<SessionChannel>>> {
    channels.lock().unwrap_or_else(PoisonError::into_inner)
}
