//! A worker: the real sequencer, the model device, and the thin shell between them and the bus.

mod actions;
mod dispatch;
mod jobs;
mod memory;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bus_schemas::subject::{ConnectionName, Subjects, ToClient, ToWorker, WorkerSubject};
use bus_schemas::{
    Batch, Code, DataChunk, DeviceResult, Failure, GrantBatch, Launch, Leave, Lost, ModuleHash, Op,
    OpNumber, Rejected, ResultKind, Seal, SessionId, Tenant, WIRE_VERSION, Window, WorkerBeat,
    decode, encode, limits,
};
use gpu_worker_core::sequencer::{
    Action, BatchEvent, ChunkEvent, CompletedEvent, Config, Event, Identity, ImageState,
    OpenAction, StartAction,
};

use gpu_worker_core::dispatch::{Claims, Limits};
use gpu_worker_core::{Dispatch, Meter, Pager, Sequencer};

use jobs::{Pending, Running, Slice};

use crate::device::{Answer, Around, DeviceSession, KeptOp, SMS, SliceRun};
use crate::fact::Fact;
use crate::flaw::Flaw;
use crate::memory::{Cells, clear};
use crate::network::Packet;
use crate::node::{Input, Io, Node};
use sim_time::{MICRO, MILLI, Nanos};

const TELL: u64 = 0;
const REPORT: u64 = 1;
const REPORT_EVERY: Nanos = 250 * MILLI;

/// A device whose launches take no memory beside their sessions'.
const LIMITS: Limits = Limits {
    blocks: SMS as u64,
    small_launch: 0,
    launch_bytes: 0,
};

enum Job {
    Open(OpenAction),
    Start(Box<Slice>),
    Close(SessionId),
}

/// The bytes of a transfer, as far as they are here.
#[derive(Default)]
struct Staged {
    bytes: Vec<u8>,
    whole: bool,
}

struct Kept {
    tenant: Tenant,
    ops: BTreeMap<OpNumber, KeptOp>,
    transfers: BTreeMap<u64, Staged>,
    results: BTreeMap<u64, Answer>,
}

/// One start of a worker.
pub(crate) struct WorkerNode {
    subjects: Subjects,
    identity: Identity,
    core: Sequencer,
    sessions: BTreeMap<SessionId, Kept>,
    images: BTreeSet<(Tenant, ModuleHash)>,
    device: BTreeMap<SessionId, DeviceSession>,
    jobs: VecDeque<Pending>,
    running: Option<Running>,
    preemptive: bool,
    // With their ops: the sequencer forgets those as soon as it has started them.
    dispatch: Dispatch<Vec<KeptOp>, ModuleHash>,
    claims: Claims,
    pager: Pager,
    meter: Meter,
    windows: BTreeMap<SessionId, Window>,
    cells: Cells,
    flaw: Option<Flaw>,
    answers: Vec<Answer>,
    draining: bool,
    group: Option<Tenant>,
    exclusive: bool,
    // Heartbeats so far, and what the last that named images named.
    beats: u32,
    told: Vec<(Tenant, u64)>,
}

impl WorkerNode {
    /// A worker about to start.
    #[must_use]
    pub(crate) fn new(
        subjects: Subjects,
        identity: Identity,
        (group, exclusive): (Option<Tenant>, bool),
        flaw: Option<Flaw>,
    ) -> Self {
        let incarnation = identity.incarnation;
        // Both kinds of device, whatever the seed.
        let preemptive = incarnation.0.is_multiple_of(2);
        // Tails in one message, and in several of few grants each. A flaw bends the one.
        let seal_rows = match incarnation.0 % 3 {
            _ if flaw.is_some() => usize::MAX,
            0 => 2,
            1 => 40,
            _ => usize::MAX,
        };
        let config = Config {
            preemptive,
            seal_rows,
            ..Config::default()
        };
        Self {
            subjects,
            identity,
            core: Sequencer::new(config, identity),
            preemptive,
            sessions: BTreeMap::new(),
            images: BTreeSet::new(),
            device: BTreeMap::new(),
            jobs: VecDeque::new(),
            running: None,
            dispatch: Dispatch::new(LIMITS),
            claims: Claims::new(LIMITS.small_launch),
            pager: Pager::new(identity.capacity),
            meter: Meter::new(0, incarnation, identity.gpu, SMS, true),
            windows: BTreeMap::new(),
            cells: Cells::new(),
            flaw,
            answers: Vec::new(),
            draining: false,
            group,
            exclusive,
            beats: 0,
            told: Vec::new(),
        }
    }

    fn start(&mut self, io: &mut Io) {
        let incarnation = self.identity.incarnation;
        self.meter = Meter::new(io.now, incarnation, self.identity.gpu, SMS, true);
        for pattern in self.subjects.worker_inbound(incarnation) {
            io.subscribe(pattern);
        }
        io.name = Some(ConnectionName::Worker(incarnation).to_string().into());
        io.fact(Fact::WorkerStarted {
            incarnation,
            gpu: self.identity.gpu,
        });
        io.later(io.now + REPORT_EVERY, REPORT);
        self.event(io, None, Event::Tick);
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
        let kept: Vec<KeptOp> = ops
            .iter()
            .map(|op| KeptOp {
                op: op.op,
                stream: op.stream,
                payload: op.payload.to_vec(),
            })
            .collect();
        let (mut outs, mut staged, mut loads) = (Vec::new(), Vec::new(), Vec::new());
        for (number, kept) in (batch.first..).zip(&kept) {
            match kept.op {
                bus_schemas::Op::CopyOut { bytes, .. } => outs.push((number, bytes)),
                bus_schemas::Op::Sync => outs.push((number, 0)),
                bus_schemas::Op::LoadModule { hash, .. }
                    if !self.images.contains(&(tenant.clone(), hash)) =>
                {
                    loads.push((number, hash));
                }
                bus_schemas::Op::CopyIn { transfer, .. } if transfer != 0 => {
                    staged.push((number, transfer));
                }
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
    fn place(&mut self, session: SessionId, tenant: &Tenant) -> &mut Kept {
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

impl Node for WorkerNode {
    fn handle(&mut self, io: &mut Io, input: Input) {
        match input {
            Input::Started => self.start(io),
            Input::Message(packet) => self.message(io, &packet),
            Input::Wake => self.event(io, None, Event::Tick),
            Input::Later(REPORT) => {
                self.report(io);
                io.later(io.now + REPORT_EVERY, REPORT);
            }
            Input::Later(_) => self.finished(io),
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
            _ if self.jobs.iter().any(Pending::is_parked) => "one parked",
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
