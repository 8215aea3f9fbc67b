//! A client process: the real outboxes of its sessions, and the programs that use them.

mod session;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use bus_schemas::subject::{Subjects, ToClient, ToLeader, ToWorker};
use bus_schemas::{
    Alive, CloseReason, Code, DeviceResult, Failure, Intent, KernelKey, Launch, LeaderBeat,
    LeaderNotice, ModuleHash, Op, OpNumber, OpenAnswer, OpenRequest, Opened, Rejected, SessionId,
    Tenant, WIRE_VERSION, WorkerAck, decode, encode,
};
use client_agent_core::{Action, Addresses, Event, Outbox, OutboxSettings, PushError};

use self::session::{Progress, Running};
use crate::device::{kernel_key, op_print};
use crate::fact::Fact;
use crate::memory::{Cells, Memory, clear, write};
use crate::network::Packet;
use crate::node::{Input, Io, Node};
use crate::program::{
    self, ALIVE_EVERY, Conduct, Death, FULL_WAIT, Plan, Program, REQUEST_AGAIN, Step,
};
use crate::scene::SLOTS;
use virtual_time::Nanos;
use virtual_time::Random;

const DIE: u64 = 0;
const ALIVE: u64 = 1;

/// One client process.
pub(crate) struct ClientNode {
    subjects: Subjects,
    tenant: Tenant,
    name: String,
    dies: Option<Death>,
    runners: Vec<Runner>,
    finished: bool,
}

enum Phase {
    /// Asks for its session from this time on.
    Asking(Nanos),
    Running(Box<Running>),
    Over,
}

struct Runner {
    nonce: u64,
    program: VecDeque<Step>,
    conduct: Conduct,
    random: Random,
    phase: Phase,
}

impl ClientNode {
    /// A client process about to start.
    #[must_use]
    pub(crate) fn new(cluster: &Tenant, tenant: Tenant, plan: Plan, mut random: Random) -> Self {
        let name = format!("client-{:016x}", random.draw());
        let seed = random.draw();
        let runner = |program: Program| {
            let random = Random::of(seed, u64::from(program.number));
            Runner::new(program, random)
        };
        let runners = plan.programs.into_iter().map(runner).collect();
        Self {
            subjects: Subjects::new(cluster),
            tenant,
            name,
            dies: plan.dies,
            runners,
            finished: false,
        }
    }

    fn start(&mut self, io: &mut Io) {
        io.name = Some(self.name.as_str().into());
        io.subscribe(self.subjects.reign(&self.tenant));
        io.subscribe(format!("{}.{}.*", self.inbox(), self.name));
        if let Some(death) = self.dies {
            io.later(death.at, DIE);
        }
        io.later(io.now + ALIVE_EVERY, ALIVE);
        self.drive(io);
    }

    fn inbox(&self) -> String {
        self.subjects.tenant_inbox(&self.tenant)
    }

    fn message(&mut self, io: &mut Io, packet: &Packet) {
        let bytes = &packet.bytes;
        if let Some((session, what)) = self.subjects.parse_client(&packet.subject) {
            let runner = self
                .runners
                .iter_mut()
                .find(|r| r.session() == Some(session));
            if let Some(runner) = runner {
                runner.hear(io, &self.subjects, &self.tenant, what, bytes);
            }
        } else if *packet.subject == *self.subjects.reign(&self.tenant) {
            if let Ok(beat) = decode::<LeaderBeat>(bytes) {
                for runner in &mut self.runners {
                    runner.event(io, &self.subjects, &self.tenant, Event::Reign(beat));
                }
            }
        } else if let Ok(answer) = decode::<OpenAnswer>(bytes) {
            let nonce = packet.subject.rsplit('.').next();
            let nonce = nonce.and_then(|text| u64::from_str_radix(text, 16).ok());
            let runner = self.runners.iter_mut().find(|r| Some(r.nonce) == nonce);
            if let Some(runner) = runner {
                runner.answered(io, &self.subjects, &self.tenant, answer);
            }
        }
        self.drive(io);
    }

    fn drive(&mut self, io: &mut Io) {
        let inbox = format!("{}.{}", self.inbox(), self.name);
        let mut wake: Option<Nanos> = None;
        for runner in &mut self.runners {
            let next = runner.drive(io, &self.subjects, &self.tenant, &self.name, &inbox);
            wake = [wake, next].into_iter().flatten().min();
        }
        io.wake = wake;
        if !self.finished && self.runners.iter().all(Runner::is_over) {
            self.finished = true;
            io.fact(Fact::Finished);
        }
    }

    fn say_alive(&mut self, io: &mut Io) {
        let sessions: Vec<SessionId> = self.runners.iter().filter_map(Runner::session).collect();
        if !sessions.is_empty() {
            let message = Alive {
                v: WIRE_VERSION,
                connection: self.name.clone(),
                sessions,
            };
            let subject = self.subjects.to_leader(&self.tenant, ToLeader::Alive);
            io.publish(subject, encode(&message));
        }
        io.later(io.now + ALIVE_EVERY, ALIVE);
    }
}

impl Node for ClientNode {
    fn handle(&mut self, io: &mut Io, input: Input) {
        match input {
            Input::Started => self.start(io),
            Input::Message(packet) => self.message(io, &packet),
            Input::Wake => self.drive(io),
            Input::Later(DIE) => {
                io.fact(Fact::Finished);
                io.die(self.dies.is_some_and(|death| death.told));
            }
            Input::Later(_) => self.say_alive(io),
            Input::Connection(true) => {
                for runner in &mut self.runners {
                    runner.event(io, &self.subjects, &self.tenant, Event::Reconnected);
                }
                self.drive(io);
            }
            Input::Connection(false)
            | Input::Closed(_)
            | Input::Store(..)
            | Input::Lease(_)
            | Input::Terminate => {}
        }
    }

    /// That of its session that is least far.
    fn state(&self) -> &'static str {
        let states = ["opening", "working", "waiting", "closing", "over"];
        let stages = self.runners.iter().map(Runner::stage);
        stages.min().map_or("over", |stage| states[stage])
    }
}

impl Runner {
    fn new(program: Program, mut random: Random) -> Self {
        Self {
            nonce: random.draw(),
            program: program.steps.into(),
            conduct: program.conduct,
            random,
            phase: Phase::Asking(program.start),
        }
    }

    fn is_over(&self) -> bool {
        match &self.phase {
            Phase::Asking(_) => false,
            Phase::Over => true,
            // A program that does not close its session is over once it has all its answers.
            Phase::Running(running) => {
                running.failed || self.program.is_empty() && !running.closing
            }
        }
    }

    /// How far it is.
    fn stage(&self) -> usize {
        match &self.phase {
            Phase::Asking(_) => 0,
            Phase::Running(running) if running.failed => 4,
            Phase::Running(running) if running.closing => 3,
            Phase::Running(running) => 1 + usize::from(!running.awaited.is_empty()),
            Phase::Over => 4,
        }
    }

    fn session(&self) -> Option<SessionId> {
        match &self.phase {
            Phase::Running(running) => Some(running.opened.session),
            _ => None,
        }
    }

    fn answered(&mut self, io: &mut Io, subjects: &Subjects, tenant: &Tenant, answer: OpenAnswer) {
        if !matches!(self.phase, Phase::Asking(_)) {
            return;
        }
        match (answer.opened, answer.failure) {
            (Some(opened), _) => {
                io.subscribe(subjects.session_hears(tenant, opened.session));
                let settings = OutboxSettings::new(opened.session, opened.epoch, opened.leader);
                io.fact(Fact::Opened {
                    nonce: self.nonce,
                    tenant: tenant.clone(),
                    opened: Box::new(opened.clone()),
                    doomed: self.conduct != Conduct::Honest,
                });
                self.phase = Phase::Running(Box::new(Running {
                    outbox: Outbox::new(settings),
                    addresses: Addresses::new(opened.window, opened.quota),
                    allocated: VecDeque::new(),
                    modules: vec![None; SLOTS as usize],
                    memory: Memory::default(),
                    cells: Cells::new(),
                    awaited: VecDeque::new(),
                    arrived: BTreeMap::new(),
                    not_before: 0,
                    failed: false,
                    closing: false,
                    opened,
                }));
            }
            (None, Some(failure)) if failure.retryable => {
                self.phase = Phase::Asking(io.now + REQUEST_AGAIN);
            }
            (None, failure) => {
                let failure = failure
                    .unwrap_or_else(|| Failure::new(Code::Malformed, "an answer without content"));
                io.fact(Fact::Refused { failure });
                self.phase = Phase::Over;
            }
        }
    }

    fn hear(
        &mut self,
        io: &mut Io,
        subjects: &Subjects,
        tenant: &Tenant,
        what: ToClient,
        bytes: &[u8],
    ) {
        match what {
            ToClient::Worker => {
                if let Ok(ack) = decode::<WorkerAck<'_>>(bytes) {
                    self.event(io, subjects, tenant, Event::WorkerAck(&ack));
                }
            }
            ToClient::Result => {
                let message = Bytes::copy_from_slice(bytes);
                if let Ok(result) = decode::<DeviceResult<'_>>(&message) {
                    self.event(io, subjects, tenant, Event::Result(result, &message));
                }
            }
            ToClient::Leader => {
                if let Ok(notice) = decode::<LeaderNotice>(bytes) {
                    self.event(io, subjects, tenant, Event::LeaderNotice(&notice));
                }
            }
            ToClient::Error => {
                if let Ok(rejected) = decode::<Rejected>(bytes) {
                    self.event(io, subjects, tenant, Event::Error(rejected.failure));
                }
            }
        }
    }

    fn event(&mut self, io: &mut Io, subjects: &Subjects, tenant: &Tenant, event: Event<'_>) {
        let Phase::Running(running) = &mut self.phase else {
            return;
        };
        let mut actions = Vec::new();
        running.outbox.handle(io.now, event, &mut actions);
        let over = running.carry_out(io, subjects, tenant, self.conduct, actions);
        if over {
            self.phase = Phase::Over;
        }
    }

    /// Goes on with the program as far as it can; gives when it wants to go on.
    fn drive(
        &mut self,
        io: &mut Io,
        subjects: &Subjects,
        tenant: &Tenant,
        name: &str,
        inbox: &str,
    ) -> Option<Nanos> {
        if let Phase::Asking(at) = &mut self.phase {
            if *at <= io.now {
                let request = OpenRequest {
                    v: WIRE_VERSION,
                    nonce: self.nonce,
                    connection: name.to_owned(),
                    devices: 1,
                };
                let subject = subjects.to_leader(tenant, ToLeader::Open);
                let reply = format!("{inbox}.{:016x}", self.nonce);
                io.request(subject, reply, encode(&request));
                *at = io.now + REQUEST_AGAIN;
                io.fact(Fact::Asked { nonce: self.nonce });
            }
            return Some(*at);
        }
        self.event(io, subjects, tenant, Event::Tick);
        let mut rest = None;
        while rest.is_none() {
            let Phase::Running(running) = &mut self.phase else {
                return None;
            };
            if running.failed || self.program.is_empty() {
                break;
            }
            let step = running.step(io, &mut self.program, &mut self.random);
            if running.outbox.wants_flush() {
                self.event(io, subjects, tenant, Event::Flush);
            }
            match step {
                Progress::On => {}
                Progress::Close => {
                    self.event(io, subjects, tenant, Event::Close(CloseReason::Asked));
                }
                Progress::Rest(until) => rest = Some(until),
            }
        }
        // The program rests: what it pushed is sent now, as a linger of zero would.
        if rest.is_some() {
            self.event(io, subjects, tenant, Event::Flush);
        }
        match &self.phase {
            Phase::Running(running) => [rest.flatten(), running.outbox.next_wakeup()]
                .into_iter()
                .flatten()
                .min(),
            _ => None,
        }
    }
}
