//! Carries out the worker's actions on the bus and the device.

use bus_schemas::subject::ToClient;
use bus_schemas::{WorkerBeat, decode, encode};
use bytes::Bytes;
use gpu_worker_core::sequencer::ExitReason;
use gpu_worker_core::worker::{Action, Command, Event, To};

use super::buffers::SimBuffers;
use super::device::{SimDevice, SimSlice};
use super::{CHECK, CHECKED_AFTER, WorkerNode, broken};
use crate::fact::WorkerFact;
use crate::node::Io;

impl<D: SimDevice> WorkerNode<D> {
    /// Hands an event to the worker and carries out its actions. `reply` is the subject for the answer to the
    /// current message.
    pub(super) fn event(
        &mut self,
        io: &mut Io,
        reply: Option<&str>,
        event: Event<'_, SimBuffers<D>>,
    ) {
        let mut actions = Vec::new();
        self.worker.handle(io.now, event, &mut actions);
        if let Some(why) = self.worker.buffers_mut().take_broken() {
            broken(io, why);
        }
        let mut done = Vec::new();
        for action in actions {
            done.extend(self.act(io, reply, action));
        }
        self.device.work(io);
        self.set_wake(io);
        for event in done {
            self.event(io, None, event);
        }
    }

    /// Carries out an action. Returns the device's answer if it has one at once.
    fn act(
        &mut self,
        io: &mut Io,
        reply: Option<&str>,
        action: Action<SimBuffers<D>>,
    ) -> Option<Event<'static, SimBuffers<D>>> {
        match action {
            Action::Publish(to, bytes) => self.publish(io, reply, to, bytes),
            Action::Device(command) => return self.command(io, command),
            Action::Started(start) => {
                let fact = WorkerFact::Started {
                    position: start.position,
                    session: start.session,
                    first: start.first,
                    last: start.last,
                };
                self.fact(io, fact);
            }
            Action::Denied(session, op) => self.fact(io, WorkerFact::Denied { session, op }),
            Action::Settled(settled) => {
                let fact = WorkerFact::Settled {
                    position: settled.position,
                    kind: settled.kind,
                    session: settled.session,
                    first: settled.first,
                    last: settled.last,
                    outcome: settled.outcome,
                };
                self.fact(io, fact);
            }
            Action::Exit(reason) => {
                if reason == ExitReason::Drained && !self.draining {
                    self.fact(io, WorkerFact::Left);
                }
                self.report(io);
                io.exit();
            }
            Action::Check(arrived) => {
                let checked = self.worker.buffers_mut().check_chunks(*arrived);
                self.checks.push_back((io.now + CHECKED_AFTER, checked));
                io.later(io.now + CHECKED_AFTER, CHECK);
            }
            Action::Fetch(_) | Action::Untracked(_) => {
                broken(io, "heard of weights that were not published");
            }
            Action::Drop(_) | Action::Ended(_) | Action::Tenants(_) | Action::Malformed(_) => {}
        }
        None
    }

    fn command(
        &mut self,
        io: &mut Io,
        command: Command<SimBuffers<D>>,
    ) -> Option<Event<'static, SimBuffers<D>>> {
        match command {
            Command::Open(open, _) => {
                let session = open.session;
                return self
                    .device
                    .open(io, open)
                    .then_some(Event::Opened(session, None));
            }
            Command::Stop(session, why) => self.device.stop(io, session, &why),
            Command::Close(session) => self.device.close(io, session),
            Command::Submit(slice) => {
                let slice = SimSlice {
                    submission: slice.submission,
                    staged: slice.staged.into_iter().collect(),
                };
                self.device.submit(io, slice);
            }
            // An image is prepared as soon as it is complete.
            Command::Prepare(_, hash, len) => {
                return Some(Event::Prepared(hash, Ok((hash, len)), None));
            }
            Command::SwapOut(session) => return self.begin_leave(io, session),
            Command::SwapIn(session) => {
                let out = false;
                self.fact(io, WorkerFact::Swapped { session, out });
                self.begin_move(io, session, out);
            }
            Command::Exchange(session, action) => {
                let came = self.exchange(io, session, action);
                return Some(Event::Exchanged(session, came));
            }
            // The device keeps nothing of an image, so it has nothing to forget.
            Command::Cancel(_) | Command::Forget(_) | Command::Wake => {}
        }
        None
    }

    fn publish(&mut self, io: &mut Io, reply: Option<&str>, to: To, bytes: Bytes) {
        let incarnation = self.options.identity.incarnation;
        let subject = match to {
            To::Done => self.subjects.done(incarnation),
            To::Refusal => self.subjects.refusal(incarnation),
            To::Beat => {
                let subject = self.subjects.worker_beat(incarnation);
                return io.publish(subject, self.beat(&bytes));
            }
            To::Client(tenant, session, ToClient::Memory) => {
                let what = ToClient::Memory;
                let subject = self.subjects.to_client(&tenant, session, what);
                return io.publish(subject, self.device.bend_promise(bytes.into()));
            }
            To::Client(tenant, session, what) => self.subjects.to_client(&tenant, session, what),
            To::Reply => match reply {
                Some(reply) => reply.to_owned(),
                // A tenant may ask without a reply subject; the shipped shell drops the answer, too.
                None => return,
            },
        };
        io.publish(subject, bytes.into());
    }

    /// Adds the weights of the model to a heartbeat: the allocations of its programs are too small to count.
    fn beat(&mut self, bytes: &[u8]) -> Vec<u8> {
        let weights = self.device.weights(&self.worker.tenants().collect());
        let beat: WorkerBeat = decode(bytes).expect("the worker's own message");
        encode(&WorkerBeat {
            weights: weights.and_then(|weights| self.weights.next(weights)),
            ..beat
        })
    }
}
