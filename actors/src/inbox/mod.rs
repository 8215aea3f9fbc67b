//! What a role hears of tenants. It listens to all by one subscription, until one floods it with what
//! brings it nothing. Then it listens to each by a subscription of its own, and ends the flooding one's
//! for a while: the broker drops the flood, and the others' messages do not wait behind it.
//!
//! Who is silenced and for how long is decided by [`gate`]. A change of subscriptions loses and
//! reorders no message of those that are listened to.

mod gate;
mod known;
mod sources;
#[cfg(test)]
mod tests;
mod waste;

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_nats::{Client, Message, SubscribeError};
use bus_schemas::Tenant;
use bus_schemas::subject::{HearsTenants, Subjects};
use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use tokio::sync::Notify;

use crate::timer::nanos;
use gate::Gate;
use known::Known;
use sources::{Source, Sources};
pub(crate) use waste::{Handled, Waste};

/// Between two looks at who is listened to again.
const LOOK: Duration = Duration::from_millis(50);
/// How long the broker may take to confirm subscriptions; one that is away confirms none.
const CONFIRMED: Duration = Duration::from_secs(2);
/// Tenants that are listened to one by one at most.
const TENANTS: usize = 4_096;

/// How tenants are listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    role: HearsTenants,
    guarded: bool,
}

/// The messages of tenants. Clones share it.
#[derive(Clone)]
pub(crate) struct Inbox {
    state: Rc<RefCell<State>>,
    changed: Rc<Notify>,
    client: Client,
    subjects: Subjects,
}

struct State {
    gate: Gate,
    began: Instant,
    /// The role that wants to hear, which the subscriptions follow.
    role: HearsTenants,
    /// What the subscriptions are for.
    mode: Mode,
    known: Known,
    now: Sources,
    /// Subscriptions that have ended, with what came before: it is read first.
    before: Sources,
    /// A task changes subscriptions.
    changing: bool,
    silences: u64,
    waker: Option<Waker>,
}

/// What is to be done next about subscriptions.
enum Step {
    Switch(Mode),
    Add(Vec<Tenant>),
    Wait,
    Done,
}

impl Inbox {
    /// Subscribes to what a role hears of all tenants. Runs on a local task set, as its tasks do.
    ///
    /// # Errors
    /// The connection is closed for good.
    pub(crate) async fn open(
        client: Client,
        subjects: Subjects,
        role: HearsTenants,
    ) -> Result<Self, SubscribeError> {
        let subscriber = client.subscribe(subjects.from_tenants(role, None)).await?;
        let mut now = Sources::default();
        now.push(Source {
            tenant: None,
            subscriber,
        });
        let state = State {
            gate: Gate::default(),
            began: Instant::now(),
            role,
            mode: Mode {
                role,
                guarded: false,
            },
            known: Known::with_room_for(TENANTS),
            now,
            before: Sources::default(),
            changing: false,
            silences: 0,
            waker: None,
        };
        Ok(Self {
            state: Rc::new(RefCell::new(state)),
            changed: Rc::default(),
            client,
            subjects,
        })
    }

    /// The messages, in the order in which they came from each tenant.
    pub(crate) fn messages(&self) -> Messages {
        Messages(self.clone())
    }

    /// Whether a tenant is listened to. What still comes of another counts as more of its flood.
    pub(crate) fn hears(&self, tenant: &Tenant, bytes: usize) -> bool {
        let state = &mut *self.state.borrow_mut();
        let hears = state.gate.hears(tenant);
        if !hears {
            let now = nanos(state.began);
            state.gate.waste(now, tenant, (Waste::Whole, bytes));
        }
        hears
    }

    /// A tenant's message of so many bytes brought nothing.
    pub(crate) fn wasted(&self, tenant: &Tenant, waste: Waste, bytes: usize) {
        let state = &mut *self.state.borrow_mut();
        let now = nanos(state.began);
        if !state.gate.waste(now, tenant, (waste, bytes)) {
            return;
        }
        state.now.drop_tenant(tenant);
        state.silences += 1;
        if state.silences.is_power_of_two() {
            let silences = state.silences;
            tracing::warn!(%tenant, silences, "a tenant floods: it is not listened to for a while");
        }
        self.change(state);
    }

    /// Notes that there is such a tenant: it gets a subscription of its own while another floods.
    pub(crate) fn knows(&self, tenant: &Tenant) {
        let state = &mut *self.state.borrow_mut();
        if state.known.note(tenant) && state.mode.guarded {
            self.change(state);
        }
    }

    /// The role changed.
    pub(crate) fn hear_as(&self, role: HearsTenants) {
        let state = &mut *self.state.borrow_mut();
        if state.role != role {
            state.role = role;
            self.change(state);
        }
    }

    /// Lets a task change subscriptions.
    fn change(&self, state: &mut State) {
        if state.changing {
            return self.changed.notify_one();
        }
        state.changing = true;
        let inbox = self.clone();
        tokio::task::spawn_local(async move { while inbox.step().await {} });
    }

    /// Does what is to be done about subscriptions; false if it is nothing.
    async fn step(&self) -> bool {
        let step = self.state.borrow_mut().next();
        match step {
            Step::Switch(mode) => self.switch(mode).await,
            Step::Add(tenants) => {
                let role = self.state.borrow().mode.role;
                let fresh = self.subscribe(role, tenants.into_iter().map(Some)).await;
                self.state.borrow_mut().take(fresh);
            }
            Step::Wait => {
                let _ = tokio::time::timeout(LOOK, self.changed.notified()).await;
            }
            Step::Done => return false,
        }
        true
    }

    async fn subscribe(
        &self,
        role: HearsTenants,
        tenants: impl Iterator<Item = Option<Tenant>>,
    ) -> Vec<Source> {
        let mut fresh = Vec::new();
        for tenant in tenants {
            let subject = self.subjects.from_tenants(role, tenant.as_ref());
            // The connection is closed for good where this fails: the role ends.
            if let Ok(subscriber) = self.client.subscribe(subject).await {
                fresh.push(Source { tenant, subscriber });
            }
        }
        fresh
    }

    /// Replaces the subscriptions. The new ones are there before the old ones end: a message may come
    /// by both, and what came by the old ones is read first.
    async fn switch(&self, mode: Mode) {
        let (tenants, before) = {
            let state = self.state.borrow();
            let tenants = match mode.guarded {
                true => state.heard().into_iter().map(Some).collect(),
                false => vec![None],
            };
            (tenants, state.mode)
        };
        let fresh = self.subscribe(mode.role, tenants.into_iter()).await;
        if mode.role == before.role {
            self.confirm().await;
        }
        let old = std::mem::take(&mut self.state.borrow_mut().now);
        let old = old.end().await;
        let state = &mut *self.state.borrow_mut();
        state.before = old;
        state.mode = mode;
        state.take(fresh);
    }

    /// Waits until the broker has taken the subscriptions, and all that it sent before is here.
    async fn confirm(&self) {
        let subject = self.client.new_inbox();
        let Ok(mut back) = self.client.subscribe(subject.clone()).await else {
            return;
        };
        if self.client.publish(subject, Bytes::new()).await.is_ok() {
            let _ = tokio::time::timeout(CONFIRMED, back.next()).await;
        }
    }
}

impl State {
    fn next(&mut self) -> Step {
        let now = nanos(self.began);
        self.gate.tick(now);
        let wanted = Mode {
            role: self.role,
            guarded: self.gate.is_guarded(now),
        };
        if wanted != self.mode {
            return Step::Switch(wanted);
        }
        if !self.mode.guarded {
            self.changing = false;
            return Step::Done;
        }
        let there = self.now.tenants();
        let missing = self.heard().into_iter();
        let missing: Vec<_> = missing.filter(|it| !there.contains(it)).collect();
        match missing.is_empty() {
            true => Step::Wait,
            false => Step::Add(missing),
        }
    }

    /// The tenants that are listened to one by one.
    fn heard(&self) -> Vec<Tenant> {
        let heard = self.known.iter().filter(|it| self.gate.hears(it));
        heard.cloned().collect()
    }

    /// Reads new subscriptions, but for those of tenants that were silenced meanwhile.
    fn take(&mut self, fresh: Vec<Source>) {
        for source in fresh {
            if source.tenant.as_ref().is_none_or(|it| self.gate.hears(it)) {
                self.now.push(source);
            }
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Tenants' messages; it never ends.
pub(crate) struct Messages(Inbox);

impl Stream for Messages {
    type Item = Message;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Message>> {
        let state = &mut *self.0.state.borrow_mut();
        for sources in [&mut state.before, &mut state.now] {
            if let Poll::Ready(Some(message)) = sources.poll(cx) {
                return Poll::Ready(Some(message));
            }
        }
        state.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}
