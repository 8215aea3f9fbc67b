//! A worker: the real sequencer, dispatch, pager and meter, a modelled device, and the thin shell
//! between them and the bus.

mod accounts;
mod actions;
mod device;
mod dispatch;

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::subject::{ConnectionName, Subjects, ToClient, ToWorker, WorkerSubject};
use bus_schemas::{
    Batch, Code, DataChunk, DeviceResult, Failure, GrantBatch, Launch, Leave, Lost, ModuleHash, Op,
    OpNumber, Rejected, ResultKind, Seal, SessionId, Tenant, WIRE_VERSION, WorkerBeat, decode,
    encode, limits,
};
use gpu_worker_core::dispatch::{Claims, Limits};
use gpu_worker_core::sequencer::{
    Action, BatchEvent, ChunkEvent, CompletedEvent, Config, Event, Identity, ImageState,
    StartAction,
};
use gpu_worker_core::{Dispatch, Meter, Pager, Sequencer};

pub use self::device::{Answer, Device, Ended, Slice, SliceEnd};

use crate::fact::{Fact, WorkerFact};
use crate::network::Packet;
use crate::node::{Input, Io, Node};
use crate::{MILLI, Nanos};

/// By this a device is told, with [`Io::later`], that something of it has ended.
pub const DEVICE: u64 = 0;
const REPORT: u64 = 1;

/// When a worker says what it has measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reports {
    /// So often, and what was used too.
    Always(Nanos),
    /// So often while it is used.
    WhileUsed(Nanos),
}

/// What a worker is.
#[derive(Debug, Clone)]
pub struct WorkerSettings {
    /// Its names and its device's memory.
    pub identity: Identity,
    /// How its sequencer works.
    pub config: Config,
    /// Multiprocessors of its device, whose launches take no memory beside their sessions'.
    pub sms: u32,
    /// Whether its device runs one slice at a time.
    pub one_at_a_time: bool,
    /// The group it is in, if it says so.
    pub group: Option<Tenant>,
    /// Whether it takes only tenants bound to its group, and one at a time.
    pub exclusive: bool,
    /// When it says what it has measured.
    pub reports: Reports,
    /// Whether it lets every allocation through, which is wrong.
    pub admits_all: bool,
}

/// The bytes of a transfer, as far as they are here.
#[derive(Default)]
struct Staged {
    bytes: Vec<u8>,
    whole: bool,
}

struct Kept<O> {
    tenant: Tenant,
    ops: BTreeMap<OpNumber, O>,
    transfers: BTreeMap<u64, Staged>,
    results: BTreeMap<u64, Answer>,
}

/// One start of a worker.
pub struct WorkerNode<D: Device> {
    subjects: Subjects,
    identity: Identity,
    core: Sequencer,
    sessions: BTreeMap<SessionId, Kept<D::Op>>,
    images: BTreeSet<(Tenant, ModuleHash)>,
    device: D,
    // With their ops: the sequencer forgets those as soon as it has started them.
    dispatch: Dispatch<Vec<D::Op>, ModuleHash>,
    claims: Claims,
    pager: Pager,
    meter: Meter,
    answers: Vec<Answer>,
    draining: bool,
    group: Option<Tenant>,
    exclusive: bool,
    reports: Reports,
    measuring: bool,
    admits_all: bool,
    sms: u32,
    one_at_a_time: bool,
    // Heartbeats so far, and what the last that named images named.
    beats: u32,
    told: Vec<(Tenant, u64)>,
}

impl<D: Device> WorkerNode<D> {
    /// A worker about to start.
    #[must_use]
    pub fn new(subjects: Subjects, settings: WorkerSettings, device: D) -> Self {
        let WorkerSettings {
            identity,
            sms,
            one_at_a_time,
            ..
        } = settings;
        let limits = Limits {
            blocks: u64::from(sms),
            small_launch: 0,
            launch_bytes: 0,
        };
        let (incarnation, gpu) = (identity.incarnation, identity.gpu);
        Self {
            subjects,
            identity,
            core: Sequencer::new(settings.config, identity),
            sessions: BTreeMap::new(),
            images: BTreeSet::new(),
            device,
            dispatch: Dispatch::new(limits),
            claims: Claims::new(limits.small_launch),
            pager: Pager::new(identity.capacity),
            meter: Meter::new(0, incarnation, gpu, sms, one_at_a_time),
            answers: Vec::new(),
            draining: false,
            group: settings.group,
            exclusive: settings.exclusive,
            reports: settings.reports,
            measuring: false,
            admits_all: settings.admits_all,
            sms,
            one_at_a_time,
            beats: 0,
            told: Vec::new(),
        }
    }

    fn fact(&self, io: &mut Io, fact: WorkerFact) {
        io.fact(Fact::Worker(self.identity.incarnation, fact));
    }

    fn start(&mut self, io: &mut Io) {
        let (incarnation, gpu) = (self.identity.incarnation, self.identity.gpu);
        self.meter = Meter::new(io.now, incarnation, gpu, self.sms, self.one_at_a_time);
        for pattern in self.subjects.worker_inbound(incarnation) {
            io.subscribe(pattern);
        }
        io.name = Some(ConnectionName::Worker(incarnation).to_string().into());
        self.fact(io, WorkerFact::Began { gpu });
        if let Reports::Always(every) = self.reports {
            io.later(io.now + every, REPORT);
        }
        self.event(io, None, Event::Tick);
    }

    fn set_wake(&mut self, io: &mut Io) {
        let wakes = [self.core.next_wakeup(), self.device.wake()];
        io.wake = wakes.into_iter().flatten().min();
    }

    fn wake(&mut self, io: &mut Io) {
        if self.core.next_wakeup().is_some_and(|at| at <= io.now) {
            self.event(io, None, Event::Tick);
        } else {
            self.set_wake(io);
        }
    }

    /// Lets the device begin its next job, or go on with one.
    fn work(&mut self, io: &mut Io) {
        self.hand_on(io);
        self.device.work(io);
        let behind = self.device.behind();
        let waits = behind.is_some_and(|jobs| jobs + self.dispatch.waiting() > 0);
        self.meter.waiting(io.now, waits);
    }

    /// Something has ended on the device.
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
                self.account(io, &end);
                self.answers = std::mem::take(&mut end.answers);
                let bytes = |answer: &Answer| answer.bytes.as_ref().map_or(0, Vec::len) as u64;
                let results: Vec<u64> = self.answers.iter().map(bytes).collect();
                let event = CompletedEvent {
                    position: end.start.position,
                    session: end.start.session,
                    device_ns: end.device_ns,
                    results: &results,
                    declared: end.declared,
                    fault: end.fault.as_ref().map(|(op, failure)| (*op, failure)),
                };
                self.event(io, None, Event::Completed(event));
                self.answers.clear();
            }
        }
        self.work(io);
        self.set_wake(io);
    }

    fn message(&mut self, io: &mut Io, packet: &Packet) {
        let bytes = &packet.bytes;
        match self.subjects.parse_worker(&packet.subject) {
            Some(WorkerSubject::GrantBatch) => {
                if let Ok(order) = decode::<GrantBatch<'_>>(bytes) {
                    self.event(io, None, Event::GrantBatch(&order));
                }
            }
            Some(WorkerSubject::Seal) => {
                if let Ok(seal) = decode::<Seal>(bytes) {
                    self.event(io, packet.reply.as_deref(), Event::Seal(&seal));
                }
            }
            Some(WorkerSubject::Lost) => {
                if let Ok(lost) = decode::<Lost>(bytes) {
                    self.event(io, None, Event::Lost(&lost));
                }
            }
            Some(WorkerSubject::Leave) => {
                if let Ok(leave) = decode::<Leave>(bytes) {
                    self.event(io, None, Event::Leave(&leave));
                }
            }
            Some(WorkerSubject::Tenant(tenant, session, what)) => {
                self.tenant(io, &tenant, session, what, bytes);
            }
            None => {}
        }
    }

    fn tenant(
        &mut self,
        io: &mut Io,
        tenant: &Tenant,
        session: SessionId,
        what: ToWorker,
        bytes: &[u8],
    ) {
        match what {
            ToWorker::Batch => {
                if let Ok(batch) = decode::<Batch<'_>>(bytes) {
                    self.batch(io, tenant, session, &batch);
                }
            }
            ToWorker::State => {
                if let Ok(state) = decode(bytes) {
                    let event = Event::ClientState {
                        tenant,
                        session,
                        state,
                    };
                    self.event(io, None, event);
                }
            }
            ToWorker::Data => {
                if let Ok(chunk) = decode::<DataChunk<'_>>(bytes) {
                    self.chunk(io, tenant, session, &chunk);
                }
            }
        }
    }

    fn batch(&mut self, io: &mut Io, tenant: &Tenant, session: SessionId, batch: &Batch<'_>) {
        let Ok(ops) = batch.ops() else {
            return;
        };
        let kept: Vec<D::Op> = ops.iter().map(|op| D::keep(&op)).collect();
        let (mut outs, mut staged, mut loads) = (Vec::new(), Vec::new(), Vec::new());
        for (number, op) in (batch.first..).zip(ops.iter()) {
            match op.op {
                Op::CopyOut { bytes, .. } => outs.push((number, bytes)),
                Op::Sync => outs.push((number, 0)),
                Op::LoadModule { hash, .. } if !self.images.contains(&(tenant.clone(), hash)) => {
                    loads.push((number, hash));
                }
                Op::CopyIn { transfer, .. } if transfer != 0 => staged.push((number, transfer)),
                _ => {}
            }
        }
        let event = BatchEvent {
            tenant,
            session,
            first: batch.first,
            count: batch.count,
            results: batch.results,
            bytes: (batch.descriptors.len() + batch.blob.len()) as u64,
            outs: &outs,
            staged: &staged,
            loads: &loads,
        };
        let mut actions = Vec::new();
        self.core.handle(io.now, Event::Batch(event), &mut actions);
        for action in &actions {
            if let Action::Keep {
                session: of,
                first,
                count,
                skip,
            } = *action
            {
                let (skip, count) = (skip as usize, count as usize);
                match kept.get(skip..skip + count) {
                    Some(part) => {
                        let place = self.place(of, tenant);
                        place.ops.extend((first..).zip(part.iter().cloned()));
                    }
                    None => broken(io, "kept what was not sent"),
                }
            }
        }
        self.carry_out(io, None, actions);
    }

    fn chunk(&mut self, io: &mut Io, tenant: &Tenant, session: SessionId, chunk: &DataChunk<'_>) {
        let known = chunk
            .module()
            .is_some_and(|hash| self.images.contains(&(tenant.clone(), hash)));
        let image = match known {
            true => ImageState::Ready,
            false => ImageState::Unknown,
        };
        let event = ChunkEvent {
            tenant,
            session,
            transfer: chunk.transfer,
            total: chunk.total,
            offset: chunk.offset,
            bytes: chunk.bytes.len() as u64,
            module: chunk.module(),
            image,
        };
        let mut actions = Vec::new();
        self.core.handle(io.now, Event::Chunk(event), &mut actions);
        for action in &actions {
            // An image that is here already is whole with its first chunk, which may come before
            // the session's first batch.
            if let Action::Whole { session: of, .. } = *action {
                self.place(of, tenant);
            }
            if let Action::Store {
                session: of,
                transfer,
                total,
                offset,
            } = *action
            {
                let place = self.place(of, tenant);
                let buffer = &mut place.transfers.entry(transfer).or_default().bytes;
                buffer.resize(total as usize, 0);
                let end = offset as usize + chunk.bytes.len();
                match buffer.get_mut(offset as usize..end) {
                    Some(part) => part.copy_from_slice(chunk.bytes),
                    None => broken(io, "stored a chunk outside its transfer"),
                }
            }
        }
        self.carry_out(io, None, actions);
    }

    /// A session's place; its client may send as soon as the open grant is accepted, which is
    /// before it is carried out.
    fn place(&mut self, session: SessionId, tenant: &Tenant) -> &mut Kept<D::Op> {
        self.sessions.entry(session).or_insert_with(|| Kept {
            tenant: tenant.clone(),
            ops: BTreeMap::new(),
            transfers: BTreeMap::new(),
            results: BTreeMap::new(),
        })
    }

    fn event(&mut self, io: &mut Io, reply: Option<&str>, event: Event<'_>) {
        let mut actions = Vec::new();
        self.core.handle(io.now, event, &mut actions);
        // What completed was accounted for before.
        self.meter.reported(self.core.reports());
        self.carry_out(io, reply, actions);
    }
}

impl<D: Device> Node for WorkerNode<D> {
    fn handle(&mut self, io: &mut Io, input: Input) {
        self.device.turn(io);
        match input {
            Input::Started => self.start(io),
            Input::Message(packet) => self.message(io, &packet),
            Input::Wake => self.wake(io),
            Input::Later(REPORT) => self.report_again(io),
            Input::Later(_) => self.ended(io),
            Input::Terminate => {
                self.draining = true;
                self.event(io, None, Event::Drain);
            }
            // A worker learns nothing from its connection: it runs on with what it accepted.
            Input::Connection(_)
            | Input::Closed(_)
            | Input::Store(..)
            | Input::Lease(_)
            | Input::Placement(_) => {}
        }
    }

    fn state(&self) -> &'static str {
        match self.core.load() {
            _ if self.draining => "draining",
            _ if self.core.sealed().0 == 0 => "unsealed",
            _ if self.device.has_parked() => "one parked",
            _ if self.claims.is_waiting() => "waiting for memory",
            (0, false) => "idle",
            (0, true) => "waiting for a batch",
            (_, false) => "running",
            (_, true) => "running, more waits",
        }
    }
}

fn broken(io: &mut Io, why: &str) {
    io.fact(Fact::Broken { why: why.into() });
}
