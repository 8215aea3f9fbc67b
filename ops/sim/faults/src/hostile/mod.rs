//! A hostile tenant: a login of its own, under which it says and does anything that the login allows.

mod listener;
mod overheard;

use std::cell::RefCell;
use std::rc::Rc;

use bus_schemas::subject::{Subjects, ToLeader, ToWorker};
use bus_schemas::{
    Alive, CloseReason, CloseRequest, DevicesRequest, Incarnation, Intent, OpenRequest, SessionId,
    Tenant, WIRE_VERSION, decode, encode,
};

use sim_cluster::{Io, MILLI, Nanos, Node, NodeInput, Random};

pub(crate) use self::listener::Listener;
pub(crate) use self::overheard::Overheard;
use self::overheard::{Last, Said};

/// The tenant's name.
const NAME: &str = "hostile";
/// Maximum number of sessions that it asks for.
const OPENS: u32 = 24;
/// Maximum number of messages in a flood.
const FLOOD: usize = 100;

/// The hostile tenant.
#[must_use]
pub(crate) fn tenant() -> Tenant {
    NAME.parse().expect("a valid name")
}

/// The hostile tenant's process.
pub(crate) struct Hostile {
    subjects: Subjects,
    tenant: Tenant,
    /// Prefix of all subjects that it may publish to.
    prefix: String,
    inbox: String,
    /// Times at which it begins and ceases to act.
    times: Vec<(Nanos, Nanos)>,
    overheard: Rc<RefCell<Overheard>>,
    said: Last<Said>,
    random: Random,
    opens: u32,
    requests: u64,
}

impl Hostile {
    /// Makes a hostile tenant that acts at these times, with a random source of its own.
    #[must_use]
    pub(crate) fn new(
        cluster: &Tenant,
        times: Vec<(Nanos, Nanos)>,
        overheard: Rc<RefCell<Overheard>>,
        random: Random,
    ) -> Self {
        let (subjects, tenant) = (Subjects::new(cluster), tenant());
        let prefix = subjects.tenant_outbound(&tenant);
        Self {
            prefix: prefix.trim_end_matches('>').to_owned(),
            inbox: subjects.tenant_inbox(&tenant),
            subjects,
            tenant,
            times,
            overheard,
            said: Last::default(),
            random,
            opens: OPENS,
            requests: 0,
        }
    }

    fn start(&mut self, io: &mut Io) {
        let name = format!("{NAME}-client");
        io.connect_tenant(&self.subjects, &self.tenant, name);
        io.subscribe(self.subjects.tenant_inbound(&self.tenant));
        // The broker refuses this.
        io.subscribe(self.subjects.all());
        self.rest(io);
    }

    /// Waits until it acts next, if ever.
    fn rest(&mut self, io: &mut Io) {
        let now = io.now;
        if self
            .times
            .iter()
            .any(|(at, until)| (*at..*until).contains(&now))
        {
            io.wake = Some(now + self.random.between(1, 20) * MILLI);
            return;
        }
        let next = self.times.iter().map(|(at, _)| *at);
        io.wake = next.filter(|at| *at > now).min();
        if io.wake.is_none() {
            io.die(self.random.chance(700));
        }
    }

    fn act(&mut self, io: &mut Io) {
        let now = io.now;
        let acts = self
            .times
            .iter()
            .any(|(at, until)| (*at..*until).contains(&now));
        let count = match () {
            () if !acts => 0,
            () if self.random.chance(20) => self.random.index(FLOOD),
            () => 1 + self.random.index(3),
        };
        for _ in 0..count {
            self.one(io);
        }
        self.rest(io);
    }

    fn one(&mut self, io: &mut Io) {
        match self.random.index(12) {
            0 => self.open(io),
            1 => self.close(io),
            2 => self.alive(io),
            3 => {
                let request = DevicesRequest { v: WIRE_VERSION };
                self.say_to_leader(io, ToLeader::Devices, encode(&request));
            }
            4 => self.intent(io),
            5 | 6 => self.copy(io),
            7 => self.garbage(io),
            8 => {
                if let Some((what, bytes)) = self.said.any(&mut self.random).cloned() {
                    self.say(io, &what, bytes.to_vec());
                }
            }
            9 | 10 => {
                let name = self.name();
                io.visit(name);
            }
            _ => self.overstep(io),
        }
    }

    fn open(&mut self, io: &mut Io) {
        if self.opens == 0 {
            return;
        }
        self.opens -= 1;
        let known = self
            .overheard
            .borrow()
            .nonces
            .any(&mut self.random)
            .copied();
        let nonce = match known {
            Some(nonce) if self.random.chance(300) => nonce.wrapping_add(self.random.between(0, 2)),
            _ => self.random.draw(),
        };
        let request = OpenRequest {
            v: WIRE_VERSION,
            nonce,
            connection: self.name(),
            devices: match self.random.chance(800) {
                true => 1,
                false => self.random.between(0, 20) as u32,
            },
        };
        self.say_to_leader(io, ToLeader::Open, encode(&request));
    }

    fn close(&mut self, io: &mut Io) {
        let request = CloseRequest {
            v: WIRE_VERSION,
            session: self.session().0,
            after: self.number(),
            reason: [
                CloseReason::Asked,
                CloseReason::Expired,
                CloseReason::Killed,
            ][self.random.index(3)],
        };
        self.say_to_leader(io, ToLeader::Close, encode(&request));
    }

    fn alive(&mut self, io: &mut Io) {
        let rows = (0..self.random.between(1, 4)).map(|_| self.session());
        let (sessions, workers): (Vec<_>, Vec<_>) = rows.collect::<Vec<_>>().into_iter().unzip();
        let gpus = workers
            .iter()
            .map(|_| self.random.index(3) as u32)
            .collect();
        let message = Alive {
            v: WIRE_VERSION,
            connection: self.name(),
            sessions,
            workers,
            gpus,
        };
        self.say_to_leader(io, ToLeader::Alive, encode(&message));
    }

    /// Publishes an intent of any session, with other numbers or for another session.
    fn intent(&mut self, io: &mut Io) {
        let overheard = self.overheard.clone();
        let overheard = overheard.borrow();
        let mut said = overheard.said.newest();
        let found = said.find(|(what, _)| what.starts_with("l.intent."));
        if let Some((_, bytes)) = found
            && let Ok(intent) = decode::<Intent<'_>>(bytes)
        {
            let intent = Intent {
                first: self.number(),
                ..intent
            };
            let session = self.session().0;
            self.say_to_leader(io, ToLeader::Intent(session), encode(&intent));
        }
    }

    /// Repeats a message of another tenant under its own name; to a worker, perhaps for another session.
    fn copy(&mut self, io: &mut Io) {
        let Some((mut what, bytes)) = self.overheard.borrow().said.any(&mut self.random).cloned()
        else {
            return;
        };
        if what == "l.open" {
            return self.open(io);
        }
        if what.starts_with("w.") && self.random.chance(500) {
            let verb = what.rsplit('.').next().unwrap_or_default();
            let (session, worker) = self.session();
            what = format!("w.{worker}.{session}.{verb}");
        }
        self.say(io, &what, bytes.to_vec());
    }

    fn garbage(&mut self, io: &mut Io) {
        let count = self.random.index(64);
        let bytes = (0..count).map(|_| self.random.draw() as u8).collect();
        let (session, worker) = self.session();
        let what = [
            ToWorker::Batch,
            ToWorker::Data,
            ToWorker::State,
            ToWorker::Memory,
            ToWorker::Offer,
            ToWorker::Ipc,
        ][self.random.index(6)];
        let to = self.subjects.to_worker(&self.tenant, worker, session, what);
        let to = match self.random.index(8) {
            0 => self.subjects.to_leader(&self.tenant, ToLeader::Open),
            1 => self.subjects.tenant_memory(&self.tenant, worker),
            2 => format!("{}l.intent.nobody", self.prefix),
            3 => format!("{}w.{worker}", self.prefix),
            _ => to,
        };
        self.publish(io, to, bytes);
    }

    /// Publishes what its login does not allow; the broker must drop it.
    fn overstep(&mut self, io: &mut Io) {
        let Some((what, bytes)) = self.overheard.borrow().said.any(&mut self.random).cloned()
        else {
            return;
        };
        let (session, worker) = self.session();
        let other = "tenant-0".parse().expect("a valid name");
        let subject = match self.random.index(5) {
            0 => self.subjects.leader_beat(),
            1 => self.subjects.lost(),
            2 => self.subjects.grants(worker),
            3 => {
                let up = self.subjects.tenant_outbound(&other);
                format!("{}{what}", up.trim_end_matches('>'))
            }
            _ => self
                .subjects
                .to_worker(&other, worker, session, ToWorker::Batch),
        };
        self.publish(io, subject, bytes.to_vec());
    }

    /// A session of any tenant, or a number near one, and a worker.
    fn session(&mut self) -> (SessionId, Incarnation) {
        let overheard = self.overheard.borrow();
        let random = &mut self.random;
        let known = overheard.sessions.any(random).copied();
        let (session, worker) = match known {
            Some(known) if random.chance(900) => known,
            _ => (SessionId(random.draw()), Incarnation(random.draw())),
        };
        let near = if random.chance(200) {
            random.between(0, 2)
        } else {
            0
        };
        let other = overheard.workers.any(random).copied();
        let other = other.filter(|_| random.chance(200));
        (
            SessionId(session.0.wrapping_add(near)),
            other.unwrap_or(worker),
        )
    }

    /// An op number.
    fn number(&mut self) -> u64 {
        match self.random.index(4) {
            0 => self.random.draw(),
            1 => u64::MAX,
            _ => self.random.between(0, 60),
        }
    }

    /// The name of a connection, mostly that of another node.
    fn name(&mut self) -> String {
        let known = self.overheard.borrow().names.any(&mut self.random).cloned();
        match known {
            Some(name) if self.random.chance(900) => name,
            _ => format!("worker-{:x}", self.random.draw()),
        }
    }

    fn say_to_leader(&mut self, io: &mut Io, what: ToLeader, bytes: Vec<u8>) {
        let subject = self.subjects.to_leader(&self.tenant, what);
        self.publish(io, subject, bytes);
    }

    fn say(&mut self, io: &mut Io, what: &str, bytes: Vec<u8>) {
        let subject = format!("{}{what}", self.prefix);
        self.publish(io, subject, bytes);
    }

    /// Publishes these bytes, some of them, or others.
    fn publish(&mut self, io: &mut Io, subject: String, mut bytes: Vec<u8>) {
        match self.random.index(10) {
            0 if !bytes.is_empty() => bytes.truncate(self.random.index(bytes.len())),
            1 if !bytes.is_empty() => {
                let at = self.random.index(bytes.len());
                bytes[at] ^= 1 << self.random.index(8);
            }
            _ => {}
        }
        if let Some(what) = subject.strip_prefix(&self.prefix) {
            self.said.push((what.to_owned(), bytes.clone().into()));
        }
        match self.reply() {
            Some(reply) => io.request(subject, reply, bytes),
            None => io.publish(subject, bytes),
        }
    }

    /// Inbox for an answer: its own, that of a node that has asked, or that of one that has not.
    fn reply(&mut self) -> Option<Rc<str>> {
        self.requests += 1;
        let number = self.requests;
        let others = "tenant-0".parse().expect("a valid name");
        match self.random.index(10) {
            0..=3 => Some(format!("{}.{number}", self.inbox).into()),
            4 => self
                .overheard
                .borrow()
                .inboxes
                .any(&mut self.random)
                .cloned(),
            5 => Some(format!("{}.{NAME}.{number}", self.subjects.tenant_inbox(&others)).into()),
            6 => Some(format!("{}.{NAME}.{number}", self.subjects.cluster_inbox()).into()),
            _ => None,
        }
    }
}

impl Node for Hostile {
    fn handle(&mut self, io: &mut Io, input: NodeInput) {
        match input {
            NodeInput::Started => self.start(io),
            NodeInput::Wake => self.act(io),
            _ => {}
        }
    }

    fn state(&self) -> &'static str {
        "hostile"
    }
}
