//! The process's connection: its sessions are opened on it, live with it, and end before it.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::Subscriber;
use bus::{BusSettings, ConnectionChange, random_id};
use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{Alive, Code, LeaderBeat, Opened, SessionId, decode, encode};
use client_session::{
    ClientError, Driver, Opening, ProgramSettings, Session, SessionChannel, block_signals, open,
    serve,
};
use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;

use crate::device::Reservation;
use crate::lock::lock;
use crate::onlooker::Onlooker;
use crate::status::{Result, Status, note};

/// Interval of the messages that tell the leader that the sessions live.
const ALIVE: Duration = Duration::from_secs(10);
/// Time that a new leader, or a new connection, takes to be ready for it.
const SETTLING: Duration = Duration::from_millis(250);
/// Time that the exit of the process waits for its sessions to end.
pub(crate) const FAREWELL: Duration = Duration::from_millis(200);
/// Maximum number of attempts to get a window that is free in this process too.
const WINDOWS: usize = 4;

/// The connection, shared with its tasks.
#[derive(Clone)]
pub(crate) struct Connection {
    client: async_nats::Client,
    subjects: Subjects,
    /// Name of the connection.
    name: String,
    driver: Driver,
    images: Arc<client_session::Images>,
    channels: Arc<Mutex<Vec<Arc<SessionChannel>>>>,
    /// Wakes the task that sends such a message to the leader soon.
    stir: Arc<Notify>,
}

/// The reason why there is no device yet, with advice if the user can change it.
fn not_ready(error: ClientError) -> Status {
    let advice = match error.code() {
        Code::TooFewWorkers => {
            "`warploom status` shows the workers; ask for fewer devices, or start more workers"
        }
        code if code.is_placement() => {
            "`warploom status` shows the workers; `warploom worker` starts one"
        }
        Code::NoLeader => {
            "`warploom status` shows what there is; `warploom up` starts a cluster, and `warploom \
             run` starts the program on it, or on one of its own where none is configured"
        }
        _ => return error.into(),
    };
    note(Status::SYSTEM_NOT_READY, format!("{error}; {advice}"));
    Status::SYSTEM_NOT_READY
}

impl Connection {
    /// Connects, and from then on receives news of the link and of new leaders.
    pub(crate) fn start(settings: &ProgramSettings) -> Result<Self> {
        let name = format!("client-{:016x}", random_id());
        let subjects = Subjects::new(&settings.cluster);
        let wanted = BusSettings {
            url: settings.url.clone(),
            login: settings.login.clone(),
            name: name.clone(),
            inbox: subjects.tenant_inbox(&settings.tenant),
            pulse: Some(subjects.term(&settings.tenant)),
            patience: Some(settings.opening),
        };
        let failed = |error: std::io::Error| {
            note(Status::OPERATING_SYSTEM, error.to_string());
            Status::OPERATING_SYSTEM
        };
        let (driver, _thread) = Driver::start(block_signals).map_err(failed)?;
        let term = subjects.term(&settings.tenant);
        let connecting = driver.handle().spawn(async move {
            let (client, links) = bus::connect(&wanted).await.map_err(ClientError::from)?;
            let terms = client.subscribe(term).await;
            let terms = terms.map_err(|error| ClientError::Connect(error.to_string()))?;
            Ok::<_, ClientError>((client, links, terms))
        });
        let connected = driver.wait(connecting);
        let connected = connected.unwrap_or_else(|_| Err(ClientError::closed()));
        let connected = connected.inspect_err(|_| driver.stop());
        let (client, links, terms) = connected.map_err(not_ready)?;
        let connection = Self {
            client,
            subjects,
            name,
            driver,
            images: Arc::default(),
            channels: Arc::default(),
            stir: Arc::default(),
        };
        let tasks = connection.driver.handle();
        tasks.spawn(connection.clone().receive_links(links));
        tasks.spawn(connection.clone().receive_terms(terms));
        tasks.spawn(connection.clone().live(settings.tenant.clone()));
        Ok(connection)
    }

    /// Opens the devices' sessions with windows that are free in this process too, and reserves
    /// these windows.
    pub(crate) fn open(&self, settings: &ProgramSettings) -> Result<Vec<Session>> {
        // Kept until the next ones are open, so that those get other windows.
        let mut unfit = Vec::new();
        for _ in 0..WINDOWS {
            let sessions = self.open_once(settings)?;
            let windows = sessions.iter().map(|session| session.opened().window);
            let windows: Vec<_> = windows.collect();
            let reserved = windows.iter().map_while(|it| Reservation::of(*it));
            let reserved: Vec<_> = reserved.collect();
            let Some(taken) = windows.get(reserved.len()) else {
                reserved.into_iter().for_each(Reservation::keep);
                return Ok(sessions);
            };
            let (base, end) = (taken.base, taken.end());
            let why = format!("addresses {base:#x} to {end:#x} are taken");
            note(Status::OPERATING_SYSTEM, why);
            unfit.push(sessions);
        }
        Err(Status::OPERATING_SYSTEM)
    }

    fn open_once(&self, settings: &ProgramSettings) -> Result<Vec<Session>> {
        let opening = Opening {
            tenant: settings.tenant.clone(),
            connection: self.name.clone(),
            nonce: random_id(),
            devices: settings.devices as u32,
            patience: settings.opening,
        };
        let (client, subjects) = (self.client.clone(), self.subjects.clone());
        let asked = self
            .driver
            .handle()
            .spawn(async move { open(&client, &subjects, &opening).await });
        let opened = self.driver.wait(asked);
        let opened = opened.unwrap_or_else(|_| Err(ClientError::closed()));
        let devices = opened.map_err(not_ready)?.into_iter();
        let sessions = devices.map(|(opened, messages)| self.begin(opened, messages, settings));
        Ok(sessions.collect())
    }

    /// Starts to serve a session.
    fn begin(&self, opened: Opened, messages: Subscriber, settings: &ProgramSettings) -> Session {
        let channel = Arc::new(SessionChannel::new(
            opened,
            self.client.clone(),
            &self.subjects,
            &settings.tenant,
            Box::new(Onlooker::new()),
            self.driver.clone(),
            settings.deadline,
        ));
        enlist(channel.opened().session);
        lock(&self.channels).push(Arc::clone(&channel));
        let (served, subjects, channels) = (
            Arc::clone(&channel),
            self.subjects.clone(),
            Arc::clone(&self.channels),
        );
        self.driver.handle().spawn(async move {
            let session = served.opened().session;
            serve(served, subjects, messages).await;
            let mut channels = lock(&channels);
            channels.retain(|channel| channel.opened().session != session);
        });
        Session::new(channel, Arc::clone(&self.images), settings.opening)
    }

    async fn receive_links(self, mut links: UnboundedReceiver<ConnectionChange>) {
        while let Some(link) = links.recv().await {
            match link {
                ConnectionChange::Up => {
                    lock(&self.channels)
                        .iter()
                        .for_each(|channel| channel.reconnected());
                    self.stir.notify_one();
                }
                ConnectionChange::Down => lock(&self.channels)
                    .iter()
                    .for_each(|channel| channel.disconnected()),
                ConnectionChange::Slow | ConnectionChange::Refused(_) => {}
            }
        }
    }

    async fn receive_terms(self, mut terms: Subscriber) {
        // A cluster of brokers repeats it every second; only the first is news.
        let mut last = None;
        while let Some(message) = terms.next().await {
            if let Ok(beat) = decode::<LeaderBeat>(&message.payload)
                && last.replace((beat.epoch, beat.leader)) != Some((beat.epoch, beat.leader))
            {
                lock(&self.channels)
                    .iter()
                    .for_each(|channel| channel.new_term(beat));
                self.stir.notify_one();
            }
        }
    }

    /// Tells the leader that the sessions live, and on which connection. Otherwise a new leader
    /// could not attribute them when that connection closes.
    async fn live(self, tenant: bus_schemas::Tenant) {
        let subject = self.subjects.to_leader(&tenant, ToLeader::Alive);
        loop {
            if tokio::time::timeout(ALIVE, self.stir.notified())
                .await
                .is_ok()
            {
                tokio::time::sleep(SETTLING).await;
            }
            let alive = {
                let channels = lock(&self.channels);
                let opened = channels.iter().map(|channel| channel.opened());
                Alive::of(&self.name, opened)
            };
            if alive.sessions.is_empty() {
                continue;
            }
            // The next one makes up for a lost one.
            let _ = self
                .client
                .publish(subject.clone(), encode(&alive).into())
                .await;
        }
    }

    /// Ends the sessions, and waits briefly for that.
    pub(crate) fn leave(&self) {
        let channels: Vec<_> = lock(&self.channels).clone();
        channels.iter().for_each(|channel| channel.close());
        let ended = async {
            let all = async {
                for channel in &channels {
                    channel.ended().await;
                }
            };
            let _ = tokio::time::timeout(FAREWELL, all).await;
            if channels.iter().any(|channel| channel.opened().traced) {
                channels.iter().for_each(|channel| channel.report_rest());
                let _ = tokio::time::timeout(FAREWELL / 2, self.client.flush()).await;
            }
        };
        self.driver.wait(ended);
    }
}

/// Tells `warploom run` of a session, so that the session ends with the program, however the
/// program ends.
fn enlist(session: SessionId) {
    let Some(path) = std::env::var_os("WARPLOOM_SESSIONS") else {
        return;
    };
    let file = std::fs::File::options().append(true).open(path);
    // Without this, the session ends some seconds after its connection.
    let _ = file.and_then(|mut file| writeln!(file, "{session}"));
}
