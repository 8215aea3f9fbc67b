//! One session as all threads of its program share it.

mod answer;
mod image;
mod served;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use async_nats::{Client, Subject};
use bus_schemas::subject::{Subjects, ToClient, ToLeader, ToWorker};
use bus_schemas::{
    CloseReason, Code, Failure, KernelKey, ModuleHash, Op, OpNumber, Opened, Tenant,
};
use bytes::Bytes;
use client_agent_core::{Addresses, Event, Nanos, Outbox, OutboxSettings, PushError};
use tokio::sync::Notify;

use crate::driver::Driver;
use crate::error::{ClientError, closed, refused};
use crate::observer::Observer;
use crate::publish::{Backlog, Outgoing};
use crate::wait::block_until;

pub use answer::{Answer, Reading};
use image::Verdict;

/// Where a session's messages go.
struct Addressees {
    batch: Subject,
    data: Subject,
    state: Subject,
    intent: Subject,
    close: Subject,
    notice: Subject,
}

/// An op that is answered by a result.
#[derive(Default)]
struct Slot {
    waker: Option<Waker>,
    /// Parts of a copy to the host that nobody has taken, and where they lie in it.
    parts: Vec<(u64, Bytes)>,
    /// The answer is here: no more parts come.
    done: Option<Vec<u8>>,
}

impl Slot {
    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

struct Inner {
    outbox: Outbox,
    addresses: Addresses,
    actions: Vec<client_agent_core::Action>,
    slots: HashMap<OpNumber, Slot>,
    /// By transfer.
    images: HashMap<u64, Verdict>,
    /// Who waits for room, or for the end.
    waiting: Vec<Waker>,
    backlog: Backlog,
    /// When the session's task looks at the clock next; `Nanos::MAX` is never.
    armed: Nanos,
    /// The task is to flush.
    lingering: bool,
    observer: Box<dyn Observer>,
    /// What kernels printed before the session failed.
    printed: Vec<u8>,
    over: Option<Failure>,
    ended: bool,
}

/// One session. Any thread may use it; ops are numbered in the order of the calls.
pub struct SessionChannel {
    opened: Opened,
    client: Client,
    addressees: Addressees,
    clock: Instant,
    /// Wakes the session's task.
    wake: Notify,
    driver: Driver,
    inner: Mutex<Inner>,
}

impl std::fmt::Debug for SessionChannel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SessionChannel")
            .field("session", &self.opened.session)
            .finish_non_exhaustive()
    }
}

impl SessionChannel {
    /// A session that was opened. [`crate::serve`] must run for it beside the connection. It fails
    /// when those that it waits for are silent for `deadline`.
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
        let settings = OutboxSettings {
            deadline: deadline.as_nanos().try_into().unwrap_or(Nanos::MAX),
            ..OutboxSettings::new(session, opened.epoch, opened.leader)
        };
        Self {
            addressees: Addressees {
                batch: to_worker(ToWorker::Batch),
                data: to_worker(ToWorker::Data),
                state: to_worker(ToWorker::State),
                intent: to_leader(ToLeader::Intent(session)),
                close: to_leader(ToLeader::Close),
                notice: subjects.to_client(tenant, session, ToClient::Leader).into(),
            },
            client,
            clock: Instant::now(),
            wake: Notify::new(),
            driver,
            inner: Mutex::new(Inner {
                outbox: Outbox::new(settings),
                addresses: Addresses::new(opened.window, opened.quota),
                actions: Vec::new(),
                slots: HashMap::new(),
                images: HashMap::new(),
                waiting: Vec::new(),
                backlog: Backlog::default(),
                armed: Nanos::MAX,
                lingering: false,
                observer,
                printed: Vec::new(),
                over: None,
                ended: false,
            }),
            opened,
        }
    }

    /// What the leader opened.
    #[must_use]
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// Appends an op; waits while the outbox is full.
    ///
    /// # Errors
    /// [`ClientError::Session`], or [`ClientError::Refused`] for an op no worker would take.
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
            match inner.outbox.push(op, stream, payload, key) {
                Ok(number) => {
                    inner.observer.pushed(op, number);
                    if op.has_result() {
                        inner.slots.insert(number, Slot::default());
                    }
                    if inner.outbox.wants_flush() && !self.lingers(&mut inner) {
                        self.tell(&mut inner, Event::Flush);
                        // Who asks for an answer will wait for it, and drive.
                        if !op.has_result() {
                            self.driver.kick();
                        }
                    }
                    return Ok(number);
                }
                Err(PushError::Full) => self.make_room(inner, Outbox::has_room),
                Err(other) => return Err(refusal(other)),
            }
        }
    }

    /// Takes bytes too large for a batch; waits while too many are on their way.
    ///
    /// # Errors
    /// As [`SessionChannel::push`].
    pub fn stage(&self, bytes: &[u8], module: Option<ModuleHash>) -> Result<u64, ClientError> {
        let mut parcel = loop {
            let mut inner = self.lock();
            match inner.outbox.parcel(bytes.len()) {
                Ok(parcel) => break parcel,
                Err(PushError::Full) => self.make_room(inner, Outbox::has_staging_room),
                Err(other) => return Err(refusal(other)),
            }
        };
        // Others use the channel meanwhile.
        parcel.write(0, bytes);
        let mut inner = self.lock();
        let transfer = inner.outbox.send(parcel, module).map_err(refusal)?;
        if module.is_some() {
            let waiting = Verdict::Waiting(Vec::new());
            inner.images.insert(transfer, waiting);
        }
        self.tell(&mut inner, Event::Flush);
        drop(inner);
        self.driver.kick();
        Ok(transfer)
    }

    /// Picks the addresses of an allocation and appends it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] above the quota or the window, else as [`SessionChannel::push`].
    pub fn alloc(&self, bytes: u64) -> Result<u64, ClientError> {
        let address = self
            .lock()
            .addresses
            .alloc(bytes)
            .map_err(ClientError::Refused)?;
        self.push(&Op::Alloc { address, bytes }, 0, &[], KernelKey(0))?;
        Ok(address)
    }

    /// Frees the allocation that begins at `address`.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where none begins there, else as [`SessionChannel::push`].
    pub fn free(&self, address: u64) -> Result<(), ClientError> {
        // Pushed before the range is given out again, so that its next allocation comes later.
        let begins = self.range(address).is_some_and(|(base, _)| base == address);
        if !begins || self.lock().addresses.is_mapped(address) {
            let detail = format!("no allocation begins at {address:#x}");
            return Err(refused(Code::BadAddress, detail));
        }
        self.push(&Op::Free { address }, 0, &[], KernelKey(0))?;
        self.lock()
            .addresses
            .free(address)
            .map_err(ClientError::Refused)?;
        Ok(())
    }

    /// Keeps a range of addresses free for [`SessionChannel::map`]: its first address, a multiple of `align`.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where the window has no such range.
    pub fn reserve(&self, bytes: u64, align: u64) -> Result<u64, ClientError> {
        let mut inner = self.lock();
        let made = inner.addresses.reserve(bytes, align);
        made.map_err(ClientError::Refused)
    }

    /// Gives back what [`SessionChannel::reserve`] kept.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where none begins there or something is mapped in it.
    pub fn unreserve(&self, address: u64) -> Result<(), ClientError> {
        let mut inner = self.lock();
        let done = inner.addresses.unreserve(address);
        done.map_err(ClientError::Refused)
    }

    /// Appends an allocation at an address of a reserved range.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where that is not reserved and free, or above the quota; else as
    /// [`SessionChannel::push`].
    pub fn map(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let made = self.lock().addresses.map(address, bytes);
        made.map_err(ClientError::Refused)?;
        self.push(&Op::Alloc { address, bytes }, 0, &[], KernelKey(0))?;
        Ok(())
    }

    /// Ends what [`SessionChannel::map`] made.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where nothing is mapped there, else as [`SessionChannel::push`].
    pub fn unmap(&self, address: u64) -> Result<(), ClientError> {
        // As [`SessionChannel::free`]: what is mapped there next comes later.
        if self.lock().addresses.is_mapped(address) {
            self.push(&Op::Free { address }, 0, &[], KernelKey(0))?;
        }
        let done = self.lock().addresses.unmap(address);
        done.map(|_| ()).map_err(ClientError::Refused)
    }

    /// Whether `bytes` bytes at `address` are the program's: within one allocation, or (where
    /// module variables lie) in the part of the window that is the worker's.
    ///
    /// # Errors
    /// [`ClientError::Refused`] where they are not.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), ClientError> {
        let inner = self.lock();
        inner
            .addresses
            .check(address, bytes)
            .map_err(ClientError::Refused)
    }

    /// The allocation that holds `address`: where it begins and how many bytes were asked for.
    #[must_use]
    pub fn range(&self, address: u64) -> Option<(u64, u64)> {
        self.lock().addresses.range(address)
    }

    /// Bytes allocated now, as they were asked for.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.lock().addresses.held()
    }

    /// The op pushed last.
    #[must_use]
    pub fn last(&self) -> OpNumber {
        self.lock().outbox.last()
    }

    /// Every op through this one has reached the worker, as far as it has said.
    #[must_use]
    pub fn received(&self) -> OpNumber {
        self.lock().outbox.received()
    }

    /// Every op through this one has been announced to the leader, as far as it has said.
    #[must_use]
    pub fn queued(&self) -> OpNumber {
        self.lock().outbox.queued()
    }

    /// Every op through this one is done, as far as the worker has said.
    #[must_use]
    pub fn done(&self) -> OpNumber {
        self.lock().outbox.done()
    }

    /// The answer to op `op`, which has one.
    #[must_use]
    pub fn answer(&self, op: OpNumber) -> Answer<'_> {
        Answer::new(self, op)
    }

    /// The answer to op `op`, a copy to the host of as many bytes as `to` has.
    #[must_use]
    pub fn reading<'a>(&'a self, op: OpNumber, to: &'a mut [u8]) -> Reading<'a> {
        Reading {
            answer: self.answer(op),
            to,
        }
    }

    /// Sends what was pushed, now.
    pub fn flush(&self) {
        self.tell(&mut self.lock(), Event::Flush);
        self.driver.kick();
    }

    /// Sets the span of the program, as a W3C `traceparent`, that requests from the next one on
    /// are children of.
    pub fn set_trace(&self, traceparent: Option<&str>) {
        self.lock().observer.set_trace(traceparent);
    }

    /// Asks for the session's end after the ops pushed so far.
    pub fn close(&self) {
        self.tell(&mut self.lock(), Event::Close(CloseReason::Asked));
        self.driver.kick();
    }

    /// Runs a future of this channel's on the calling thread, which drives the connection meanwhile.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.driver.wait(future)
    }

    /// Waits for the session's end.
    pub fn ended(&self) -> impl Future<Output = ()> {
        std::future::poll_fn(|context| {
            let mut inner = self.lock();
            if inner.ended {
                return Poll::Ready(());
            }
            inner.waiting.push(context.waker().clone());
            Poll::Pending
        })
    }

    /// Blocks until the session's end, for at most `patience`; whether it came.
    #[must_use]
    pub fn wait_ended(&self, patience: Duration) -> bool {
        self.driver.kick();
        block_until(self.ended(), Instant::now() + patience).is_some()
    }

    /// Why the session can run no more, if that is so.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.lock().over.clone()
    }

    /// Takes what kernels printed since the last sync that returned, once the session has failed.
    #[must_use]
    pub fn take_printed(&self) -> Vec<u8> {
        std::mem::take(&mut self.lock().printed)
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.lock().ended
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves a flush to the session's task where nobody waits for its answer: it runs when the
    /// connection is driven next, and until then more ops may join.
    #[inline]
    fn lingers(&self, inner: &mut Inner) -> bool {
        let may = inner.outbox.may_linger();
        if may && !inner.lingering {
            inner.lingering = true;
            self.wake.notify_one();
        }
        may
    }

    fn make_room(&self, mut inner: MutexGuard<'_, Inner>, has_room: fn(&Outbox) -> bool) {
        self.tell(&mut inner, Event::Flush);
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
}

fn refusal(error: PushError) -> ClientError {
    match error {
        PushError::Failed(failure) => ClientError::Session(failure),
        PushError::Invalid(why) => ClientError::Refused(Failure::new(Code::Protocol, why)),
        PushError::Closed | PushError::Full => ClientError::closed(),
    }
}

fn wake_all(inner: &mut Inner) {
    inner.waiting.drain(..).for_each(Waker::wake);
    for verdict in inner.images.values_mut() {
        if let Verdict::Waiting(wakers) = verdict {
            wakers.drain(..).for_each(Waker::wake);
        }
    }
    inner.slots.values_mut().for_each(Slot::wake);
}
