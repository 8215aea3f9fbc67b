//! A client process: the real outboxes of its sessions, and the programs that use them.

mod program;
mod runner;
mod session;

use bus_schemas::subject::{Subjects, ToLeader};
use bus_schemas::{Alive, LeaderBeat, OpenAnswer, Tenant, decode, encode};
use client_agent_core::Event;

pub use self::program::{ClientProgram, Habits, ProgramProgress};
use self::runner::{Names, Runner};

use crate::fact::NodeFact;
use crate::network::Packet;
use crate::node::{Io, Node, NodeInput};
use crate::{Nanos, SECOND};

const DIE: u64 = 0;
const ALIVE: u64 = 1;
const SETTLED: u64 = 2;
/// Interval at which a client reports that its sessions are alive.
const ALIVE_EVERY: Nanos = 10 * SECOND;

/// One client process.
pub struct ClientNode<P> {
    names: Names,
    dies: Option<(Nanos, bool)>,
    runners: Vec<Runner<P>>,
    // True if it has nothing to do, or only waits for a place.
    idle: bool,
}

impl<P: ClientProgram> ClientNode<P> {
    /// Makes a client process that is about to start, with its connection's name. `dies` is the time of its
    /// death, and true if the broker tells the leaders.
    #[must_use]
    pub fn new(
        cluster: &Tenant,
        tenant: Tenant,
        connection: String,
        programs: impl IntoIterator<Item = P>,
        dies: Option<(Nanos, bool)>,
    ) -> Self {
        let subjects = Subjects::new(cluster);
        let inbox = format!("{}.{connection}", subjects.tenant_inbox(&tenant));
        Self {
            names: Names {
                subjects,
                tenant,
                connection,
                inbox,
            },
            dies,
            runners: programs.into_iter().map(Runner::new).collect(),
            idle: false,
        }
    }

    fn start(&mut self, io: &mut Io) {
        let Names {
            subjects,
            tenant,
            connection,
            inbox,
        } = &self.names;
        io.connect_tenant(subjects, tenant, connection.clone());
        io.subscribe(subjects.term(tenant));
        io.subscribe(format!("{inbox}.*"));
        if let Some((at, _)) = self.dies {
            io.later(at, DIE);
        }
        if P::HABITS.settling.is_some() {
            io.later(io.now + ALIVE_EVERY, ALIVE);
        }
        self.drive(io);
    }

    fn event(&mut self, io: &mut Io, event: impl Fn() -> Event<'static>) {
        for runner in &mut self.runners {
            runner.event(io, &self.names, event());
        }
    }

    /// Reports later that the sessions are alive, once a new leader or connection has settled.
    fn settle(&self, io: &mut Io) {
        if let Some(settling) = P::HABITS.settling {
            io.later(io.now + settling, SETTLED);
        }
    }

    fn message(&mut self, io: &mut Io, packet: &Packet) {
        let bytes = &packet.bytes;
        let names = &self.names;
        if let Some((session, what)) = names.subjects.parse_client(&packet.subject) {
            let mut runners = self.runners.iter_mut();
            if let Some(runner) = runners.find(|it| it.session() == Some(session)) {
                runner.hear(io, names, what, bytes);
            }
        } else if *packet.subject == *names.subjects.term(&names.tenant) {
            if let Ok(beat) = decode::<LeaderBeat>(bytes) {
                self.settle(io);
                self.event(io, || Event::Term(beat));
            }
        } else if let Ok(answer) = decode::<OpenAnswer>(bytes) {
            let nonce = packet.subject.rsplit('.').next();
            let nonce = nonce.and_then(|text| u64::from_str_radix(text, 16).ok());
            self.answered(io, nonce, answer);
        }
        self.drive(io);
    }

    fn answered(&mut self, io: &mut Io, nonce: Option<u64>, answer: OpenAnswer) {
        let mut runners = self.runners.iter_mut();
        let Some(runner) = runners.find(|it| Some(it.nonce) == nonce) else {
            return;
        };
        let before = runner.session();
        let others = runner.answered(io, &self.names, answer);
        let opened = before.is_none() && runner.session().is_some();
        self.runners.extend(others);
        if opened && P::HABITS.settling.is_none() {
            self.say_alive(io);
            io.later(io.now + ALIVE_EVERY, ALIVE);
        }
    }

    fn drive(&mut self, io: &mut Io) {
        let mut wake: Option<Nanos> = None;
        for runner in &mut self.runners {
            let next = runner.drive(io, &self.names);
            wake = [wake, next].into_iter().flatten().min();
        }
        io.wake = wake;
        let idle = self.runners.iter().all(Runner::is_idle);
        if self.idle != idle {
            self.idle = idle;
            io.fact(if idle {
                NodeFact::Finished
            } else {
                NodeFact::WentOn
            });
        }
    }

    fn say_alive(&self, io: &mut Io) {
        let opened = self.runners.iter().filter_map(Runner::opened);
        let message = Alive::of(&self.names.connection, opened);
        if !message.sessions.is_empty() {
            let names = &self.names;
            let subject = names.subjects.to_leader(&names.tenant, ToLeader::Alive);
            io.publish(subject, encode(&message));
        }
    }
}

impl<P: ClientProgram> Node for ClientNode<P> {
    fn handle(&mut self, io: &mut Io, input: NodeInput) {
        match input {
            NodeInput::Started => self.start(io),
            NodeInput::Message(packet) => self.message(io, &packet),
            NodeInput::Wake => self.drive(io),
            NodeInput::Later(DIE) => {
                io.fact(NodeFact::Finished);
                io.die(self.dies.is_some_and(|(_, told)| told));
            }
            NodeInput::Later(what) => {
                self.say_alive(io);
                if what == ALIVE {
                    io.later(io.now + ALIVE_EVERY, ALIVE);
                }
            }
            NodeInput::Connection(true) => {
                self.event(io, || Event::Reconnected);
                self.settle(io);
                self.drive(io);
            }
            NodeInput::Connection(false) => {
                self.event(io, || Event::Disconnected);
                self.drive(io);
            }
            NodeInput::Closed(_)
            | NodeInput::Store(..)
            | NodeInput::Lease(_)
            | NodeInput::Placement(_)
            | NodeInput::Terminate => {}
        }
    }

    /// State of its least advanced session.
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
