//! A worker: the real worker core, a modelled device, and the thin shell between them and the bus.

mod actions;
mod buffers;
mod device;
mod moves;
mod swap;
mod usage;

use std::collections::VecDeque;
use std::rc::Rc;

use bus_schemas::subject::{Author, ConnectionName, HearsTenants, Subjects};
use bus_schemas::{Op, Tenant, Weights, WorkerBeat};
use gpu_worker_core::dispatch::Limits;
use gpu_worker_core::sequencer::{Identity, SequencerConfig};
use gpu_worker_core::worker::{CheckedChunks, CopySettings, Event, WorkerSetup};
use gpu_worker_core::{Meter, Pager, Resources, SendOnChange, Worker};

use self::buffers::SimBuffers;
pub use self::device::{Ended, SimDevice, SimSlice, SliceEnd};
use self::moves::Moves;
use crate::fact::{NodeFact, WorkerFact};
use crate::network::Packet;
use crate::node::{Io, Node, NodeInput};
use crate::{MILLI, Nanos};

/// Token by which a device learns, with [`Io::later`], that a part of its work has ended.
pub const DEVICE: u64 = 0;
const REPORT: u64 = 1;
const MOVE: u64 = 2;
const CHECK: u64 = 3;
/// Time that the check of an offered transfer takes.
const CHECKED_AFTER: Nanos = MILLI;
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
    pub config: SequencerConfig,
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
    /// Settings of the chunks of copies that it keeps.
    pub copies: CopySettings,
}

impl WorkerOptions {
    /// Makes the core of a worker that starts now.
    fn worker<D: SimDevice>(&self, now: Nanos, bend: fn(Op) -> Op) -> Worker<SimBuffers<D>> {
        let (incarnation, gpu) = (self.identity.incarnation, self.identity.gpu);
        let meter = Meter::new(now, incarnation, gpu, self.sms, self.one_at_a_time);
        let pager = Pager::new(self.identity.capacity).with_swap(self.memory_limit, IDLE);
        let setup = WorkerSetup {
            config: self.config.clone(),
            beat: self.beat(),
            limits: Limits {
                blocks: u64::from(self.sms),
                small_launch: SMALL_LAUNCH,
                launch_bytes: 0,
            },
            overlaps: !self.one_at_a_time,
            copies: self.copies,
        };
        let resources = Resources::new(pager, meter, SMALL_LAUNCH);
        Worker::new(setup, resources, SimBuffers::new(bend))
    }

    fn beat(&self) -> WorkerBeat {
        let Identity {
            incarnation,
            gpu,
            capacity,
        } = self.identity;
        WorkerBeat {
            device: "model".into(),
            group: self.group.clone(),
            exclusive: self.exclusive,
            ..WorkerBeat::new(incarnation, gpu, capacity)
        }
    }
}

/// One start of a worker.
pub struct WorkerNode<D: SimDevice> {
    subjects: Subjects,
    options: WorkerOptions,
    worker: Worker<SimBuffers<D>>,
    device: D,
    moves: Moves,
    /// Checked transfers, each with the time of its answer.
    checks: VecDeque<(Nanos, CheckedChunks<Rc<[u8]>>)>,
    weights: SendOnChange<Weights>,
    draining: bool,
    measuring: bool,
}

impl<D: SimDevice> WorkerNode<D> {
    /// Makes a worker that is about to start.
    #[must_use]
    pub fn new(subjects: Subjects, options: WorkerOptions, device: D) -> Self {
        Self {
            subjects,
            worker: options.worker(0, device.bend()),
            options,
            device,
            moves: Moves::default(),
            checks: VecDeque::new(),
            weights: SendOnChange::default(),
            draining: false,
            measuring: false,
        }
    }

    fn fact(&self, io: &mut Io, fact: WorkerFact) {
        io.fact(NodeFact::Worker(self.options.identity.incarnation, fact));
    }

    fn start(&mut self, io: &mut Io) {
        let Identity {
            incarnation, gpu, ..
        } = self.options.identity;
        self.worker = self.options.worker(io.now, self.device.bend());
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
        if let Reports::Always(every) = self.options.reports {
            io.later(io.now + every, REPORT);
        }
        self.event(io, None, Event::Timer);
    }

    fn set_wake(&mut self, io: &mut Io) {
        let wakes = [self.worker.next_wakeup(), self.device.wake()];
        io.wake = wakes.into_iter().flatten().min();
    }

    fn wake(&mut self, io: &mut Io) {
        if self.worker.next_wakeup().is_some_and(|at| at <= io.now) {
            self.event(io, None, Event::Timer);
        } else {
            self.set_wake(io);
        }
    }

    fn end_checks(&mut self, io: &mut Io) {
        while let Some((_, checked)) = self.checks.pop_front_if(|(at, _)| *at <= io.now) {
            self.event(io, None, Event::Chunks(checked));
        }
    }

    fn message(&mut self, io: &mut Io, packet: &Packet) {
        let Some(subject) = self.subjects.parse_worker(&packet.subject) else {
            return;
        };
        let event = Event::Message(&subject, &packet.bytes);
        self.event(io, packet.reply.as_deref(), event);
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
            NodeInput::Later(MOVE) => self.end_moves(io),
            NodeInput::Later(CHECK) => self.end_checks(io),
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
        let sequencer = self.worker.sequencer();
        match sequencer.load() {
            _ if self.draining => "draining",
            _ if sequencer.sealed().0 == 0 => "unsealed",
            _ if self.device.has_parked() => "one parked",
            _ if self.worker.resources().is_waiting() => "waiting for memory",
            (0, false) => "idle",
            (0, true) => "waiting for a batch",
            (_, false) => "running",
            (_, true) => "running, more waits",
        }
    }
}

fn broken(io: &mut Io, why: &str) {
    io.fact(NodeFact::Broken { why: why.into() });
}
