//! One program of a client, from its request for a session.

use bus_schemas::subject::{Subjects, ToClient, ToLeader};
use bus_schemas::{
    CloseReason, Code, DeviceResult, Failure, IpcAnswer, LeaderNotice, MemoryAnswer, OpenAnswer,
    OpenRequest, Opened, Rejected, SessionId, Tenant, WIRE_VERSION, WorkerAck, decode, encode,
};
use bytes::Bytes;
use client_agent_core::Event;

use super::program::{ClientProgram, ProgramProgress};
use super::session::Session;
use crate::Nanos;
use crate::fact::ClientFact;
use crate::node::Io;

/// The client's tenant, and the names by which others know the client.
pub(super) struct Names {
    pub(super) subjects: Subjects,
    pub(super) tenant: Tenant,
    /// Its connection's name.
    pub(super) connection: String,
    /// Inbox for answers to its requests.
    pub(super) inbox: String,
}

enum Phase {
    /// Asks for its session from this time on.
    Asking(Nanos),
    Running(Box<Session>),
    Over,
}

/// One program with its session.
pub(super) struct Runner<P> {
    pub(super) nonce: u64,
    asked: bool,
    program: P,
    phase: Phase,
}

impl<P: ClientProgram> Runner<P> {
    pub(super) fn new(program: P) -> Self {
        Self {
            nonce: program.nonce(),
            asked: false,
            phase: Phase::Asking(program.start()),
            program,
        }
    }

    /// Makes a runner for another device of the program, with a session that is already open.
    fn opened_already(mut program: P, opened: Opened, names: &Names) -> Self {
        let settings = program.opened(&opened);
        let session = Session::new(opened, settings, &names.subjects, &names.tenant);
        Self {
            nonce: program.nonce(),
            asked: true,
            program,
            phase: Phase::Running(Box::new(session)),
        }
    }

    fn is_over(&self) -> bool {
        match &self.phase {
            Phase::Asking(_) => false,
            Phase::Over => true,
            // A program that does not close its session is over once it has all its answers.
            Phase::Running(session) => session.failed || self.program.is_done() && !session.closing,
        }
    }

    /// True if it is over, or can only wait for a place.
    pub(super) fn is_idle(&self) -> bool {
        let waits = self.asked && matches!(self.phase, Phase::Asking(_));
        waits || self.is_over()
    }

    /// Stage of the program; a higher one is more advanced.
    pub(super) fn stage(&self) -> usize {
        match &self.phase {
            Phase::Asking(_) => usize::from(self.program.devices() == 1),
            Phase::Running(session) if session.failed => 5,
            Phase::Running(session) if session.closing => 4,
            Phase::Running(_) => 2 + usize::from(self.program.is_waiting()),
            Phase::Over => 5,
        }
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.opened().map(|opened| opened.session)
    }

    pub(super) fn opened(&self) -> Option<&Opened> {
        match &self.phase {
            Phase::Running(session) => Some(&session.opened),
            _ => None,
        }
    }

    /// Takes an answer to its request. Returns runners for the program's other devices.
    pub(super) fn answered(&mut self, io: &mut Io, names: &Names, answer: OpenAnswer) -> Vec<Self> {
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
        io.fact(ClientFact::Opened {
            nonce: self.nonce,
            tenant: names.tenant.clone(),
            devices: devices.clone(),
            doomed: self.program.is_doomed(),
        });
        let mut others = Vec::new();
        for (index, opened) in (0..).zip(devices) {
            io.subscribe(
                names
                    .subjects
                    .session_inbound(&names.tenant, opened.session),
            );
            if index == 0 {
                let settings = self.program.opened(&opened);
                let session = Session::new(opened, settings, &names.subjects, &names.tenant);
                self.phase = Phase::Running(Box::new(session));
            } else {
                let program = self.program.on_another(index);
                others.push(Self::opened_already(program, opened, names));
            }
        }
        others
    }

    fn refused(&mut self, io: &mut Io, failure: Failure) {
        if failure.retryable {
            let (nonce, code) = (self.nonce, failure.code);
            io.fact(ClientFact::Declined { nonce, code });
            self.phase = Phase::Asking(io.now + P::HABITS.ask_again);
        } else {
            io.fact(ClientFact::Refused { failure });
            self.phase = Phase::Over;
        }
    }

    pub(super) fn hear(&mut self, io: &mut Io, names: &Names, what: ToClient, bytes: &[u8]) {
        match what {
            ToClient::Worker => {
                if let Ok(ack) = decode::<WorkerAck<'_>>(bytes) {
                    self.event(io, names, Event::WorkerAck(&ack));
                }
            }
            ToClient::Result => {
                let message = Bytes::copy_from_slice(bytes);
                if let Ok(result) = decode::<DeviceResult<'_>>(&message) {
                    self.event(io, names, Event::Result(result, &message));
                }
            }
            ToClient::Leader => {
                if let Ok(notice) = decode::<LeaderNotice>(bytes) {
                    self.event(io, names, Event::LeaderNotice(&notice));
                }
            }
            ToClient::Memory => {
                if let Ok(answer) = decode::<MemoryAnswer>(bytes) {
                    self.promised(io, &answer);
                }
            }
            ToClient::Ipc => {
                if let Ok(answer) = decode::<IpcAnswer>(bytes) {
                    self.program.exchanged(io.now, answer);
                }
            }
            ToClient::Error => {
                if let Ok(rejected) = decode::<Rejected>(bytes) {
                    self.event(io, names, Event::Error(rejected.failure));
                }
            }
        }
    }

    pub(super) fn event(&mut self, io: &mut Io, names: &Names, event: Event<'_>) {
        let Phase::Running(session) = &mut self.phase else {
            return;
        };
        let mut actions = Vec::new();
        session.outbox.handle(io.now, event, &mut actions);
        let whose = (&names.subjects, &names.tenant);
        if session.carry_out(io, whose, &mut self.program, actions) {
            self.phase = Phase::Over;
        }
    }

    fn promised(&mut self, io: &mut Io, answer: &MemoryAnswer) {
        let Phase::Running(session) = &self.phase else {
            return;
        };
        if answer.number > 0 {
            let (session, committed) = (session.opened.session, answer.committed);
            io.fact(ClientFact::Promised { session, committed });
        }
        self.program.promised(io.now, session.outbox.last(), answer);
    }

    fn ask(&mut self, io: &mut Io, names: &Names) {
        let request = OpenRequest {
            v: WIRE_VERSION,
            nonce: self.nonce,
            connection: names.connection.clone(),
            devices: self.program.devices(),
        };
        let subject = names.subjects.to_leader(&names.tenant, ToLeader::Open);
        let reply = format!("{}.{:016x}", names.inbox, self.nonce);
        io.request(subject, reply, encode(&request));
        self.asked = true;
        io.fact(ClientFact::Asked {
            nonce: self.nonce,
            tenant: names.tenant.clone(),
            devices: self.program.devices(),
        });
    }

    /// Continues the program as far as possible. Returns the time at which it is to continue.
    pub(super) fn drive(&mut self, io: &mut Io, names: &Names) -> Option<Nanos> {
        if let Phase::Asking(at) = self.phase {
            if at > io.now {
                return Some(at);
            }
            self.ask(io, names);
            let again = io.now + P::HABITS.ask_again;
            self.phase = Phase::Asking(again);
            return Some(again);
        }
        self.tick(io, names);
        let rest = self.go_on(io, names)?;
        // The program rests: what it pushed is sent now, as a linger of zero would.
        if rest != ProgramProgress::On && P::HABITS.linger.is_none()
            || rest == ProgramProgress::Full
        {
            self.event(io, names, Event::Flush);
        }
        let until = match rest {
            ProgramProgress::Rest(until) => until,
            _ => None,
        };
        match &self.phase {
            Phase::Running(session) => {
                let whose = (&names.subjects, &names.tenant);
                session.request(io, whose, &mut self.program);
                let outbox = session.outbox.next_wakeup();
                let wakes = [until, outbox, session.linger, self.program.next_request()];
                wakes.into_iter().flatten().min()
            }
            _ => None,
        }
    }

    /// Tells the outbox the time, and sends the lingering ops.
    fn tick(&mut self, io: &mut Io, names: &Names) {
        let Phase::Running(session) = &mut self.phase else {
            return;
        };
        let due = |at: Option<Nanos>| at.is_some_and(|at| at <= io.now);
        if due(session.linger) {
            session.linger = None;
            if session.outbox.wants_flush() {
                return self.event(io, names, Event::Flush);
            }
        }
        if P::HABITS.linger.is_none() || due(session.outbox.next_wakeup()) {
            self.event(io, names, Event::Tick);
        }
    }

    /// Takes steps until one rests, or none is left. Returns `None` once the session is over.
    fn go_on(&mut self, io: &mut Io, names: &Names) -> Option<ProgramProgress> {
        loop {
            let Phase::Running(session) = &mut self.phase else {
                return None;
            };
            if session.failed || self.program.is_done() {
                return Some(ProgramProgress::On);
            }
            let step = self.program.step(io, &mut session.outbox);
            let lingers = P::HABITS.linger.filter(|_| session.outbox.may_linger());
            let pushed = step == ProgramProgress::On || P::HABITS.linger.is_none();
            match lingers {
                _ if !pushed || !session.outbox.wants_flush() => {}
                Some(linger) => _ = session.linger.get_or_insert(io.now + linger),
                None => self.event(io, names, Event::Flush),
            }
            match step {
                ProgramProgress::On => {}
                ProgramProgress::Close => self.close(io, names),
                rest => return Some(rest),
            }
        }
    }

    fn close(&mut self, io: &mut Io, names: &Names) {
        if let Phase::Running(session) = &mut self.phase {
            session.closing = true;
            let session = session.opened.session;
            io.fact(ClientFact::Closing { session });
        }
        self.event(io, names, Event::Close(CloseReason::Asked));
    }
}
