//! What the model device runs: one job at a time, on some devices in the order the sequencer
//! started them, on others the most urgent first, which parks what it overtakes.

use super::*;

/// A job that has not ended.
pub(super) struct Pending {
    job: Job,
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

    /// Whether it has begun and something more urgent runs.
    pub(super) fn is_parked(&self) -> bool {
        self.begun.is_some()
    }
}

impl Job {
    fn session(&self) -> SessionId {
        match self {
            Self::Open(open) => open.session,
            Self::Start(start, _) => start.session,
            Self::Close(session) => *session,
        }
    }

    fn priority(&self) -> u8 {
        match self {
            Self::Open(open) => open.priority,
            Self::Start(start, _) => start.priority,
            // It waits for nothing: nothing of its session is left.
            Self::Close(_) => 0,
        }
    }
}

impl WorkerNode {
    /// The index of the next job, and how urgent it is: as the most urgent of its session's, for
    /// those run in order.
    fn next_job(&self) -> Option<(usize, u8)> {
        if !self.preemptive {
            return (!self.jobs.is_empty()).then_some((0, 0));
        }
        let mut sessions: Vec<(SessionId, usize, u8)> = Vec::new();
        for (index, Pending { job, .. }) in self.jobs.iter().enumerate() {
            let (session, priority) = (job.session(), job.priority());
            match sessions.iter_mut().find(|(other, ..)| *other == session) {
                Some((_, _, urgency)) => *urgency = priority.min(*urgency),
                None => sessions.push((session, index, priority)),
            }
        }
        let urgent = sessions.iter().min_by_key(|(_, _, urgency)| *urgency);
        urgent.map(|(_, index, urgency)| (*index, *urgency))
    }

    /// Lets the device begin its next job, or go on with one.
    pub(super) fn work(&mut self, io: &mut Io) {
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
                io.fact(Fact::Device {
                    incarnation,
                    session: *session,
                    open: false,
                });
            }
            Job::Start(start, ops) => run = self.run(io, start, ops),
        }
        run
    }

    pub(super) fn run(&mut self, io: &mut Io, start: &StartAction, ops: &[KeptOp]) -> SliceRun {
        let session = start.session;
        let (Some(place), Some(device)) =
            (self.sessions.get(&session), self.device.get_mut(&session))
        else {
            broken(io, "started a slice of a session that is not open");
            return SliceRun::default();
        };
        let staged = |transfer: u64| place.transfers.get(&transfer).cloned();
        let known = |hash: &ModuleHash| self.images.contains(&(place.tenant.clone(), *hash));
        let run = device.run(start.first, ops, start.declared, &staged, &known);
        for (op, print) in &run.ran {
            io.fact(Fact::Ran {
                incarnation: self.identity.incarnation,
                session,
                op: *op,
                print: *print,
            });
        }
        for (key, time) in &run.launches {
            let total = self.measured.entry(*key).or_default();
            total.0 += 1;
            total.1 += time;
        }
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
                let event = Event::Opened {
                    session: open.session,
                    failure: None,
                };
                self.event(io, None, event);
            }
            Job::Close(session) => self.event(io, None, Event::Closed { session }),
            Job::Start(start, _) => {
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
                    fault: run.fault.as_ref().map(|(op, failure)| (*op, failure)),
                };
                self.event(io, None, Event::Completed(event));
                self.answers.clear();
            }
        }
        self.work(io);
    }

    pub(super) fn report_measured(&mut self, io: &mut Io) {
        let kernels: Vec<MeasuredKernel> = self
            .measured
            .iter()
            .map(|(key, (count, total_ns))| MeasuredKernel {
                key: *key,
                count: *count,
                total_ns: *total_ns,
            })
            .collect();
        if !kernels.is_empty() {
            let message = Measured {
                v: WIRE_VERSION,
                kernels,
            };
            let subject = self.subjects.measured(self.identity.incarnation);
            io.publish(subject, encode(&message));
        }
        io.later(io.now + MEASURED_EVERY, MEASURED);
    }
}
