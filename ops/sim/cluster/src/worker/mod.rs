//! A worker: the real sequencer, dispatch and resources, a modelled device, and the thin shell
//! between them and the bus.

mod actions;
mod device;
mod dispatch;
mod images;
mod inbound;
mod moves;
mod swap;
mod usage;

use std::collections::BTreeMap;

use bus_schemas::subject::{Author, ConnectionName, HearsTenants, Subjects};
use bus_schemas::{HeldImages, ModuleHash, OpNumber, Residency, SessionId, Tenant, Weights};
use gpu_worker_core::dispatch::Limits;
use gpu_worker_core::images::ImageTable;
use gpu_worker_core::sequencer::{CompletedEvent, Config, Event, Identity};
use gpu_worker_core::{Dispatch, Meter, Pager, Resources, SendOnChange, Sequencer};
use moves::Moves;

pub use self::device::{Ended, ModelAnswer, SimDevice, SimSlice, SliceEnd};

use crate::fact::{Fact, WorkerFact};
use crate::node::{Io, Node, NodeInput};
use crate::{MILLI, Nanos};

/// Token by which a device learns, with [`Io::later`], that a part of its work has ended.
pub const DEVICE: u64 = 0;
const REPORT: u64 = 1;
const SWAP: u64 = 2;
/// Time without work after which a session is idle.
const IDLE: Nanos = 100 * MILLI;
/// Launches of a modelled device take no memory beside their sessions'.
const SMALL_LAUNCH: u64 = 0;

/// Times at which a worker reports its measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reports {
    /// At this interval, with the use.
    Always(Nanos),
    /// At this interval while it is used.
    WhileUsed(Nanos),
}

/// Properties of a worker.
#[derive(Debug, Clone)]
pub struct WorkerOptions {
    /// Its names and its device's memory.
    pub identity: Identity,
    /// Settings of its sequencer.
    pub config: Config,
    /// Number of multiprocessors of its device. Launches take no memory beside their sessions'.
    pub sms: u32,
    /// True if its device runs one slice at a time.
    pub one_at_a_time: bool,
    /// Bytes that its sessions may hold together; if they exceed the device, memory is swapped out.
    pub memory_limit: u64,
    /// Nanoseconds to move a mebibyte.
    pub swap_ns_per_mib: u64,
    /// The group that it names, if any.
    pub group: Option<Tenant>,
    /// True if it takes only tenants bound to its group, and one at a time.
    pub exclusive: bool,
    /// Times at which it reports its measurements.
    pub reports: Reports,
}

/// The bytes of a transfer that have arrived.
#[derive(Default)]
struct Staged {
    bytes: Vec<u8>,
    whole: bool,
}

struct Kept<O> {
    tenant: Tenant,
    ops: BTreeMap<OpNumber, O>,
    transfers: BTreeMap<u64, Staged>,
    results: BTreeMap<u64, ModelAnswer>,
    /// Number of slices that were started and have not completed.
    started: u64,
}

/// One start of a worker.
pub struct WorkerNode<D: SimDevice> {
    subjects: Subjects,
    identity: Identity,
    core: Sequencer,
    sessions: BTreeMap<SessionId, Kept<D::Op>>,
    images: ImageTable<ModuleHash>,
    device: D,
    // With the ops of the slices, which the sequencer forgets as soon as it has started them.
    dispatch: Dispatch<Vec<D::Op>, ModuleHash>,
    resources: Resources,
    answers: Vec<ModelAnswer>,
    draining: bool,
    group: Option<Tenant>,
    exclusive: bool,
    reports: Reports,
    measuring: bool,
    sms: u32,
    one_at_a_time: bool,
    memory_limit: u64,
    moves: Moves,
    // Reports of images, weights and memory that go with heartbeats.
    sent: (
        SendOnChange<HeldImages>,
        SendOnChange<Weights>,
        SendOnChange<Residency>,
    ),
}

impl<D: SimDevice> WorkerNode<D> {
    /// Makes a worker that is about to start.
    #[must_use]
    pub fn new(subjects: Subjects, settings: WorkerOptions, device: D) -> Self {
        let WorkerOptions {
            identity,
            sms,
            one_at_a_time,
            memory_limit,
            ..
        } = settings;
        let limits = Limits {
            blocks: u64::from(sms),
            small_launch: SMALL_LAUNCH,
            launch_bytes: 0,
        };
        Self {
            subjects,
            identity,
            core: Sequencer::new(settings.config, identity),
            sessions: BTreeMap::new(),
            images: ImageTable::default(),
            device,
            dispatch: Dispatch::new(limits),
            resources: resources(0, identity, memory_limit, (sms, one_at_a_time)),
            answers: Vec::new(),
            draining: false,
            group: settings.group,
            exclusive: settings.exclusive,
            reports: settings.reports,
            measuring: false,
            sms,
            one_at_a_time,
            memory_limit,
            moves: Moves::new(settings.swap_ns_per_mib),
            sent: Default::default(),
        }
    }

    fn fact(&self, io: &mut Io, fact: WorkerFact) {
        io.fact(Fact::Worker(self.identity.incarnation, fact));
    }

    fn start(&mut self, io: &mut Io) {
        let (incarnation, gpu) = (self.identity.incarnation, self.identity.gpu);
        let device = (self.sms, self.one_at_a_time);
        self.resources = resources(io.now, self.identity, self.memory_limit, device);
        for pattern in self.subjects.worker_inbound(incarnation) {
            io.subscribe(pattern);
        }
        let hears = HearsTenants::Worker(incarnation);
        io.subscribe(self.subjects.from_tenants(hears, None));
        io.connect(
            ConnectionName::Worker(incarnation).to_string(),
            Author::Cluster,
        );
        self.fact(io, WorkerFact::Began { gpu });
        if let Reports::Always(every) = self.reports {
            io.later(io.now + every, REPORT);
        }
        self.event(io, None, Event::Timer);
    }

    fn set_wake(&mut self, io: &mut Io) {
        let wakes = [self.core.next_wakeup(), self.device.wake()];
        io.wake = wakes.into_iter().flatten().min();
    }

    fn wake(&mut self, io: &mut Io) {
        if self.core.next_wakeup().is_some_and(|at| at <= io.now) {
            self.event(io, None, Event::Timer);
        } else {
            self.set_wake(io);
        }
    }

    /// Lets the device begin its next job, or continue one.
    fn work(&mut self, io: &mut Io) {
        self.swap(io);
        self.hand_on(io);
        self.device.work(io);
        let behind = self.device.behind();
        let waits = behind.is_some_and(|jobs| jobs + self.dispatch.waiting() > 0);
        self.resources.waiting(io.now, waits);
    }

    /// Handles the ends of work on the device.
    fn ended(&mut self, io: &mut Io) {
        let Some(ended) = self.device.ended(io) else {
            return;
        };
        match ended {
            Ended::Opened(session) => {
                let failure = None;
                self.event(io, None, Event::Opened { session, failure });
            }
            Ended::Closed(session) => {
                self.vacate(io, session);
                self.event(io, None, Event::Closed { session });
            }
            Ended::Slice(mut end) => {
                self.count_usage(io, &end);
                self.answers = std::mem::take(&mut end.answers);
                let bytes = |answer: &ModelAnswer| answer.bytes.as_ref().map_or(0, Vec::len) as u64;
                let results: Vec<u64> = self.answers.iter().map(bytes).collect();
                let event = CompletedEvent {
                    position: end.start.position,
                    session: end.start.session,
                    began: Some(io.now.saturating_sub(end.device_ns)),
                    device_ns: end.device_ns,
                    results: &results,
                    declared: end.declared,
                    fault: end.fault.as_ref().map(|(op, failure)| (*op, failure)),
                };
                self.event(io, None, Event::Completed(event));
                if self.dispatch.has_away() {
                    let session = end.start.session;
                    let completed = gpu_worker_core::dispatch::Event::Completed { session };
                    self.tell_dispatch(io, completed);
                }
                self.answers.clear();
                self.settle_images(end.start.session);
            }
        }
        self.work(io);
        self.set_wake(io);
    }

    /// The place of a session. Its client may send once the open grant is accepted, before it is carried
    /// out.
    fn place(&mut self, session: SessionId, tenant: &Tenant) -> &mut Kept<D::Op> {
        self.sessions.entry(session).or_insert_with(|| Kept {
            tenant: tenant.clone(),
            ops: BTreeMap::new(),
            transfers: BTreeMap::new(),
            results: BTreeMap::new(),
            started: 0,
        })
    }

    fn event(&mut self, io: &mut Io, reply: Option<&str>, event: Event<'_>) {
        let mut actions = Vec::new();
        self.core.handle(io.now, event, &mut actions);
        // Completed work was accounted for before.
        self.resources.reported(self.core.reports());
        self.carry_out(io, reply, actions);
    }
}

impl<D: SimDevice> Node for WorkerNode<D> {
    fn handle(&mut self, io: &mut Io, input: NodeInput) {
        self.device.turn(io);
        match input {
            NodeInput::Started => self.start(io),
            NodeInput::Message(packet) => self.message(io, &packet),
            NodeInput::Wake => self.wake(io),
            NodeInput::Later(REPORT) => self.report_again(io),
            NodeInput::Later(SWAP) => self.end_moves(io),
            NodeInput::Later(_) => self.ended(io),
            NodeInput::Terminate => {
                self.draining = true;
                self.event(io, None, Event::Drain);
            }
            // A worker learns nothing from its connection: it continues with its accepted grants.
            NodeInput::Connection(_)
            | NodeInput::Closed(_)
            | NodeInput::Store(..)
            | NodeInput::Lease(_)
            | NodeInput::Placement(_) => {}
        }
    }

    fn state(&self) -> &'static str {
        match self.core.load() {
            _ if self.draining => "draining",
            _ if self.core.sealed().0 == 0 => "unsealed",
            _ if self.device.has_parked() => "one parked",
            _ if self.resources.is_waiting() => "waiting for memory",
            (0, false) => "idle",
            (0, true) => "waiting for a batch",
            (_, false) => "running",
            (_, true) => "running, more waits",
        }
    }
}

/// The resources of a device that starts now.
fn resources(
    now: Nanos,
    identity: Identity,
    limit: u64,
    (sms, one_at_a_time): (u32, bool),
) -> Resources {
    let (incarnation, gpu) = (identity.incarnation, identity.gpu);
    let meter = Meter::new(now, incarnation, gpu, sms, one_at_a_time);
    let pager = Pager::new(identity.capacity).with_swap(limit, IDLE);
    Resources::new(pager, meter, SMALL_LAUNCH)
}

fn broken(io: &mut Io, why: &str) {
    io.fact(Fact::Broken { why: why.into() });
}
