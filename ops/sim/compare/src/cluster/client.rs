//! A client: the real outbox, and the program that uses it.

use std::sync::Arc;

use bus_schemas::subject::{ToClient, ToLeader, ToWorker};
use bus_schemas::{
    Alive, DeviceResult, Launch, LeaderBeat, LeaderNotice, Op, OpenAnswer, OpenRequest, Opened,
    Rejected, WIRE_VERSION, WorkerAck, decode, encode,
};
use bytes::Bytes;
use client_agent_core::{Action, Event, Outbox, OutboxSettings, PushError};

use super::bus::{Bus, Called, Message, Party};
use super::place::Place;
use crate::outcome::Tenancy;
use crate::program::{Program, Step};
use crate::scenario::{Scenario, SimulationError};
use sim_cluster::{MICRO, MILLI, Nanos, SECOND};

/// Until the session's task, woken for what may linger, has run.
const LINGER: Nanos = 20 * MICRO;
const ASK_AGAIN: Nanos = 50 * MILLI;
const ALIVE_EVERY: Nanos = 10 * SECOND;
/// Bytes of a launch's parameters.
const PARAMS: [u8; 64] = [0; 64];

/// A client's process.
pub(super) struct Client {
    index: usize,
    name: String,
    program: Program,
    session: Option<Box<Session>>,
    ask_at: Nanos,
    alive_at: Nanos,
    pub wake: Option<Nanos>,
}

struct Session {
    opened: Opened,
    outbox: Outbox,
    linger_at: Option<Nanos>,
    /// No call is made before something was acknowledged.
    full: bool,
    batches: Arc<str>,
    states: Arc<str>,
    intents: Arc<str>,
}

impl Client {
    pub(super) fn new(scenario: &Scenario, index: usize) -> Self {
        Self {
            index,
            name: format!("client-{index}"),
            program: Program::new(scenario, index),
            session: None,
            ask_at: MILLI,
            alive_at: MILLI,
            wake: Some(MILLI),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.session.is_some()
    }

    fn say(&self, now: Nanos, to: Party, message: Message, bus: &mut Bus) {
        bus.send(now, Party::Client(self.index), to, message);
    }

    /// Does what is due.
    pub(super) fn drive(
        &mut self,
        now: Nanos,
        scenario: &Scenario,
        place: &Place,
        bus: &mut Bus,
    ) -> Result<(), SimulationError> {
        if self.session.is_none() {
            self.ask(now, place, bus);
            self.wake = Some(self.ask_at);
            return Ok(());
        }
        if self.alive_at <= now {
            self.say_alive(now, place, bus);
        }
        self.tick(now, bus)?;
        self.call(now, scenario, place, bus)?;
        self.set_wake();
        Ok(())
    }

    fn set_wake(&mut self) {
        let Some(session) = &self.session else {
            return;
        };
        let program = self.program.next_at().filter(|_| !session.full);
        let own = [program, session.linger_at, session.outbox.next_wakeup()];
        self.wake = own.into_iter().flatten().chain([self.alive_at]).min();
    }

    fn ask(&mut self, now: Nanos, place: &Place, bus: &mut Bus) {
        if self.ask_at > now {
            return;
        }
        let tenant = &place.tenants[self.index];
        let request = OpenRequest {
            v: WIRE_VERSION,
            nonce: self.index as u64 + 1,
            connection: self.name.clone(),
            devices: 1,
        };
        let inbox = place.subjects.tenant_inbox(tenant);
        let message = Message {
            subject: place.subjects.to_leader(tenant, ToLeader::Open).into(),
            reply: Some(format!("{inbox}.{}.1", self.name).into()),
            bytes: encode(&request),
        };
        self.say(now, Party::Leader, message, bus);
        self.ask_at = now + ASK_AGAIN;
    }

    fn say_alive(&mut self, now: Nanos, place: &Place, bus: &mut Bus) {
        let tenant = &place.tenants[self.index];
        let opened = self.session.as_ref().map(|session| &session.opened);
        let opened = opened.into_iter();
        let (sessions, workers) = opened.map(|it| (it.session, it.incarnation)).unzip();
        let alive = Alive {
            v: WIRE_VERSION,
            connection: self.name.clone(),
            sessions,
            workers,
        };
        let message = Message {
            subject: place.subjects.to_leader(tenant, ToLeader::Alive).into(),
            reply: None,
            bytes: encode(&alive),
        };
        self.say(now, Party::Leader, message, bus);
        self.alive_at = now + ALIVE_EVERY;
    }

    /// The session's task looks at the clock.
    fn tick(&mut self, now: Nanos, bus: &mut Bus) -> Result<(), SimulationError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let due = |at: Option<Nanos>| at.is_some_and(|at| at <= now);
        if due(session.linger_at) {
            session.linger_at = None;
            if session.outbox.wants_flush() {
                return self.event(now, Event::Flush, bus, None);
            }
        }
        if due(session.outbox.next_wakeup()) {
            return self.event(now, Event::Tick, bus, None);
        }
        Ok(())
    }

    /// The program goes on as far as it can.
    fn call(
        &mut self,
        now: Nanos,
        scenario: &Scenario,
        place: &Place,
        bus: &mut Bus,
    ) -> Result<(), SimulationError> {
        while let Some(session) = &mut self.session
            && self.program.next_at().is_some_and(|at| at <= now)
        {
            session.full = !session.outbox.has_room();
            if session.full {
                return self.event(now, Event::Flush, bus, None);
            }
            let pushed = match self.program.step(now) {
                Step::Launch { request, kernel } => {
                    let at = now;
                    bus.called[self.index].push_back(Called {
                        request,
                        kernel,
                        at,
                    });
                    let key = place.keys[self.index][kernel as usize];
                    session.outbox.push(&launch(kernel), 0, &PARAMS, key)
                }
                Step::Wait => session
                    .outbox
                    .push(&Op::Sync, 0, &[], bus_schemas::KernelKey(0)),
                Step::At(_) | Step::Answer => continue,
            };
            pushed.map_err(refused)?;
            if !session.outbox.wants_flush() {
                continue;
            }
            if session.outbox.may_linger() {
                session.linger_at.get_or_insert(now + LINGER);
            } else {
                self.event(now, Event::Flush, bus, None)?;
            }
        }
        debug_assert!(scenario.call > 0, "a program's calls take time");
        Ok(())
    }

    pub(super) fn message(
        &mut self,
        now: Nanos,
        message: &Message,
        (scenario, place): (&Scenario, &Place),
        bus: &mut Bus,
        tenancy: &mut Tenancy,
    ) -> Result<(), SimulationError> {
        let bytes = &message.bytes;
        let own = self.session.as_ref().map(|session| session.opened.session);
        let mut answered = Some((scenario, tenancy));
        match place.subjects.parse_client(&message.subject) {
            Some((session, what)) if Some(session) == own => match what {
                ToClient::Worker => {
                    let ack = decode::<WorkerAck<'_>>(bytes).map_err(unread)?;
                    self.event(now, Event::WorkerAck(&ack), bus, None)?;
                }
                ToClient::Result => {
                    let bytes = Bytes::copy_from_slice(bytes);
                    let result = decode::<DeviceResult<'_>>(&bytes).map_err(unread)?;
                    let event = Event::Result(result, &bytes);
                    self.event(now, event, bus, answered.take())?;
                }
                ToClient::Leader => {
                    let notice = decode::<LeaderNotice>(bytes).map_err(unread)?;
                    self.event(now, Event::LeaderNotice(&notice), bus, None)?;
                }
                ToClient::Error => {
                    let rejected = decode::<Rejected>(bytes).map_err(unread)?;
                    return Err(SimulationError::Cluster(format!("{:?}", rejected.failure)));
                }
            },
            Some(_) => {}
            None => self.other(now, bytes, place, bus)?,
        }
        if let Some(session) = &mut self.session {
            session.full = false;
        }
        self.set_wake();
        Ok(())
    }

    /// A leader's beat, or the answer to our request.
    fn other(
        &mut self,
        now: Nanos,
        bytes: &[u8],
        place: &Place,
        bus: &mut Bus,
    ) -> Result<(), SimulationError> {
        if let Ok(beat) = decode::<LeaderBeat>(bytes) {
            return self.event(now, Event::Term(beat), bus, None);
        }
        let Ok(answer) = decode::<OpenAnswer>(bytes) else {
            return Ok(());
        };
        if let Some(opened) = answer.opened.filter(|_| self.session.is_none()) {
            let (tenant, subjects) = (&place.tenants[self.index], &place.subjects);
            let (worker, id) = (opened.incarnation, opened.session);
            let to_worker = |what| subjects.to_worker(tenant, worker, id, what).into();
            let settings = OutboxSettings::new(id, opened.epoch, opened.leader);
            self.session = Some(Box::new(Session {
                outbox: Outbox::new(settings),
                linger_at: None,
                full: false,
                batches: to_worker(ToWorker::Batch),
                states: to_worker(ToWorker::State),
                intents: subjects.to_leader(tenant, ToLeader::Intent(id)).into(),
                opened,
            }));
        }
        Ok(())
    }

    fn event(
        &mut self,
        now: Nanos,
        event: Event<'_>,
        bus: &mut Bus,
        mut answered: Option<(&Scenario, &mut Tenancy)>,
    ) -> Result<(), SimulationError> {
        let Some(session) = &mut self.session else {
            return Ok(());
        };
        let mut actions = Vec::new();
        session.outbox.handle(now, event, &mut actions);
        for action in actions {
            let (to, subject, bytes) = match action {
                Action::PublishBatch { bytes, .. } => (Party::Worker, &session.batches, bytes),
                Action::PublishIntent { bytes } => (Party::Leader, &session.intents, bytes),
                Action::PublishState { bytes } => (Party::Worker, &session.states, bytes),
                Action::Result { .. } => {
                    if let Some((scenario, tenancy)) = &mut answered {
                        self.program.answered(now, scenario, tenancy);
                    }
                    continue;
                }
                Action::Failed { failure, .. } => {
                    return Err(SimulationError::Cluster(format!("{failure:?}")));
                }
                // Of transfers and the session's end, which no program here has.
                _ => continue,
            };
            let message = Message {
                subject: subject.clone(),
                reply: None,
                bytes: bytes.to_vec(),
            };
            bus.send(now, Party::Client(self.index), to, message);
        }
        Ok(())
    }

    pub(super) fn finish(&mut self, scenario: &Scenario, tenancy: &mut Tenancy) {
        self.program.finish(scenario, tenancy);
    }
}

/// The launch of a model's kernel: its index tells the worker which.
fn launch(kernel: u32) -> Op {
    Op::Launch(Launch {
        module: 0,
        function: kernel,
        grid: [1; 3],
        block: [32, 1, 1],
        shared: 0,
    })
}

fn refused(error: PushError) -> SimulationError {
    SimulationError::Cluster(error.to_string())
}

fn unread(error: impl std::fmt::Display) -> SimulationError {
    SimulationError::Cluster(format!("an unreadable message: {error}"))
}
