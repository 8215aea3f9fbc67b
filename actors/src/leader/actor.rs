//! The Leader actor: owns the protocol core, its timers and its publications. It decides nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::dev::SendError;
use actix::{Actor, ActorFutureExt, Addr, AsyncContext, Context, Handler, WrapFuture};
use async_nats::{Client, Subject};
use bus::{SILENCE, Silence};
use bus_schemas::subject::Subjects;
use bus_schemas::{Epoch, Failure, LeaderId, SessionId};
use scheduler_leader_core::{
    Action, Event, Leader as Core, LeaderConfig, QueueOpening, QueueProgress, StateSnapshot,
    TermEnd,
};
use tokio::sync::oneshot;

use super::gateway::Router;
use super::lease::{Answer, LeaseStore};
use super::messages::LeaderMessage;
use super::meters::Metering;
use super::queue::{self, KernelQueue, Shared};
use super::record::Appender;
use super::state::Writer;
use super::tenant::{self, TakenUp};
use crate::host_clock::since_1970;
use crate::inbox::Inbox;
use crate::publisher::BusPublisher;
use crate::timer::{Timer, nanos};
use telemetry::Telemetry;

/// Capacity of the leader's mailbox.
const MAILBOX: usize = 16_384;
/// Interval of updates of the meters, and of retries of messages that found a mailbox full.
const HOUSEKEEPING: Duration = Duration::from_millis(100);
/// Number of actions for which memory is kept between two events.
const ACTIONS: usize = 4_096;
/// Pause before a full mailbox or connection is tried again.
const PAUSE: Duration = Duration::from_millis(1);

/// Parts of a leader.
pub(super) struct Parts {
    pub(super) id: LeaderId,
    pub(super) client: Client,
    pub(super) lease: LeaseStore,
    pub(super) state: Writer,
    pub(super) record: Appender,
    pub(super) telemetry: Telemetry,
    pub(super) tenants: Inbox,
    pub(super) config: LeaderConfig,
    pub(super) gone: oneshot::Sender<()>,
}

/// The latest message that waits for room in a queue's mailbox.
enum Waiting {
    Progress(QueueProgress),
    End(Failure),
}

/// Number of queues of an ended term that end per [`PAUSE`].
const RETIRING: usize = 8;

/// One candidate.
pub(super) struct Leader {
    core: Core,
    shared: Shared,
    router: Rc<Router>,
    lease: LeaseStore,
    state: Writer,
    record: Appender,
    metering: Metering,
    waiting: HashMap<SessionId, (Addr<KernelQueue>, Waiting)>,
    /// Queues of an ended term: they get no more messages, and end a few at a time.
    retired: Vec<Addr<KernelQueue>>,
    gone: Option<oneshot::Sender<()>>,
    client: Client,
    timer: Timer,
    catching_up: bool,
    /// The silence of the lease store.
    unanswered: Silence,
    actions: Vec<Action>,
}

impl Leader {
    /// Starts the actor.
    pub(super) fn launch(parts: Parts) -> (Addr<Self>, Rc<Router>) {
        let context = Context::<Self>::new();
        let leader = context.address();
        let began = Instant::now();
        let config = LeaderConfig {
            clock_zero: u64::try_from(since_1970().as_nanos()).unwrap_or(0),
            traced: parts.telemetry.tracing(),
            ..parts.config.clone()
        };
        let core = Core::new(config, parts.id);
        let subjects = Subjects::new(&parts.config.cluster);
        let inbox = format!("{}.leader.{}.", subjects.cluster_inbox(), parts.id);
        let telemetry = parts.telemetry.clone();
        let tenants = parts.tenants.clone();
        let router = Router::new(subjects, inbox, leader.recipient(), telemetry, tenants);
        let router = Rc::new(router);
        let shared = Shared {
            tenants: parts.tenants,
            cluster: parts.config.cluster,
            id: parts.id,
            began,
            outgoing: BusPublisher::new(parts.client.clone()),
            telemetry: parts.telemetry,
        };
        let leader = context.run(Self {
            core,
            shared,
            router: router.clone(),
            lease: parts.lease,
            state: parts.state,
            record: parts.record,
            metering: Metering::default(),
            waiting: HashMap::new(),
            retired: Vec::new(),
            gone: Some(parts.gone),
            client: parts.client,
            timer: Timer::default(),
            catching_up: false,
            unanswered: Silence::new(SILENCE),
            actions: Vec::new(),
        });
        (leader, router)
    }

    /// Hands an event to the core and performs its actions.
    fn on_event(&mut self, event: Event<'_>, ctx: &mut Context<Self>) {
        let now = nanos(self.shared.began);
        let mut actions = std::mem::take(&mut self.actions);
        self.core.handle(now, event, &mut actions);
        for action in actions.drain(..) {
            self.perform(action, ctx);
        }
        // One event with many actions does not justify keeping memory for as many.
        actions.shrink_to(ACTIONS);
        self.actions = actions;
        let hears = self.core.hears_tenants();
        self.shared.tenants.hear_as(hears);
        if self.metering.waits()
            && let Some(time) = self
                .metering
                .takeover(&self.shared.telemetry, &self.core, now)
        {
            tracing::info!(epoch = self.core.epoch(), ?time, "first grant of the term");
        }
        self.set_timer(now, ctx);
    }

    fn set_timer(&mut self, now: u64, ctx: &mut Context<Self>) {
        let Some(due) = self.core.next_wakeup() else {
            return;
        };
        self.timer.set(now, due, ctx, |this, ctx| {
            this.timer.rang();
            this.on_event(Event::Timer, ctx);
        });
    }

    fn perform(&mut self, action: Action, ctx: &mut Context<Self>) {
        match action {
            Action::Publish {
                subject,
                reply,
                bytes,
            } => {
                let subject = Subject::from(&*subject);
                let reply = reply.map(|reply| Subject::from(&*reply));
                self.shared
                    .outgoing
                    .publish_with_reply(subject, reply, bytes);
                self.catch_up(ctx);
            }
            Action::ReadLease => {
                let (store, leader) = (self.lease.clone(), ctx.address());
                answer(leader, async move { store.read().await });
            }
            Action::WriteLease { lease, expected } => {
                let (store, leader) = (self.lease.clone(), ctx.address());
                answer(leader, async move { store.write(lease, expected).await });
            }
            Action::Append {
                epoch,
                number,
                bytes,
            } => {
                let leader = ctx.address().recipient();
                self.record.append(epoch, number, bytes, leader);
            }
            Action::WritePlacement(placement) => self.state.placement(&placement),
            Action::WriteProfile { epoch, profile } => self.state.profile(epoch, profile),
            Action::QueueOpen(opening) => self.open_queue(opening, ctx),
            Action::QueueIntent { session, bytes } => {
                if let Some((_, queue)) = self.router.queues.borrow().get(&session) {
                    // The client sends it again if the queue has no room.
                    let _ = queue.try_send(queue::QueueMessage::Intent(bytes.into()));
                }
            }
            Action::QueueProgress { session, progress } => self.progress(session, progress),
            Action::QueueEnd { session, failure } => {
                let queue = self.router.queues.borrow_mut().remove(&session);
                if let Some((_, queue)) = queue {
                    self.send_to_queue(session, queue, Waiting::End(failure));
                }
            }
            Action::TermBegan { epoch } => {
                tracing::info!(epoch, leader = %self.shared.id, "leads");
                self.record.begin(epoch);
                self.router.leading.set(true);
                self.metering.term(&self.shared.telemetry, &self.core);
            }
            Action::TermEnded { epoch, why } => self.end_term(epoch, why, ctx),
            Action::Left => {
                if let Some(gone) = self.gone.take() {
                    // The receiver is gone if the role was dropped.
                    let _ = gone.send(());
                }
            }
        }
    }

    /// Starts a session's queue.
    fn open_queue(&self, opening: QueueOpening, ctx: &Context<Self>) {
        let (session, owner) = (opening.session, opening.tenant.clone());
        let queue = KernelQueue::launch(&self.shared, ctx.address().recipient(), opening);
        let queues = &mut *self.router.queues.borrow_mut();
        queues.insert(session, (owner, queue));
    }

    fn end_term(&mut self, epoch: Epoch, why: TermEnd, ctx: &mut Context<Self>) {
        match why {
            // Such an end is not requested. If it happens often, this host or its broker is too
            // busy.
            TermEnd::Lease | TermEnd::Fenced { .. } => {
                tracing::warn!(
                    epoch,
                    ?why,
                    "leads no more: it was silent, and another took over"
                );
            }
            TermEnd::RecordGap | TermEnd::Renewed | TermEnd::Left => {
                tracing::info!(epoch, ?why, "leads no more");
            }
        }
        if why != TermEnd::Renewed {
            self.record.give_up();
        }
        self.router.leading.set(false);
        let queues = std::mem::take(&mut *self.router.queues.borrow_mut());
        self.retired
            .extend(queues.into_values().map(|(_, queue)| queue));
        self.retire(ctx);
        self.waiting.clear();
        self.metering.term(&self.shared.telemetry, &self.core);
    }

    /// Ends queues that are no longer used. Ending a thousand at once would delay the next term's
    /// first grants by milliseconds.
    fn retire(&mut self, ctx: &mut Context<Self>) {
        let kept = self.retired.len().saturating_sub(RETIRING);
        self.retired.truncate(kept);
        if kept > 0 {
            ctx.run_later(PAUSE, Self::retire);
        }
    }

    /// Leaves a server on which the lease store is silent: it may be cut off from the others.
    fn feel(&mut self, answer: Answer, ctx: &mut Context<Self>) {
        match answer {
            Answer::Written { .. } | Answer::Conflict => return self.unanswered.heard(),
            // A single server answers reads, even one that is cut off: with what it last knew.
            Answer::Read { .. } => return,
            Answer::Unavailable if !self.lease.is_clustered() => return,
            Answer::Unavailable => {}
        }
        let (client, mut unanswered) = (self.client.clone(), self.unanswered.clone());
        let looked = async move {
            bus::leave_if_silent(&client, &mut unanswered).await;
            unanswered
        };
        let looked = looked.into_actor(self).map(|unanswered, this, _| {
            this.unanswered = unanswered;
        });
        ctx.spawn(looked);
    }

    fn progress(&mut self, session: SessionId, progress: QueueProgress) {
        let queue = self.router.queues.borrow().get(&session).cloned();
        if let Some((_, queue)) = queue {
            self.send_to_queue(session, queue, Waiting::Progress(progress));
        }
    }

    /// Sends a queue a message that is not repeated; the message is kept until there is room.
    fn send_to_queue(&mut self, session: SessionId, queue: Addr<KernelQueue>, waiting: Waiting) {
        let message = match &waiting {
            Waiting::Progress(progress) => queue::QueueMessage::Progress(*progress),
            Waiting::End(failure) => queue::QueueMessage::End(failure.clone()),
        };
        let full = matches!(queue.try_send(message), Err(SendError::Full(_)));
        match (full, self.waiting.entry(session)) {
            // The end is the last message of all.
            (_, Entry::Occupied(entry)) if matches!(entry.get().1, Waiting::End(_)) => {}
            (true, entry) => drop(entry.insert_entry((queue, waiting))),
            (false, Entry::Occupied(entry)) => drop(entry.remove()),
            (false, Entry::Vacant(_)) => {}
        }
    }

    /// Publishes the backlog of the connection as soon as it has room.
    fn catch_up(&mut self, ctx: &mut Context<Self>) {
        if !self.shared.outgoing.catch_up() && !self.catching_up {
            self.catching_up = true;
            ctx.run_later(PAUSE, |this, ctx| {
                this.catching_up = false;
                this.catch_up(ctx);
            });
        }
    }

    fn keep_house(&mut self, ctx: &mut Context<Self>) {
        for (session, (queue, waiting)) in std::mem::take(&mut self.waiting) {
            self.send_to_queue(session, queue, waiting);
        }
        self.record.publish_stored();
        self.metering.count(&self.shared.telemetry, &self.core);
        for tenant in self.router.tenants.borrow().values() {
            // A full mailbox needs no wake-up; the next message does the same.
            let _ = tenant.try_send(TakenUp);
        }
        self.catch_up(ctx);
    }

    /// Starts one actor for each tenant.
    fn meet_tenants(&self, state: &StateSnapshot, ctx: &Context<Self>) {
        let tenants = &mut *self.router.tenants.borrow_mut();
        tenants.retain(|name, _| state.tenants.iter().any(|(known, _)| known == name));
        for (name, _) in &state.tenants {
            self.shared.tenants.knows(name);
            if !tenants.contains_key(name) {
                let actor = tenant::Tenant::launch(name.clone(), ctx.address().recipient());
                tenants.insert(name.clone(), actor);
            }
        }
    }

    /// Restarts a session's queue at the current state of the order.
    fn revive(&mut self, session: SessionId, ctx: &mut Context<Self>) {
        let Some(epoch) = self.core.epoch() else {
            return;
        };
        let view = self
            .core
            .scheduler()
            .and_then(|scheduler| scheduler.session(session));
        if let Some(view) = view {
            tracing::error!(%session, "a kernel queue died and is started anew");
            let opening = QueueOpening {
                session,
                tenant: view.tenant,
                epoch,
                queued: view.queued,
            };
            self.open_queue(opening, ctx);
        }
    }
}

/// Sends the leader the store's answer. It is not repeated, so it waits for room.
fn answer(leader: Addr<Leader>, work: impl Future<Output = Answer> + 'static) {
    actix::spawn(async move {
        let answer = work.await;
        // This fails only if the receiver is gone.
        let _ = leader.send(LeaderMessage::Lease(answer)).await;
    });
}

impl Actor for Leader {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(HOUSEKEEPING, |this, ctx| this.keep_house(ctx));
    }
}

impl Handler<LeaderMessage> for Leader {
    type Result = ();

    fn handle(&mut self, message: LeaderMessage, ctx: &mut Self::Context) {
        match message {
            LeaderMessage::Message {
                subject,
                reply,
                bytes,
            } => {
                let event = Event::Message {
                    subject: &subject,
                    reply: reply.as_deref(),
                    bytes: &bytes,
                };
                self.on_event(event, ctx);
            }
            LeaderMessage::SealReply { incarnation, bytes } => {
                let bytes = &bytes;
                self.on_event(Event::SealReply { incarnation, bytes }, ctx);
            }
            LeaderMessage::Ready {
                session,
                first,
                runs,
            } => self.on_event(
                Event::Intent {
                    session,
                    first,
                    runs,
                },
                ctx,
            ),
            LeaderMessage::Connected(true) => {
                self.record.connected();
                self.on_event(Event::Connected, ctx);
            }
            LeaderMessage::Connected(false) => self.on_event(Event::Disconnected, ctx),
            LeaderMessage::Closed(name, author) => {
                let (name, author) = (&name, &author);
                self.on_event(Event::ConnectionClosed { name, author }, ctx);
            }
            LeaderMessage::Lease(answer) => {
                self.feel(answer, ctx);
                let event = match answer {
                    Answer::Read { lease, revision } => Event::LeaseRead { lease, revision },
                    Answer::Written { revision } => Event::LeaseWritten { revision },
                    Answer::Conflict => Event::LeaseConflict,
                    Answer::Unavailable => Event::LeaseUnavailable,
                };
                self.on_event(event, ctx);
            }
            LeaderMessage::State(state) => {
                self.meet_tenants(&state, ctx);
                self.record.settle(&state.settings);
                self.router.record_age.set(state.settings.record_max_age_s);
                self.router.usage_age.set(state.settings.usage_max_age_s);
                self.on_event(Event::State(&state), ctx);
            }
            LeaderMessage::Recorded { epoch, number } => {
                self.on_event(Event::Recorded { epoch, number }, ctx);
            }
            LeaderMessage::Stores(stores) => self.on_event(Event::Stores(stores), ctx),
            LeaderMessage::QueueDied(session) => self.revive(session, ctx),
            LeaderMessage::Leave => {
                // The order is gone with the term.
                self.metering.count(&self.shared.telemetry, &self.core);
                self.on_event(Event::Leave, ctx);
            }
        }
    }
}
