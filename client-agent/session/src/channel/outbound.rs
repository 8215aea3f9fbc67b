//! The outbound half of a session's channel to its worker and to the leader: ops that leave the program.
//!
//! A launch is pushed here and joins the outbox's batch. A full batch, and one that the program waits for, is
//! published on the calling thread. The session's task publishes the others.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant, SystemTime};

use async_nats::{Client, Subject};
use bus::{Backlog, Outgoing};
use bus_schemas::subject::{Subjects, ToClient, ToLeader, ToWorker};
use bus_schemas::{
    CloseReason, Code, Failure, KernelKey, ModuleHash, Op, OpNumber, Opened, ResultKind, Tenant,
};
use bytes::Bytes;
use client_agent_core::{
    Action, Addresses, Commitment, Event, Exchange, Nanos, Outbox, OutboxSettings, PushError,
    Requests,
};
use tokio::sync::Notify;

use super::places::Places;
use super::state::{Addressees, ImageState, Inner, Slot};
use crate::caller::{caller, inherited};
use crate::driver::Driver;
use crate::error::{ClientError, closed};
use crate::observer::Observer;
use crate::process::this_process;
use crate::program::swaps;

/// Maximum number of messages kept while the connection accepts no more. The outbox resends those
/// that are not acknowledged.
const BACKLOG: usize = 1_024;

/// One session. Any thread may use it; ops are numbered in the order of the calls.
pub struct SessionChannel {
    pub(super) opened: Opened,
    pub(super) client: Client,
    pub(super) addressees: Addressees,
    pub(super) clock: Instant,
    /// The time at which the clock began, nanoseconds since 1970.
    clock_zero: u64,
    /// Time for which the peers that the session waits for may be silent.
    pub(super) deadline: Duration,
    /// Wakes the session's task.
    pub(super) wake: Notify,
    pub(super) driver: Driver,
    /// True if the worker answers offers of copies.
    pub(super) offers: bool,
    /// Held by the thread that may ask about memory of other sessions.
    pub(super) asks: Mutex<()>,
    pub(super) inner: Mutex<Inner>,
}

impl std::fmt::Debug for SessionChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionChannel")
            .field("session", &self.opened.session)
            .finish_non_exhaustive()
    }
}

impl SessionChannel {
    /// Makes the channel of an opened session. [`fn@crate::serve`] must run for it beside the
    /// connection. It fails when the peers that it waits for are silent for `deadline`.
    #[must_use]
    pub fn new(
        opened: Opened,
        client: Client,
        subjects: &Subjects,
        tenant: &Tenant,
        observer: Box<dyn Observer>,
        driver: Driver,
        deadline: Duration,
    ) -> Self {
        let (session, worker) = (opened.session, opened.incarnation);
        let to_worker = |what| Subject::from(subjects.to_worker(tenant, worker, session, what));
        let to_leader = |what| Subject::from(subjects.to_leader(tenant, what));
        let properties = opened.properties.as_ref();
        let asks = properties.is_some_and(|properties| properties.answers_memory);
        // A session that asks its worker follows the worker's commitment, which may change.
        let quota = if asks { u64::MAX } else { opened.quota };
        let settings = OutboxSettings {
            deadline: deadline.as_nanos().try_into().unwrap_or(Nanos::MAX),
            ..OutboxSettings::new(session, opened.epoch, opened.leader)
        };
        let channel = Self {
            addressees: Addressees {
                batch: to_worker(ToWorker::Batch),
                data: to_worker(ToWorker::Data),
                state: to_worker(ToWorker::State),
                memory: to_worker(ToWorker::Memory),
                offer: to_worker(ToWorker::Offer),
                ipc: to_worker(ToWorker::Ipc),
                intent: to_leader(ToLeader::Intent(session)),
                close: to_leader(ToLeader::Close),
                notice: subjects.to_client(tenant, session, ToClient::Leader).into(),
                requests: subjects.request_reports(tenant).into(),
            },
            client,
            clock: Instant::now(),
            clock_zero: since_1970(),
            deadline,
            wake: Notify::new(),
            driver,
            offers: properties.is_some_and(|properties| properties.answers_offers),
            asks: Mutex::new(()),
            inner: Mutex::new(Inner {
                outbox: Outbox::new(settings),
                addresses: Addresses::new(opened.window, quota),
                commitment: asks.then(|| Commitment::begin(0, this_process(), !swaps())),
                exchange: Exchange::default(),
                actions: Vec::new(),
                slots: HashMap::new(),
                images: HashMap::new(),
                waiting: Vec::new(),
                asking: Vec::new(),
                places: Places::default(),
                backlog: Backlog::new(BACKLOG),
                armed: Nanos::MAX,
                lingering: false,
                observer,
                requests: opened.traced.then(|| {
                    let mut requests = Requests::default();
                    requests.set_parent(inherited());
                    requests
                }),
                printed: Vec::new(),
                over: None,
                ended: false,
            }),
            opened,
        };
        // Its first request is sent before the program allocates.
        channel.publish_memory(&mut channel.lock());
        channel.driver.kick();
        channel
    }

    /// The session as the leader opened it.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Appends an op; waits while the outbox is full.
    ///
    /// # Errors
    /// [`ClientError::Session`], or [`ClientError::Refused`] for an op that no worker would accept.
    #[inline]
    pub fn push(
        &self,
        op: &Op,
        stream: u16,
        payload: &[u8],
        key: KernelKey,
    ) -> Result<OpNumber, ClientError> {
        loop {
            let mut inner = self.lock();
            match self.push_within(&mut inner, op, stream, payload, key) {
                Ok(number) => return Ok(number),
                Err(PushError::Full) => self.make_room(inner, Outbox::has_room),
                Err(other) => return Err(refusal(other)),
            }
        }
    }

    /// Appends an op under the channel's lock.
    ///
    /// # Errors
    /// Same as [`Outbox::push`].
    #[inline]
    pub(super) fn push_within(
        &self,
        inner: &mut Inner,
        op: &Op,
        stream: u16,
        payload: &[u8],
        key: KernelKey,
    ) -> Result<OpNumber, PushError> {
        let number = inner.outbox.push(op, stream, payload, key)?;
        inner.observer.pushed(op, number);
        if let Some(requests) = &mut inner.requests {
            requests.pushed(op, number, caller(), || self.now());
        }
        if op.has_result() {
            inner.slots.insert(number, Slot::default());
        }
        if inner.outbox.wants_flush() && !self.lingers(inner) {
            self.handle(inner, Event::Flush);
            // A caller that asks for an answer will wait for it, and drive.
            if !op.has_result() {
                self.driver.kick();
            }
        }
        Ok(number)
    }

    /// Stages bytes that are too large for a batch; waits while too many are on their way.
    ///
    /// # Errors
    /// Same as [`SessionChannel::push`].
    pub fn stage(&self, bytes: &[u8], module: Option<ModuleHash>) -> Result<u64, ClientError> {
        let mut parcel = loop {
            let mut inner = self.lock();
            match inner.outbox.parcel(bytes.len()) {
                Ok(parcel) => break parcel,
                Err(PushError::Full) => self.make_room(inner, Outbox::has_staging_room),
                Err(other) => return Err(refusal(other)),
            }
        };
        // Other threads use the channel meanwhile.
        parcel.write(0, bytes);
        let mut inner = self.lock();
        let transfer = inner.outbox.send(parcel, module).map_err(refusal)?;
        if module.is_some() {
            let waiting = ImageState::Waiting(Vec::new());
            inner.images.insert(transfer, waiting);
        }
        self.handle(&mut inner, Event::Flush);
        drop(inner);
        self.driver.kick();
        Ok(transfer)
    }

    /// Sends the pushed ops now.
    pub fn flush(&self) {
        self.handle(&mut self.lock(), Event::Flush);
        self.driver.kick();
    }

    /// Requests the session's end after the ops pushed so far.
    pub fn close(&self) {
        let mut inner = self.lock();
        self.publish_requests(&mut inner, None);
        self.handle(&mut inner, Event::Close(CloseReason::Asked));
        drop(inner);
        self.driver.kick();
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a flush to the session's task if no caller waits for its answer. The task runs when
    /// the connection is driven next, and until then more ops may join.
    #[inline]
    fn lingers(&self, inner: &mut Inner) -> bool {
        let may = inner.outbox.may_linger();
        if may && !inner.lingering {
            inner.lingering = true;
            self.wake.notify_one();
        }
        may
    }

    pub(super) fn make_room(
        &self,
        mut inner: MutexGuard<'_, Inner>,
        has_room: fn(&Outbox) -> bool,
    ) {
        self.handle(&mut inner, Event::Flush);
        drop(inner);
        self.driver.wait(std::future::poll_fn(|context| {
            let mut inner = self.lock();
            if has_room(&inner.outbox) || inner.over.is_some() || inner.ended {
                return Poll::Ready(());
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        }));
    }

    pub(super) fn handle(&self, inner: &mut Inner, event: Event<'_>) {
        let mut actions = std::mem::take(&mut inner.actions);
        inner.outbox.handle(self.now(), event, &mut actions);
        for action in actions.drain(..) {
            self.perform(inner, action);
        }
        inner.actions = actions;
        let outbox = &inner.outbox;
        if !inner.waiting.is_empty() && outbox.has_room() && outbox.has_staging_room() {
            inner.waiting.drain(..).for_each(Waker::wake);
        }
        if let Some(next) = inner.outbox.next_wakeup()
            && next < inner.armed
        {
            inner.armed = next;
            self.wake.notify_one();
        }
    }

    fn perform(&self, inner: &mut Inner, action: Action) {
        let to = &self.addressees;
        match action {
            Action::PublishBatch {
                bytes,
                first,
                last,
                again,
            } => {
                if !again {
                    inner.observer.submitted(&self.opened, first, last);
                }
                self.publish(inner, &to.batch, bytes);
            }
            Action::PublishIntent { bytes } => self.publish(inner, &to.intent, bytes),
            Action::PublishState { bytes } => self.publish(inner, &to.state, bytes),
            Action::PublishChunk {
                transfer,
                offset,
                len,
            } => {
                if let Some(chunk) = inner.outbox.chunk(transfer, offset, len) {
                    self.publish(inner, &to.data, chunk);
                }
            }
            Action::PublishOffer { bytes } => self.publish(inner, &to.offer, bytes),
            Action::PublishClose { bytes } => {
                let message = Outgoing {
                    reply: Some(to.notice.clone()),
                    ..Outgoing::new(to.close.clone(), bytes)
                };
                self.hand_over(inner, message);
            }
            Action::Part { op, offset, bytes } => {
                inner.answer(op, |slot| slot.parts.push((offset, bytes)));
            }
            Action::Result {
                kind: ResultKind::Printed,
                bytes,
                ..
            } => inner.printed = bytes,
            Action::Result {
                op, bytes, events, ..
            } => {
                if !events.is_empty() {
                    inner.observer.timed(&events);
                }
                inner.observer.answered(op, &self.opened);
                if let Some(requests) = &mut inner.requests {
                    requests.answered(op, self.now());
                    let next = requests.next_wakeup();
                    self.wake_at(inner, next);
                }
                inner.answer(op, |slot| slot.done = Some(bytes));
            }
            Action::Image { transfer, refused } => inner.answer_image(transfer, refused),
            Action::Failed { failure, .. } => {
                inner.observer.failed(&failure, &self.opened);
                self.end_requests(inner, Some(&failure));
                inner.over = Some(failure);
                inner.wake_all();
            }
            Action::Ended => {
                self.end_requests(inner, None);
                inner.over.get_or_insert_with(closed);
                inner.ended = true;
                inner.wake_all();
            }
        }
    }

    /// Publishes the memory requests that are due.
    pub(super) fn publish_memory(&self, inner: &mut Inner) {
        let now = self.now();
        let Some(commitment) = &mut inner.commitment else {
            return;
        };
        let message = commitment.message(now);
        let next = commitment.next_wakeup();
        if let Some(message) = message {
            self.publish(inner, &self.addressees.memory, message.into());
        }
        self.wake_at(inner, next);
    }

    /// Publishes the request about memory of other sessions, if it is due.
    pub(super) fn publish_exchange(&self, inner: &mut Inner) {
        let message = inner.exchange.message(self.now());
        let next = inner.exchange.next_wakeup();
        if let Some(message) = message {
            self.publish(inner, &self.addressees.ipc, message.into());
        }
        self.wake_at(inner, next);
    }

    /// Makes the session's task check the clock by then.
    pub(super) fn wake_at(&self, inner: &mut Inner, next: Option<Nanos>) {
        if let Some(next) = next
            && next < inner.armed
        {
            inner.armed = next;
            self.wake.notify_one();
        }
    }

    /// Publishes the report of finished requests: one that is due by `now`, or all.
    pub(super) fn publish_requests(&self, inner: &mut Inner, now: Option<Nanos>) {
        let session = self.opened.session;
        while let Some(requests) = &mut inner.requests
            && let Some(report) = requests.report(now, self.clock_zero, session, this_process())
        {
            self.publish(inner, &self.addressees.requests, report.into());
        }
    }

    /// Ends all requests: the session is over, and they get no answer.
    pub(super) fn end_requests(&self, inner: &mut Inner, failure: Option<&Failure>) {
        if let Some(requests) = &mut inner.requests {
            requests.over(failure, self.now());
            self.publish_requests(inner, None);
        }
    }

    fn publish(&self, inner: &mut Inner, subject: &Subject, bytes: Bytes) {
        self.hand_over(inner, Outgoing::new(subject.clone(), bytes));
    }

    fn hand_over(&self, inner: &mut Inner, message: Outgoing) {
        if inner.backlog.publish(&self.client, message) {
            self.wake.notify_one();
        }
    }
}

/// The host's time, nanoseconds since 1970.
fn since_1970() -> u64 {
    let elapsed = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    elapsed.as_nanos().try_into().unwrap_or(u64::MAX)
}

pub(super) fn refusal(error: PushError) -> ClientError {
    match error {
        PushError::Failed(failure) => ClientError::Session(failure),
        PushError::Invalid(why) => ClientError::Refused(Failure::new(Code::Protocol, why)),
        PushError::Closed | PushError::Full => ClientError::closed(),
    }
}
