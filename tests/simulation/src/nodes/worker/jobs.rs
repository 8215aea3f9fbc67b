//! What the model device runs, one job after the other.

use super::*;

impl WorkerNode {
    /// Lets the device begin its next job.
    pub(super) fn work(&mut self, io: &mut Io) {
        if self.running.is_some() {
            return;
        }
        let Some(job) = self.jobs.pop_front() else {
            return;
        };
        let incarnation = self.identity.incarnation;
        let mut run = SliceRun {
            device_ns: 20 * MICRO,
            ..SliceRun::default()
        };
        match &job {
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
            Job::Start(start, ops) => {
                io.fact(Fact::Started {
                    incarnation,
                    position: start.position,
                    session: start.session,
                    first: start.first,
                    last: start.last,
                });
                run = self.run(io, start, ops);
            }
        }
        io.later(io.now + run.device_ns, TELL);
        self.running = Some((job, run));
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
        let Some((job, run)) = self.running.take() else {
            return;
        };
        match job {
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
