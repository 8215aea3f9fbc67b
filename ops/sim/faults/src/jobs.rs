//! The model device, one job at a time. Some devices follow the order in which the sequencer started the
//! jobs. Others run the most urgent job first and park the overtaken one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bus_schemas::{
    ExportPlace, Failure, Incarnation, KernelKey, Launch, MemoryAnswer, ModuleHash, Op, OpRef,
    SessionId, Tenant, WeightSample, Weights, Window, decode, encode,
};
use device::KernelTime;
use gpu_worker_core::exports::DeviceAction;
use gpu_worker_core::sequencer::OpenAction;
use sim_cluster::{
    DEVICE, Ended, Io, MICRO, Nanos, NodeFact, SimDevice, SimSlice, SliceEnd, WorkerFact,
};

use crate::device::{Around, DeviceSession, KeptOp, SliceRun, kernel_key};
use crate::device_exports::DeviceExports;
use crate::memory::{Cells, clear};
use crate::mutants::Mutant;

/// A job of the device.
enum Job {
    Open(OpenAction),
    Start(Box<SimSlice<KeptOp>>),
    Close(SessionId),
}

/// A job that has not ended.
struct Pending {
    job: Job,
    /// Its results and its remaining time, once it has begun.
    begun: Option<(SliceRun, Nanos)>,
}

/// A worker's device.
pub(crate) struct ModelDevice {
    incarnation: Incarnation,
    preemptive: bool,
    mutant: Option<Mutant>,
    sessions: BTreeMap<SessionId, DeviceSession>,
    windows: BTreeMap<SessionId, Window>,
    cells: Cells,
    exports: DeviceExports,
    jobs: VecDeque<Pending>,
    running: Option<Running>,
}

/// The job that runs now.
struct Running {
    pending: Pending,
    ends: Nanos,
}

impl Pending {
    fn new(job: Job) -> Self {
        Self { job, begun: None }
    }

    /// Stops the job. Returns its remaining time.
    fn stop(&mut self, why: &Failure) -> Nanos {
        let Job::Start(slice) = &self.job else {
            return self.begun.as_ref().map_or(0, |(_, left)| *left);
        };
        match &mut self.begun {
            None => 0,
            Some((run, left)) => {
                let soon = STOPS.min(*left);
                run.stop(*left - soon, slice.submission.start.first, why);
                *left = soon;
                soon
            }
        }
    }

    /// True if it has begun and is not running, because something more urgent runs.
    fn is_parked(&self) -> bool {
        self.begun.is_some()
    }
}

impl Job {
    fn session(&self) -> SessionId {
        match self {
            Self::Open(open) => open.session,
            Self::Start(slice) => slice.submission.start.session,
            Self::Close(session) => *session,
        }
    }

    fn priority(&self) -> u8 {
        match self {
            Self::Open(open) => open.priority,
            Self::Start(slice) => slice.submission.start.priority,
            // A close waits for nothing: no job of its session is left.
            Self::Close(_) => 0,
        }
    }
}

/// Time within which a running kernel ends once it is told to: it notices at its next backward jump.
const STOPS: Nanos = 100 * MICRO;

impl ModelDevice {
    /// Makes a device on which nothing has begun.
    #[must_use]
    pub(crate) fn new(incarnation: Incarnation, preemptive: bool, mutant: Option<Mutant>) -> Self {
        Self {
            incarnation,
            preemptive,
            mutant,
            sessions: BTreeMap::new(),
            windows: BTreeMap::new(),
            cells: Cells::new(),
            exports: DeviceExports::default(),
            jobs: VecDeque::new(),
            running: None,
        }
    }

    fn fact(&self, io: &mut Io, fact: WorkerFact) {
        io.fact(NodeFact::Worker(self.incarnation, fact));
    }

    /// A session's running or parked slice, and its remaining time.
    fn begun(&self, now: Nanos, session: SessionId) -> Option<(&SliceRun, Nanos)> {
        let own = |pending: &&Pending| pending.job.session() == session;
        if let Some(Running { pending, ends }) = &self.running
            && own(&pending)
        {
            let (run, _) = pending.begun.as_ref()?;
            return Some((run, ends.saturating_sub(now)));
        }
        let mut jobs = self.jobs.iter().filter(own);
        let parked = jobs.find(|it| it.is_parked())?;
        parked.begun.as_ref().map(|(run, left)| (run, *left))
    }
    /// The index and urgency of the next job. The urgency is that of the most urgent job of its session,
    /// because a session's jobs run in order.
    fn next_job(&self) -> Option<(usize, u8)> {
        // For each session: its first job, and the urgency of all.
        let mut sessions: Vec<(SessionId, usize, u8)> = Vec::new();
        for (index, Pending { job, .. }) in self.jobs.iter().enumerate() {
            let priority = if self.preemptive { job.priority() } else { 0 };
            let session = job.session();
            match sessions.iter_mut().find(|(other, ..)| *other == session) {
                Some((.., urgency)) => *urgency = priority.min(*urgency),
                None => sessions.push((session, index, priority)),
            }
        }
        let urgent = sessions.iter().min_by_key(|(.., urgency)| *urgency);
        urgent.map(|(_, index, urgency)| (*index, *urgency))
    }

    fn begin_next(&mut self, io: &mut Io) {
        if let Some(running) = self.running.take() {
            let urgency = |job: &Job| {
                let own = self.jobs.iter().map(|pending| &pending.job);
                let own = own.filter(|other| other.session() == job.session());
                own.map(Job::priority).fold(job.priority(), u8::min)
            };
            let now = urgency(&running.pending.job);
            let next = self.next_job().filter(|_| self.preemptive);
            if running.ends <= io.now || next.is_none_or(|(_, priority)| priority >= now) {
                self.running = Some(running);
                return;
            }
            let mut parked = running.pending;
            if let Some((_, left)) = &mut parked.begun {
                *left = running.ends - io.now;
            }
            self.jobs.push_front(parked);
        }
        let Some(mut pending) = self
            .next_job()
            .and_then(|(index, _)| self.jobs.remove(index))
        else {
            return;
        };
        let left = match &pending.begun {
            Some((_, left)) => *left,
            None => {
                let run = self.begin(io, &pending.job);
                let time = run.device_ns;
                pending.begun = Some((run, time));
                time
            }
        };
        let ends = io.now + left;
        io.later(ends, DEVICE);
        self.running = Some(Running { pending, ends });
    }

    fn begin(&mut self, io: &mut Io, job: &Job) -> SliceRun {
        let mut run = SliceRun {
            device_ns: 20 * MICRO,
            ..SliceRun::default()
        };
        match job {
            Job::Open(open) => {
                let (session, open) = (open.session, true);
                self.sessions.insert(session, DeviceSession::default());
                self.fact(io, WorkerFact::Device { session, open });
            }
            Job::Close(session) => {
                self.sessions.remove(session);
                self.end_exports(io, *session, None);
            }
            Job::Start(slice) => run = self.run(io, slice),
        }
        run
    }

    fn run(&mut self, io: &mut Io, slice: &SimSlice<KeptOp>) -> SliceRun {
        let submission = &slice.submission;
        let session = submission.start.session;
        let Some(device) = self.sessions.get_mut(&session) else {
            let why = "started a slice of a session that is not open".into();
            io.fact(NodeFact::Broken { why });
            return SliceRun::default();
        };
        let mut around = Around {
            staged: &slice.staged,
            cells: &mut self.cells,
            imports: &self.exports.visible(session),
            fail_at: submission.fail_at.as_ref(),
            unchecked: self.mutant == Some(Mutant::SkipsAddressCheck),
        };
        let run = device.run(submission.start.first, &submission.ops, &mut around);
        for (op, address, bytes) in run.touched.iter().copied() {
            let fact = WorkerFact::Touched {
                session,
                op,
                address,
                bytes,
            };
            self.fact(io, fact);
        }
        for address in run.freed.iter().copied() {
            self.end_exports(io, session, Some(address));
        }
        for (op, print) in run.ran.iter().copied() {
            self.fact(io, WorkerFact::Ran { session, op, print });
        }
        let (most, resident) = (run.peak, None);
        let fact = WorkerFact::Held {
            session,
            most,
            resident,
        };
        self.fact(io, fact);
        run
    }
}

impl ModelDevice {
    fn end_exports(&mut self, io: &mut Io, session: SessionId, address: Option<u64>) {
        let keeps = self.mutant == Some(Mutant::KeepsImports);
        for export in self.exports.end(session, address, keeps) {
            self.fact(io, WorkerFact::ExportGone { export });
        }
    }
}

impl SimDevice for ModelDevice {
    type Op = KeptOp;
    const SCANS: bool = true;

    fn keep(op: &OpRef<'_>) -> KeptOp {
        KeptOp {
            op: op.op,
            stream: op.stream,
            payload: op.payload.to_vec(),
        }
    }

    fn op(kept: &KeptOp) -> Op {
        kept.op
    }

    fn key(module: &ModuleHash, launch: &Launch) -> KernelKey {
        kernel_key(module, launch)
    }

    fn open(&mut self, _: &mut Io, open: OpenAction) -> bool {
        self.windows.insert(open.session, open.window);
        self.jobs.push_back(Pending::new(Job::Open(open)));
        false
    }

    fn close(&mut self, _: &mut Io, session: SessionId) {
        self.jobs.push_back(Pending::new(Job::Close(session)));
    }

    fn submit(&mut self, _: &mut Io, slice: SimSlice<KeptOp>) {
        self.jobs
            .push_back(Pending::new(Job::Start(Box::new(slice))));
    }

    fn bend(&self) -> fn(Op) -> Op {
        match self.mutant {
            Some(Mutant::IgnoresQuota) => |op| match op {
                Op::Alloc { address, .. } => Op::Alloc { address, bytes: 0 },
                op => op,
            },
            _ => |op| op,
        }
    }

    fn bend_promise(&self, message: Vec<u8>) -> Vec<u8> {
        match decode::<MemoryAnswer>(&message) {
            Ok(answer) if self.mutant == Some(Mutant::PromisesTooMuch) => encode(&MemoryAnswer {
                committed: answer.committed.saturating_mul(8),
                failure: None,
                ..answer
            }),
            _ => message,
        }
    }

    fn stop(&mut self, io: &mut Io, session: SessionId, why: &Failure) {
        if let Some((run, left)) = self.begun(io.now, session) {
            let ran = run.device_ns.saturating_sub(left);
            self.fact(io, WorkerFact::Stopped { session, ran });
        }
        if self.mutant == Some(Mutant::IgnoresStop) {
            return;
        }
        let Some(device) = self.sessions.get_mut(&session) else {
            return;
        };
        device.stop(0, why);
        let own = |pending: &&mut Pending| pending.job.session() == session;
        self.jobs.iter_mut().filter(own).for_each(|pending| {
            pending.stop(why);
        });
        if let Some(Running { pending, ends }) = &mut self.running
            && pending.job.session() == session
        {
            if let Some((_, left)) = &mut pending.begun {
                *left = ends.saturating_sub(io.now);
            }
            *ends = io.now + pending.stop(why);
            io.later(*ends, DEVICE);
        }
    }

    fn work(&mut self, io: &mut Io) {
        self.begin_next(io);
    }

    fn ended(&mut self, io: &mut Io) -> Option<Ended> {
        // A job that was parked meanwhile ends later than this says.
        let Running { pending, .. } = self.running.take_if(|running| running.ends <= io.now)?;
        let (run, _) = pending.begun.unwrap_or_default();
        Some(match pending.job {
            Job::Open(open) => Ended::Opened(open.session),
            Job::Close(session) => {
                if let Some(window) = self.windows.remove(&session) {
                    clear(&mut self.cells, window.base, window.size);
                }
                Ended::Closed(session)
            }
            Job::Start(slice) => Ended::Slice(Box::new(end(&slice, run))),
        })
    }

    fn exchange(
        &mut self,
        io: &mut Io,
        session: SessionId,
        action: DeviceAction,
    ) -> Result<Option<ExportPlace>, Failure> {
        let device = self.sessions.get(&session);
        let allocation = |address| device?.allocation(address);
        let came = self.exports.exchange(session, action, allocation);
        let bytes = came
            .as_ref()
            .ok()
            .map(|place| place.map_or(0, |it| it.bytes));
        let fact = WorkerFact::Exchanged {
            session,
            action,
            bytes,
        };
        self.fact(io, fact);
        came
    }

    fn shares(&self, session: SessionId) -> bool {
        self.exports.shares(session)
    }

    fn take_gone(&mut self) -> Vec<u64> {
        self.exports.take_gone()
    }

    fn held(&self, session: SessionId) -> u64 {
        self.sessions.get(&session).map_or(0, DeviceSession::held)
    }

    fn has_parked(&self) -> bool {
        self.jobs.iter().any(Pending::is_parked)
    }

    /// Possible weights: programs of one parity have the same, a MiB each.
    fn weights(&self, tenants: &BTreeSet<&Tenant>) -> Option<Weights> {
        let sample = |tenant: &&Tenant| WeightSample {
            tenant: (*tenant).clone(),
            fingerprint: tenant.as_str().bytes().map(u64::from).sum::<u64>() % 2,
            bytes: 1 << 20,
        };
        Some(Weights(tenants.iter().map(sample).collect()))
    }
}

/// The end of a slice that has run.
fn end(slice: &SimSlice<KeptOp>, run: SliceRun) -> SliceEnd {
    let ran = |(key, time, sm_ns): &(KernelKey, u64, u64)| KernelTime {
        key: *key,
        count: 1,
        total_ns: *time,
        sm_ns: *sm_ns,
        least_ns: *time,
        most_ns: *time,
    };
    SliceEnd {
        start: slice.submission.start,
        declared: None,
        device_ns: run.device_ns,
        sm_ns: run.sm_ns,
        kernels: run.launches.iter().map(ran).collect(),
        answers: run.answers,
        fault: run.fault,
    }
}
