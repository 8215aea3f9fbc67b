//! Carries out the worker core's actions: messages, device commands, evidence.

use async_nats::Subject;
use bus_schemas::subject::ToClient;
use bus_schemas::{SessionId, Tenant};
use bytes::Bytes;
use device::Slice;
use gpu_worker_core::sequencer::OpenAction;
use gpu_worker_core::sharing_domains::Owner;
use gpu_worker_core::worker::{Action, Command, Event, SubmittedSlice, To};

use super::actor::{ClientSubjects, GpuWorker};
use super::device_command::Command as DeviceCommand;
use super::session_buffers::SessionBuffers;

/// Charged cost up to which a slice is small, nanoseconds.
const SMALL_NS: u64 = 40_000;

impl GpuWorker {
    /// Hands an event to the core and carries out its actions.
    pub(super) fn handle_event(&mut self, event: Event<'_, SessionBuffers>) {
        let mut actions = std::mem::take(&mut self.actions);
        self.worker.handle(self.now(), event, &mut actions);
        for action in actions.drain(..) {
            self.act(action);
        }
        self.actions = actions;
    }

    fn act(&mut self, action: Action<SessionBuffers>) {
        match action {
            Action::Publish(to, message) => self.publish(to, message),
            Action::Device(command) => self.command(command),
            Action::Check(arrived) => self.keep_chunks(*arrived),
            Action::Drop(chunks) => self.stager.drop_chunks(chunks),
            Action::Fetch(tensor) => self.publications.fetch(tensor),
            Action::Untracked(name) => {
                tracing::warn!(name, "more is published than a worker keeps track of");
            }
            Action::Started(start) => self.slice_times.started(start),
            Action::Denied(session, op) => {
                tracing::debug!(%session, op, "an allocation was refused");
            }
            Action::Settled(settled) => {
                if let Some(evidence) = &self.evidence {
                    evidence.settled(&settled);
                }
            }
            Action::Ended(session) => {
                self.clients.remove(&session);
                self.slice_times.ended(session);
            }
            Action::Tenants(tenants) => tenants.iter().for_each(|it| self.tenants.knows(it)),
            Action::Malformed(error) => self.count_malformed(&error),
            Action::Exit(reason) => self.left = Some(reason),
        }
    }

    fn publish(&mut self, to: To, message: Bytes) {
        let subject = match to {
            To::Done => self.subjects.done.clone(),
            To::Refusal => self.subjects.refusal.clone(),
            To::Beat => self.subjects.beat.clone(),
            To::Client(tenant, session, what) => self.client(&tenant, session, what),
            To::Reply => match &self.reply {
                Some(reply) => reply.clone(),
                None => return,
            },
        };
        self.outgoing.publish(subject, message);
    }

    /// Returns the subject of messages to a client. Those of every slice are computed once for a session.
    fn client(&mut self, tenant: &Tenant, session: SessionId, what: ToClient) -> Subject {
        let all = &self.subjects.all;
        let is_frequent = matches!(what, ToClient::Worker | ToClient::Result);
        if !is_frequent || self.worker.tenant(session).is_none() {
            return all.to_client(tenant, session, what).into();
        }
        let subjects = self
            .clients
            .entry(session)
            .or_insert_with(|| ClientSubjects::new(all, tenant, session));
        match what {
            ToClient::Worker => subjects.acks.clone(),
            _ => subjects.results.clone(),
        }
    }

    fn command(&mut self, command: Command<SessionBuffers>) {
        let command = match command {
            Command::Open(open, owner) => self.open(&open, owner),
            Command::Stop(session, why) => DeviceCommand::Stop(session, why),
            Command::Close(session) => DeviceCommand::Close(session),
            Command::Prepare(tenant, hash, image) => DeviceCommand::Prepare(tenant, hash, image),
            Command::Cancel(hash) => DeviceCommand::Cancel(hash),
            Command::Forget(hash) => DeviceCommand::Forget(hash),
            Command::Submit(slice) => self.submit(*slice),
            Command::SwapOut(session) => {
                tracing::debug!(%session, "a session leaves the device");
                DeviceCommand::SwapOut(session)
            }
            Command::SwapIn(session) => DeviceCommand::SwapIn(session),
            Command::Exchange(session, action) => DeviceCommand::Exchange(session, action),
            Command::Wake => DeviceCommand::Wake,
        };
        self.device.command(command);
    }

    fn open(&mut self, open: &OpenAction, owner: Owner) -> DeviceCommand {
        self.slice_times.opened(open.session, &open.tenant);
        DeviceCommand::Open(open.session, open.window, owner)
    }

    fn submit(&mut self, slice: SubmittedSlice<SessionBuffers>) -> DeviceCommand {
        let SubmittedSlice { submission, staged } = slice;
        let start = submission.start;
        self.small = start.cost <= SMALL_NS;
        DeviceCommand::Submit(Slice {
            position: start.position,
            session: start.session,
            priority: start.priority,
            first: start.first,
            spans: submission.ops,
            transfers: staged,
            fail_at: submission.fail_at,
            launch_bytes: submission.launch_bytes,
        })
    }
}
