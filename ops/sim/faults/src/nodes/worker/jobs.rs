//! What the model device runs: one job at a time, on some devices in the order the sequencer
//! started them, on others the most urgent first, which parks what it overtakes.

use gpu_worker_core::dispatch::{Event, Submission};
use gpu_worker_core::sequencer;

use super::*;

/// A slice that the dispatch has handed on.
pub(super) struct Slice {
    pub(super) submission: Submission<Vec<KeptOp>>,
    /// The staged bytes that it uses, by transfer.
    pub(super) staged: BTreeMap<u64, Vec<u8>>,
}

/// A job that has not ended.
pub(super) struct Pending {
    pub(super) job: Job,
    /// What came of it, once it has begun, and how long it still runs.
    begun: Option<(SliceRun, Nanos)>,
}

/// What the device does now.
pub(super) struct Running {
    pending: Pending,
    ends: Nanos,
}

impl Pending {
    pub(super) fn new(job: Job) -> Self {
        Self { job, begun: None }
    }

    /// It is stopped. Gives how long it still runs.
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

    /// Whether it has begun and something more urgent runs.
    pub(super) fn is_parked(&self) -> bool {
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
            // It waits for nothing: nothing of its session is left.
            Self::Close(_) => 0,
        }
    }
}

/// How soon what runs ends once it is told to: a kernel sees it at its next jump back.
const STOPS: Nanos = 100 * MICRO;

impl WorkerNode {
    /// A session's close is accepted: what it has on the device ends soon, and what has not begun is
    /// gone.
    pub(super) fn stop(&mut self, io: &mut Io, session: SessionId) {
        let own = |pending: &Pending| pending.job.session() == session;
        let running = self.running.as_ref().filter(|it| own(&it.pending));
        let begun = match running {
            Some(Running { pending, ends }) => Some((pending, ends.saturating_sub(io.now))),
            None => {
                let parked = self.jobs.iter().find(|it| own(it) && it.is_parked());
                parked.and_then(|it| Some((it, it.begun.as_ref()?.1)))
            }
        };
        if let Some((
            Pending {
                begun: Some((run, _)),
                ..
            },
            left,
        )) = begun
        {
            io.fact(Fact::Stopped {
                incarnation: self.identity.incarnation,
                session,
                ran: run.device_ns.saturating_sub(left),
            });
        }
        if self.flaw == Some(Flaw::IgnoresStop) {
            return;
        }
        let why = Failure::new(Code::SessionGone, "the session was closed");
        let stopped = Event::Stopped {
            session,
            why: why.clone(),
        };
        self.tell_dispatch(io, stopped);
        let Some(device) = self.device.get_mut(&session) else {
            return;
        };
        device.stop(0, &why);
        for pending in self
            .jobs
            .iter_mut()
            .filter(|it| it.job.session() == session)
        {
            pending.stop(&why);
        }
        if let Some(Running { pending, ends }) = &mut self.running
            && pending.job.session() == session
        {
            if let Some((_, left)) = &mut pending.begun {
                *left = ends.saturating_sub(io.now);
            }
            *ends = io.now + pending.stop(&why);
            io.later(*ends, TELL);
        }
    }

    /// The index of the next job, and how urgent it is: as the most urgent of its session's, for
    /// those run in order.
    fn next_job(&self) -> Option<(usize, u8)> {
        // Of each session: its first job, and how urgent they are together.
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

    /// Lets the device begin its next job, or go on with one.
    pub(super) fn work(&mut self, io: &mut Io) {
        self.hand_on(io);
        self.begin_next(io);
        let behind = self.jobs.len() + self.dispatch.waiting();
        let waits = self.running.is_some() && behind > 0;
        self.meter.waiting(io.now, waits);
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
        io.later(ends, TELL);
        self.running = Some(Running { pending, ends });
    }

    fn begin(&mut self, io: &mut Io, job: &Job) -> SliceRun {
        let incarnation = self.identity.incarnation;
        let mut run = SliceRun {
            device_ns: 20 * MICRO,
            ..SliceRun::default()
        };
        match job {
            Job::Open(open) => {
                self.device.insert(open.session, DeviceSession::default());
                io.fact(Fact::Device {
                    incarnation,
                    session: open.session,
                    open: true,
                });
            }
            Job::Close(session) => {
                self.device.remove(session);
            }
            Job::Start(slice) => run = self.run(io, slice),
        }
        run
    }

    fn run(&mut self, io: &mut Io, slice: &Slice) -> SliceRun {
        let Submission {
            start,
            ops,
            fail_at,
            ..
        } = &slice.submission;
        let session = start.session;
        let Some(device) = self.device.get_mut(&session) else {
            broken(io, "started a slice of a session that is not open");
            return SliceRun::default();
        };
        let mut around = Around {
            staged: &slice.staged,
            cells: &mut self.cells,
            fail_at: fail_at.as_ref(),
            unchecked: self.flaw == Some(Flaw::SkipsAddressCheck),
        };
        let run = device.run(start.first, ops, &mut around);
        let incarnation = self.identity.incarnation;
        for (op, address, bytes) in run.touched.iter().copied() {
            io.fact(Fact::Touched {
                incarnation,
                session,
                op,
                address,
                bytes,
            });
        }
        for (op, print) in run.ran.iter().copied() {
            io.fact(Fact::Ran {
                incarnation,
                session,
                op,
                print,
            });
        }
        io.fact(Fact::Held {
            incarnation,
            session,
            most: run.peak,
            resident: None,
        });
        run
    }

    pub(super) fn finished(&mut self, io: &mut Io) {
        // What was parked meanwhile ends later than this says.
        if self
            .running
            .as_ref()
            .is_none_or(|running| io.now < running.ends)
        {
            return;
        }
        let Some(Running { pending, .. }) = self.running.take() else {
            return;
        };
        let (run, _) = pending.begun.unwrap_or_default();
        match pending.job {
            Job::Open(open) => {
                let event = sequencer::Event::Opened {
                    session: open.session,
                    failure: None,
                };
                self.event(io, None, event);
            }
            Job::Close(session) => {
                self.vacate(io, session);
                self.event(io, None, sequencer::Event::Closed { session });
            }
            Job::Start(slice) => {
                let start = slice.submission.start;
                self.account(io, &start, &run);
                let results: Vec<u64> = run
                    .answers
                    .iter()
                    .map(|answer| answer.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
                    .collect();
                self.answers = run.answers;
                let event = CompletedEvent {
                    position: start.position,
                    session: start.session,
                    device_ns: run.device_ns,
                    results: &results,
                    declared: slice.submission.declared,
                    fault: run.fault.as_ref().map(|(op, failure)| (*op, failure)),
                };
                self.event(io, None, sequencer::Event::Completed(event));
                self.answers.clear();
            }
        }
        self.work(io);
    }
}
