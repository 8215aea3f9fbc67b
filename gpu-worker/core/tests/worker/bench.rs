//! A worker core on a bench that plays leader, clients and device, with encoded messages.

use std::collections::BTreeMap;
use std::rc::Rc;

use bus_schemas::subject::{ToWorker, WorkerSubject};
use bus_schemas::{
    Allowance, Batch, Column, CostRun, Grant, GrantBatch, GrantKind, Incarnation, KernelKey,
    Launch, LeaderId, MemoryRequest, Op, OpNumber, OpenGrant, Seal, SessionId, Tenant,
    WIRE_VERSION, Window, WorkerBeat, encode, limits, write_descriptor,
};
use bytes::Bytes;
use gpu_worker_core::dispatch::{LaunchNeeds, Limits, ModuleBytes};
use gpu_worker_core::sequencer::SequencerConfig;
use gpu_worker_core::sharing_domains::Share;
use gpu_worker_core::worker::{
    Action, BatchPart, Buffers, CheckedImage, Command, CompletedSlice, CopySettings, Event,
    SentImage, WorkerSetup,
};
use gpu_worker_core::{Meter, Nanos, Pager, Resources, Worker};

pub(crate) const MIB: u64 = 1 << 20;
/// Bytes of unused chunks that the worker keeps, and the interval of its looks for idle ones.
pub(crate) const CHUNK_MEMORY: u64 = 2 * MIB;
pub(crate) const CHUNK_IDLE: Nanos = 60_000_000_000;

/// Ops by session and number; no staged bytes.
#[derive(Default)]
pub(crate) struct Kept(BTreeMap<(SessionId, OpNumber), Op>);

impl Buffers for Kept {
    type Payload = Vec<u8>;
    type Ops = Vec<Op>;
    type Module = ();
    type Image = ();
    type Staged = ();
    type Chunk = Rc<[u8]>;

    fn keep(&mut self, session: SessionId, part: BatchPart<'_, Vec<u8>>) {
        let ops = part.ops.iter().skip(part.skip as usize);
        let ops = ops.take(part.count as usize).map(|op| op.op);
        let keys = (part.first..).map(|number| (session, number));
        self.0.extend(keys.zip(ops));
    }

    fn take(&mut self, session: SessionId, first: OpNumber, last: OpNumber) -> Vec<Op> {
        let op = |number| self.0[&(session, number)];
        (first..=last).map(op).collect()
    }

    fn forget(&mut self, session: SessionId, through: OpNumber) {
        self.0
            .retain(|(of, number), _| *of != session || *number > through);
    }

    fn store(&mut self, _: SessionId, _: u64, _: u64, _: u64, _: &[u8]) {}

    fn place(&mut self, _: SessionId, _: u64, _: Vec<Rc<[u8]>>) {}

    fn is_used(chunk: &Rc<[u8]>) -> bool {
        Rc::strong_count(chunk) > 1
    }

    fn check(&mut self, _: SentImage) -> Option<CheckedImage<()>> {
        None
    }

    fn take_staged(&mut self, _: SessionId, _: u64) -> Option<()> {
        None
    }

    fn fingerprint(&self, _: SessionId, _: u64) -> Option<u64> {
        None
    }

    fn drop_transfers(&mut self, _: SessionId) {}

    fn recycle(&mut self, _: Bytes) {}

    fn close(&mut self, session: SessionId) {
        self.forget(session, OpNumber::MAX);
    }

    fn ops(&self, ops: &Vec<Op>) -> impl Iterator<Item = Op> {
        ops.iter().copied()
    }

    fn module_bytes(&self, (): &()) -> ModuleBytes {
        ModuleBytes::default()
    }

    fn kernel(&self, (): &(), _: &Launch) -> Option<LaunchNeeds> {
        None
    }
}

pub(crate) fn tenant() -> Tenant {
    "a".parse().unwrap()
}

pub(crate) struct Bench {
    pub(crate) worker: Worker<Kept>,
    pub(crate) now: Nanos,
    /// Next gpu position.
    next: u64,
}

impl Bench {
    /// A sealed worker on a device with room for `capacity` bytes. Its sessions may hold `limit` bytes.
    pub(crate) fn new(capacity: u64, limit: u64) -> Self {
        Self::with_idle(capacity, limit, 0)
    }

    /// The same. A session is idle after this time without work.
    pub(crate) fn with_idle(capacity: u64, limit: u64, idle: Nanos) -> Self {
        let setup = WorkerSetup {
            config: SequencerConfig::default(),
            beat: WorkerBeat::new(Incarnation(9), 3, capacity),
            limits: Limits {
                blocks: 1,
                small_launch: 0,
                launch_bytes: 0,
            },
            overlaps: false,
            copies: CopySettings {
                share: Share::Tenant,
                memory: CHUNK_MEMORY,
                idle: CHUNK_IDLE,
            },
        };
        let pager = Pager::new(capacity).with_swap(limit, idle);
        let meter = Meter::new(0, Incarnation(9), 3, 1, true);
        let resources = Resources::new(pager, meter, 0);
        let mut bench = Self {
            worker: Worker::new(setup, resources, Kept::default()),
            now: 1,
            next: 1,
        };
        let seal = Seal {
            v: WIRE_VERSION,
            epoch: 1,
            leader: LeaderId(1),
            after: None,
            times: false,
        };
        bench.hear(&WorkerSubject::Seal, encode(&seal));
        bench
    }

    pub(crate) fn tell(&mut self, event: Event<'_, Kept>) -> Vec<Action<Kept>> {
        let mut actions = Vec::new();
        self.worker.handle(self.now, event, &mut actions);
        actions
    }

    pub(crate) fn hear(&mut self, subject: &WorkerSubject, bytes: Vec<u8>) -> Vec<Action<Kept>> {
        self.tell(Event::Message(subject, &bytes))
    }

    fn order(&mut self, grant: Grant, opens: Vec<OpenGrant>) -> Vec<Action<Kept>> {
        let mut packed = Vec::new();
        let batch = GrantBatch {
            v: WIRE_VERSION,
            epoch: 1,
            leader: LeaderId(1),
            first: self.next,
            recorded: 0,
            reports: 0,
            grants: Column::pack(&[grant], &mut packed),
            opens,
        };
        self.next += 1;
        self.hear(&WorkerSubject::GrantBatch, encode(&batch))
    }

    pub(crate) fn open(&mut self, session: SessionId) {
        self.open_of(tenant(), session);
    }

    /// Opens a session of a tenant.
    pub(crate) fn open_of(&mut self, tenant: Tenant, session: SessionId) {
        let size = limits::WINDOW_MIN_BYTES;
        let open = OpenGrant {
            session,
            tenant,
            ordinal: session.0,
            window: Window {
                base: limits::ADDRESS_FIRST + session.0 * size,
                size,
            },
            quota: 0,
            nonce: session.0,
            priority: 2,
            modules: Allowance::NONE,
            staged: Allowance::NONE,
        };
        let actions = self.order(grant(GrantKind::Open, session, 0, 0), vec![open]);
        let is_open = |action: &Action<Kept>| matches!(action, Action::Device(Command::Open(..)));
        assert!(actions.iter().any(is_open));
        self.tell(Event::Opened(session, None));
    }

    /// Sends an op and grants it. Returns the actions that follow the later of the two messages.
    pub(crate) fn run(
        &mut self,
        session: SessionId,
        number: OpNumber,
        op: Op,
    ) -> Vec<Action<Kept>> {
        let mut descriptors = Vec::new();
        write_descriptor(&op, 0, 0, &mut descriptors);
        let batch = Batch {
            v: WIRE_VERSION,
            first: number,
            count: 1,
            results: 0,
            descriptors: &descriptors,
            blob: &[],
        };
        let subject = WorkerSubject::Tenant(tenant(), session, ToWorker::Batch);
        self.hear(&subject, encode(&batch));
        let declared = CostRun::of(&op, KernelKey(0)).declared();
        let grant = grant(GrantKind::Run, session, number, declared);
        self.order(grant, Vec::new())
    }

    /// Asks for `bytes` of memory for a session that holds none.
    pub(crate) fn ask(&mut self, session: SessionId, number: u64, bytes: u64) -> Vec<Action<Kept>> {
        self.request(session, (number, 0), (0, bytes))
    }

    /// Sends a request for memory of this number that answers this recall: the session holds `held` bytes, and
    /// needs `least`.
    pub(crate) fn request(
        &mut self,
        session: SessionId,
        (number, recall): (u64, u64),
        (held, least): (u64, u64),
    ) -> Vec<Action<Kept>> {
        let request = MemoryRequest {
            v: WIRE_VERSION,
            number,
            held,
            after: 0,
            wanted: least,
            least,
            recall,
            process: None,
            pinned: false,
        };
        let subject = WorkerSubject::Tenant(tenant(), session, ToWorker::Memory);
        self.hear(&subject, encode(&request))
    }

    /// Completes a slice of one op. Its session holds `resident` bytes now.
    pub(crate) fn complete(
        &mut self,
        session: SessionId,
        position: u64,
        resident: u64,
    ) -> Vec<Action<Kept>> {
        self.tell(Event::Completed(CompletedSlice {
            position,
            session,
            resident,
            ..CompletedSlice::default()
        }))
    }
}

fn grant(kind: GrantKind, session: SessionId, op: OpNumber, declared: u64) -> Grant {
    Grant {
        kind,
        priority: 2,
        global: 0,
        session,
        first: op,
        last: op,
        cost: 1_000,
        declared,
        input: 1,
        epoch: 1,
    }
}

/// The position of the slice that these actions hand to the device.
pub(crate) fn submitted(actions: &[Action<Kept>]) -> Option<(SessionId, u64)> {
    actions.iter().find_map(|action| match action {
        Action::Device(Command::Submit(slice)) => {
            let start = slice.submission.start;
            Some((start.session, start.position))
        }
        _ => None,
    })
}

/// The session that these actions have swapped out.
pub(crate) fn swapped_out(actions: &[Action<Kept>]) -> Option<SessionId> {
    actions.iter().find_map(|action| match action {
        Action::Device(Command::SwapOut(session)) => Some(*session),
        _ => None,
    })
}

/// The session that these actions bring back to the device.
pub(crate) fn swapped_in(actions: &[Action<Kept>]) -> Option<SessionId> {
    actions.iter().find_map(|action| match action {
        Action::Device(Command::SwapIn(session)) => Some(*session),
        _ => None,
    })
}
