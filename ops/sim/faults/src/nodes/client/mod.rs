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
use client_agent_core::{Action, Event, PushError};

use self::session::{Progress, Running};
use crate::device::{kernel_key, op_print};
use crate::fact::Fact;
use crate::network::Packet;
use crate::node::{Input, Io, Node};
use crate::program::{
    self, ALIVE_EVERY, Conduct, Death, FULL_WAIT, Plan, Program, REQUEST_AGAIN, Step,
};
use sim_time::Random;
use sim_time::{MILLI, Nanos};

const DIE: u64 = 0;
const ALIVE: u64 = 1;
const SETTLED: u64 = 2;
/// How long a new leader, or a new connection, takes to be there for the sign of life.
const SETTLING: Nanos = 250 * MILLI;

/// One client process.
pub(crate) struct ClientNode {
    subjects: Subjects,
    tenant: Tenant,
    name: String,
    dies: Option<Death>,
    deadline: Nanos,
    runners: Vec<Runner>,
    // Nothing to do, or nothing but to wait for a place.
    idle: bool,
}

enum Phase {
    /// Asks for its session from this time on.
    Asking(Nanos),
    Running(Box<Running>),
    Over,
}

struct Runner {
    nonce: u64,
    devices: u32,
    asked: bool,
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
            deadline: match plan.deadline {
                0 => Nanos::MAX,
                deadline => deadline,
            },
            runners,
            idle: false,
        }
    }

    fn start(&mut self, io: &mut Io) {
        io.name = Some(self.name.as_str().into());
        io.subscribe(self.subjects.term(&self.tenant));
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
        } else if *packet.subject == *self.subjects.term(&self.tenant) {
            if let Ok(beat) = decode::<LeaderBeat>(bytes) {
                io.later(io.now + SETTLING, SETTLED);
                for runner in &mut self.runners {
                    runner.event(io, &self.subjects, &self.tenant, Event::Term(beat));
                }
            }
        } else if let Ok(answer) = decode::<OpenAnswer>(bytes) {
            let nonce = packet.subject.rsplit('.').next();
            let nonce = nonce.and_then(|text| u64::from_str_radix(text, 16).ok());
            let runner = self.runners.iter_mut().find(|r| Some(r.nonce) == nonce);
            if let Some(runner) = runner {
                let others =
                    runner.answered(io, &self.subjects, (&self.tenant, self.deadline), answer);
                self.runners.extend(others);
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
        let idle = self.runners.iter().all(Runner::is_idle);
        if self.idle != idle {
            self.idle = idle;
            io.fact(if idle { Fact::Finished } else { Fact::WentOn });
        }
    }

    fn say_alive(&mut self, io: &mut Io) {
        let opened = self.runners.iter().filter_map(Runner::opened);
        let (sessions, workers): (Vec<_>, Vec<_>) =
            opened.map(|it| (it.session, it.incarnation)).unzip();
        if !sessions.is_empty() {
            let message = Alive {
                v: WIRE_VERSION,
                connection: self.name.clone(),
                sessions,
                workers,
            };
            let subject = self.subjects.to_leader(&self.tenant, ToLeader::Alive);
            io.publish(subject, encode(&message));
        }
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
            Input::Later(what) => {
                self.say_alive(io);
                if what == ALIVE {
                    io.later(io.now + ALIVE_EVERY, ALIVE);
                }
            }
            Input::Connection(true) => {
                for runner in &mut self.runners {
                    runner.event(io, &self.subjects, &self.tenant, Event::Reconnected);
                }
                io.later(io.now + SETTLING, SETTLED);
                self.drive(io);
            }
            Input::Connection(false) => {
                for runner in &mut self.runners {
                    runner.event(io, &self.subjects, &self.tenant, Event::Disconnected);
                }
                self.drive(io);
            }
            Input::Closed(_)
            | Input::Store(..)
            | Input::Lease(_)
            | Input::Placement(_)
            | Input::Terminate => {}
        }
    }

    /// That of its session that is least far.
    fn state(&self) -> &'static str {
        let states = [
            "opening several",
            "opening",
            "working",
            "waiting",
            "closing",
            "over",
        ];
        let stages = self.runners.iter().map(Runner::stage);
        stages.min().map_or("over", |stage| states[stage])
    }
}

impl Runner {
    fn new(program: Program, mut random: Random) -> Self {
        Self {
            nonce: random.draw(),
            devices: program.devices,
            asked: false,
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

    /// Whether it is over, or can but wait for a place.
    fn is_idle(&self) -> bool {
        let waits = self.asked && matches!(self.phase, Phase::Asking(_));
        waits || self.is_over()
    }

    /// How far it is.
    fn stage(&self) -> usize {
        match &self.phase {
            Phase::Asking(_) => usize::from(self.devices == 1),
            Phase::Running(running) if running.failed => 5,
            Phase::Running(running) if running.closing => 4,
            Phase::Running(running) => 2 + usize::from(!running.awaited.is_empty()),
            Phase::Over => 5,
        }
    }

    fn session(&self) -> Option<SessionId> {
        self.opened().map(|opened| opened.session)
    }

    fn opened(&self) -> Option<&Opened> {
        match &self.phase {
            Phase::Running(running) => Some(&running.opened),
            _ => None,
        }
    }

    /// An answer to its request has come. Gives who runs the program on the other devices.
    fn answered(
        &mut self,
        io: &mut Io,
        subjects: &Subjects,
        (tenant, deadline): (&Tenant, Nanos),
        answer: OpenAnswer,
    ) -> Vec<Self> {
        if !matches!(self.phase, Phase::Asking(_)) {
            return Vec::new();
        }
        let failure = answer.failure.clone();
        let devices = answer.devices();
        if devices.is_empty() {
            let none = || Failure::new(Code::Malformed, "an answer without content");
            self.refused(io, failure.unwrap_or_else(none));
            return Vec::new();
        }
        io.fact(Fact::Opened {
            nonce: self.nonce,
            tenant: tenant.clone(),
            devices: devices.clone(),
            doomed: self.conduct != Conduct::Honest,
        });
        let mut others = Vec::new();
        for (index, opened) in (0..).zip(devices) {
            io.subscribe(subjects.session_inbound(tenant, opened.session));
            match index {
                0 => self.phase = Phase::Running(Box::new(Running::new(opened, deadline))),
                _ => others.push(self.on_another(index, opened, deadline)),
            }
        }
        others
    }

    /// The same program on another device, without what makes it fail.
    fn on_another(&mut self, index: u64, opened: Opened, deadline: Nanos) -> Self {
        let harmless = self.program.iter().filter(|step| !step.is_fatal());
        Self {
            nonce: self.nonce.wrapping_add(index),
            devices: self.devices,
            asked: true,
            program: harmless.cloned().collect(),
            conduct: Conduct::Honest,
            random: self.random.fork(),
            phase: Phase::Running(Box::new(Running::new(opened, deadline))),
        }
    }

    fn refused(&mut self, io: &mut Io, failure: Failure) {
        if failure.retryable {
            let (nonce, code) = (self.nonce, failure.code);
            io.fact(Fact::Declined { nonce, code });
            self.phase = Phase::Asking(io.now + REQUEST_AGAIN);
        } else {
            io.fact(Fact::Refused { failure });
            self.phase = Phase::Over;
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
                    devices: self.devices,
                };
                let subject = subjects.to_leader(tenant, ToLeader::Open);
                let reply = format!("{inbox}.{:016x}", self.nonce);
                io.request(subject, reply, encode(&request));
                *at = io.now + REQUEST_AGAIN;
                self.asked = true;
                io.fact(Fact::Asked {
                    nonce: self.nonce,
                    tenant: tenant.clone(),
                    devices: self.devices,
                });
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
