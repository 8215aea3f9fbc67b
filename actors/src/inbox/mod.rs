//! Tenants' messages to a role. One subscription receives those of all tenants, until one tenant
//! floods it with useless messages. Then each tenant gets a subscription of its own, and that of
//! the flooding tenant ends for a while. The broker drops the flood, and the others' messages do
//! not wait behind it.
//!
//! [`gate`] decides which tenant is silenced and for how long. A change of subscriptions neither
//! loses nor reorders messages of tenants that are heard.

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

/// Interval of the checks for silences that have ended.
const LOOK: Duration = Duration::from_millis(50);
/// Timeout for the broker to confirm subscriptions; an unreachable broker confirms none.
const CONFIRMED: Duration = Duration::from_secs(2);
/// Maximum number of tenants that are heard one by one.
const TENANTS: usize = 4_096;

/// The way in which tenants are heard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mode {
    role: HearsTenants,
    guarded: bool,
}

/// The messages of tenants. Clones share the inbox.
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
    /// The role that listens; the subscriptions follow it.
    role: HearsTenants,
    /// The mode of the current subscriptions.
    mode: Mode,
    known: Known,
    now: Sources,
    /// Ended subscriptions and the messages that they received, which are read first.
    before: Sources,
    /// True while a task changes subscriptions.
    changing: bool,
    silences: u64,
    waker: Option<Waker>,
}

/// The next step of a change of subscriptions.
enum Step {
    Switch(Mode),
    Add(Vec<Tenant>),
    Wait,
    Done,
}

impl Inbox {
    /// Subscribes to a role's messages of all tenants. Must run on a local task set, as its tasks
    /// do.
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

    /// Returns the messages, in the order of arrival for each tenant.
    pub(crate) fn messages(&self) -> Messages {
        Messages(self.clone())
    }

    /// True if the tenant is heard. Messages of another tenant count as more of its flood.
    pub(crate) fn hears(&self, tenant: &Tenant, bytes: usize) -> bool {
        let state = &mut *self.state.borrow_mut();
        let hears = state.gate.hears(tenant);
        if !hears {
            let now = nanos(state.began);
            state.gate.waste(now, tenant, (Waste::Whole, bytes));
        }
        hears
    }

    /// Notes that a tenant's message of `bytes` bytes was useless.
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

    /// Notes that a tenant exists: it gets a subscription of its own while another one floods.
    pub(crate) fn knows(&self, tenant: &Tenant) {
        let state = &mut *self.state.borrow_mut();
        if state.known.note(tenant) && state.mode.guarded {
            self.change(state);
        }
    }

    /// Changes the role.
    pub(crate) fn hear_as(&self, role: HearsTenants) {
        let state = &mut *self.state.borrow_mut();
        if state.role != role {
            state.role = role;
            self.change(state);
        }
    }

    /// Starts a task that changes subscriptions.
    fn change(&self, state: &mut State) {
        if state.changing {
            return self.changed.notify_one();
        }
        state.changing = true;
        let inbox = self.clone();
        tokio::task::spawn_local(async move { while inbox.step().await {} });
    }

    /// Takes the next step about subscriptions; false if none is left.
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
            // This fails if the connection is closed for good: the role ends.
            if let Ok(subscriber) = self.client.subscribe(subject).await {
                fresh.push(Source { tenant, subscriber });
            }
        }
        fresh
    }

    /// Replaces the subscriptions. The new ones exist before the old ones end. A message may come
    /// by both, and messages of the old ones are read first.
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

    /// Waits until the broker has the subscriptions, and until all that it sent earlier has
    /// arrived.
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

    /// Returns the tenants that are heard one by one.
    fn heard(&self) -> Vec<Tenant> {
        let heard = self.known.iter().filter(|it| self.gate.hears(it));
        heard.cloned().collect()
    }

    /// Reads the new subscriptions, except those of tenants that were silenced meanwhile.
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

/// Messages of tenants; the stream never ends.
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
