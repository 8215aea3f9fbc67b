//! The KernelQueue actor: one session's intents in op order.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use actix::dev::SendError;
use actix::{Actor, Addr, Context, Handler, Message, Recipient};
use async_nats::Subject;
use bus_schemas::{CostRun, Failure, LeaderId, OpNumber, SessionId, Tenant};
use bytes::Bytes;
use scheduler_leader_core::{
    KernelQueue as Core, QueueAction, QueueEvent, QueueOpening, QueueProgress,
};

use super::messages::LeaderMessage;
use crate::inbox::{Inbox, Waste};
use crate::publisher::BusPublisher;
use crate::timer::{Timer, nanos};
use telemetry::{QueueAge, Telemetry, TenantMeters, Trail};

/// Capacity of a queue's mailbox.
const MAILBOX: usize = 256;
/// Pause before the leader's full mailbox is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// A message to a kernel queue.
pub(super) enum QueueMessage {
    /// An intent.
    Intent(Bytes),
    /// Ops were granted or are done.
    Progress(QueueProgress),
    /// The session has ended.
    End(Failure),
}

impl Message for QueueMessage {
    type Result = ();
}

/// One session's intents.
pub(super) struct KernelQueue {
    core: Core,
    session: SessionId,
    tenant: Tenant,
    began: Instant,
    leader: Recipient<LeaderMessage>,
    outgoing: BusPublisher,
    tenants: Inbox,
    meters: Arc<TenantMeters>,
    trail: Trail,
    age: Arc<QueueAge>,
    /// Ops that found the leader's mailbox full.
    backlog: VecDeque<(OpNumber, Vec<CostRun>)>,
    timer: Timer,
    actions: Vec<QueueAction>,
}

/// State that all queues of a leader share.
pub(super) struct Shared {
    pub(super) cluster: Tenant,
    pub(super) id: LeaderId,
    pub(super) began: Instant,
    pub(super) outgoing: BusPublisher,
    pub(super) telemetry: Telemetry,
    pub(super) tenants: Inbox,
}

impl KernelQueue {
    /// Starts the queue of a session.
    pub(super) fn launch(
        shared: &Shared,
        leader: Recipient<LeaderMessage>,
        opening: QueueOpening,
    ) -> Addr<Self> {
        let meters = shared.telemetry.meters().tenant(&opening.tenant);
        let queue = Self {
            core: Core::new(&shared.cluster, shared.id, &opening),
            session: opening.session,
            began: shared.began,
            leader,
            outgoing: shared.outgoing.clone(),
            age: meters.add_queue(),
            meters,
            tenants: shared.tenants.clone(),
            tenant: opening.tenant,
            trail: Trail::default(),
            backlog: VecDeque::new(),
            timer: Timer::default(),
            actions: Vec::new(),
        };
        queue.start()
    }

    fn now(&self) -> u64 {
        nanos(self.began)
    }

    fn on_event(&mut self, event: QueueEvent<'_>, ctx: &mut Context<Self>) {
        let now = self.now();
        let mut actions = std::mem::take(&mut self.actions);
        self.core.handle(now, event, &mut actions);
        for action in actions.drain(..) {
            match action {
                QueueAction::Ready { first, runs } => self.backlog.push_back((first, runs)),
                QueueAction::Publish { subject, bytes } => {
                    let subject = Subject::from(&*subject);
                    self.outgoing.publish_with_reply(subject, None, bytes);
                }
            }
        }
        self.actions = actions;
        self.forward();
        self.set_timer(now, ctx);
    }

    /// Feeds the leader. What finds no room is kept, because it is already acknowledged.
    fn forward(&mut self) {
        while let Some((first, runs)) = self.backlog.pop_front() {
            let session = self.session;
            let message = LeaderMessage::Ready {
                session,
                first,
                runs,
            };
            match self.leader.try_send(message) {
                Ok(()) | Err(SendError::Closed(_)) => {}
                Err(SendError::Full(message)) => {
                    if let LeaderMessage::Ready { first, runs, .. } = message {
                        self.backlog.push_front((first, runs));
                    }
                    return;
                }
            }
        }
    }

    fn set_timer(&mut self, now: u64, ctx: &mut Context<Self>) {
        let due = self.core.next_wakeup();
        let retry = (!self.backlog.is_empty()).then(|| now + PAUSE.as_nanos() as u64);
        let Some(due) = due.into_iter().chain(retry).min() else {
            return;
        };
        self.timer.set(now, due, ctx, |this, ctx| {
            this.timer.rang();
            this.on_event(QueueEvent::Timer, ctx);
        });
    }

    /// Ops through `granted` are granted: their time in the queue is over.
    fn granted(&mut self, granted: OpNumber) {
        let end = Instant::now();
        for mark in self.trail.through(granted) {
            let time = end.saturating_duration_since(mark.received);
            self.meters.queue(time);
        }
        self.age.set(self.trail.oldest());
    }
}

impl Actor for KernelQueue {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        self.on_event(QueueEvent::Timer, ctx);
    }
}

impl Handler<QueueMessage> for KernelQueue {
    type Result = ();

    fn handle(&mut self, message: QueueMessage, ctx: &mut Self::Context) {
        match message {
            QueueMessage::Intent(bytes) => {
                let before = self.core.queued();
                let length = bytes.len();
                // Marked before the leader can grant it.
                self.on_event(QueueEvent::Message(&bytes), ctx);
                let queued = self.core.queued();
                if queued > before {
                    let now = Instant::now();
                    self.trail.received(before + 1, queued, now);
                    self.age.set(self.trail.oldest());
                } else {
                    self.tenants.wasted(&self.tenant, Waste::Repeated, length);
                }
            }
            QueueMessage::Progress(progress) => {
                self.granted(progress.granted);
                self.on_event(QueueEvent::Progress(progress), ctx);
            }
            QueueMessage::End(failure) => self.on_event(QueueEvent::End(&failure), ctx),
        }
    }
}
