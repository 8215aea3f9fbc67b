//! A leader with its kernel queues, as one thing: for simulation and tests.

use std::collections::BTreeMap;

use bus_schemas::subject::{HearsTenants, LeaderSubject, Subjects, ToLeader};
use bus_schemas::{LeaderId, SessionId, Tenant};

use crate::leader::{Action, Event, Leader, LeaderConfig};
use crate::queue::{KernelQueue, QueueAction, QueueEvent};
use crate::time::Nanos;

/// A [`Leader`] and its [`crate::KernelQueue`]s: queue actions are carried out inside and never
/// come out.
#[derive(Debug)]
pub struct LeaderNode {
    leader: Leader,
    cluster: Tenant,
    subjects: Subjects,
    queues: BTreeMap<SessionId, KernelQueue>,
    connected: bool,
}

impl LeaderNode {
    /// A candidate.
    #[must_use]
    pub fn new(config: LeaderConfig, id: LeaderId) -> Self {
        Self {
            cluster: config.cluster.clone(),
            subjects: Subjects::new(&config.cluster),
            leader: Leader::new(config, id),
            queues: BTreeMap::new(),
            connected: false,
        }
    }

    /// The subjects it always subscribes to, wildcards included.
    #[must_use]
    pub fn subscriptions(&self) -> Vec<String> {
        self.leader.subscriptions()
    }

    /// The messages of tenants that it hears now.
    #[must_use]
    pub fn hears_tenants(&self) -> HearsTenants {
        self.leader.hears_tenants()
    }

    /// Handles a message on any subject of [`Self::subscriptions`] or [`Self::hears_tenants`].
    pub fn message(
        &mut self,
        now: Nanos,
        subject: &str,
        reply: Option<&str>,
        bytes: &[u8],
        actions: &mut Vec<Action>,
    ) {
        if let Some(incarnation) = self.leader.seal_reply_of(subject) {
            return self.handle(now, Event::SealReply { incarnation, bytes }, actions);
        }
        let Some(subject) = self.subjects.parse_leader(subject) else {
            return;
        };
        if let LeaderSubject::Tenant(tenant, ToLeader::Intent(session)) = &subject
            && let Some(queue) = self.queues.get_mut(session)
            && queue.tenant() == tenant
        {
            let mut out = Vec::new();
            queue.handle(now, QueueEvent::Message(bytes), &mut out);
            return self.queue_actions(now, *session, out, actions);
        }
        let event = Event::Message {
            subject: &subject,
            reply,
            bytes,
        };
        self.handle(now, event, actions);
    }

    /// Handles any other event.
    pub fn handle(&mut self, now: Nanos, event: Event<'_>, actions: &mut Vec<Action>) {
        match event {
            Event::Connected => self.connected = true,
            Event::Disconnected => self.connected = false,
            _ => {}
        }
        let timer = matches!(event, Event::Timer);
        let mut out = Vec::new();
        self.leader.handle(now, event, &mut out);
        if timer {
            let due = |queue: &KernelQueue| queue.next_wakeup().is_some_and(|at| now >= at);
            let due: Vec<_> = self
                .queues
                .iter()
                .filter(|(_, queue)| due(queue))
                .map(|(session, _)| *session)
                .collect();
            for session in due {
                self.queue_event(now, session, QueueEvent::Timer, actions);
            }
        }
        for action in out {
            self.carry_out(now, action, actions);
        }
    }

    fn carry_out(&mut self, now: Nanos, action: Action, actions: &mut Vec<Action>) {
        match action {
            Action::QueueOpen(opening) => {
                let session = opening.session;
                let queue = KernelQueue::new(&self.cluster, self.leader.id(), &opening);
                self.queues.insert(session, queue);
                self.queue_event(now, session, QueueEvent::Timer, actions);
            }
            Action::QueueIntent { session, bytes } => {
                self.queue_event(now, session, QueueEvent::Message(&bytes), actions);
            }
            Action::QueueProgress { session, progress } => {
                self.queue_event(now, session, QueueEvent::Progress(progress), actions);
            }
            Action::QueueEnd { session, failure } => {
                self.queue_event(now, session, QueueEvent::End(&failure), actions);
                self.queues.remove(&session);
            }
            Action::TermEnded { .. } => {
                self.queues.clear();
                actions.push(action);
            }
            other => actions.push(other),
        }
    }

    fn queue_event(
        &mut self,
        now: Nanos,
        session: SessionId,
        event: QueueEvent<'_>,
        actions: &mut Vec<Action>,
    ) {
        if let Some(queue) = self.queues.get_mut(&session) {
            let mut out = Vec::new();
            queue.handle(now, event, &mut out);
            self.queue_actions(now, session, out, actions);
        }
    }

    fn queue_actions(
        &mut self,
        now: Nanos,
        session: SessionId,
        out: Vec<QueueAction>,
        actions: &mut Vec<Action>,
    ) {
        for action in out {
            match action {
                QueueAction::Ready { first, runs } => {
                    let event = Event::Intent {
                        session,
                        first,
                        runs,
                    };
                    self.handle(now, event, actions);
                }
                QueueAction::Publish { subject, bytes } if self.connected => {
                    let reply = None;
                    actions.push(Action::Publish {
                        subject,
                        reply,
                        bytes,
                    });
                }
                QueueAction::Publish { .. } => {}
            }
        }
    }

    /// Time at which it wants [`Event::Timer`], which it passes to its queues too.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Nanos> {
        let queues = self.queues.values().filter_map(KernelQueue::next_wakeup);
        queues.chain(self.leader.next_wakeup()).min()
    }

    /// The leader inside.
    #[must_use]
    pub fn leader(&self) -> &Leader {
        &self.leader
    }
}
