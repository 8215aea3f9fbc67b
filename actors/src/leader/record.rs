//! Blocks on their way into the record stream: appended again until acknowledged.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::Recipient;
use async_nats::jetstream::Context;
use bus_schemas::subject::Subjects;
use bus_schemas::{ClusterSettings, Epoch, LeaderId};
use bytes::Bytes;
use tokio::sync::{Notify, Semaphore};

use super::cutter::ANCHORS;
use super::stores::Unwritten;
use super::told::Told;
use crate::repeated::Repeated;
use crate::storage::{Storage, Stored};

/// How long the stream may take to acknowledge.
const PATIENCE: Duration = Duration::from_secs(2);
/// Before a block is appended again.
const PAUSE: Duration = Duration::from_millis(100);
/// Blocks on their way at a time.
const FLIGHT: usize = 64;

/// Messages among which is one of the latest epoch.
const LATEST: usize = 16;
/// Above every epoch.
const NONE: Epoch = Epoch::MAX;

/// Blocks that are not appended yet, by epoch.
#[derive(Default)]
struct UnderWay {
    blocks: RefCell<BTreeMap<Epoch, u64>>,
    fewer: Notify,
}

impl UnderWay {
    fn begins(&self, epoch: Epoch) {
        *self.blocks.borrow_mut().entry(epoch).or_default() += 1;
    }

    fn ends(&self, epoch: Epoch) {
        let blocks = &mut *self.blocks.borrow_mut();
        if let Some(count) = blocks.get_mut(&epoch) {
            *count -= 1;
            if *count == 0 {
                blocks.remove(&epoch);
                self.fewer.notify_waiters();
            }
        }
    }

    /// Until none of an earlier epoch is left.
    async fn first(&self, epoch: Epoch) {
        let earlier = || self.blocks.borrow().range(..epoch).next().is_some();
        while earlier() {
            self.fewer.notified().await;
        }
    }
}

/// Appends blocks. How many bytes wait here is bounded by the core.
#[derive(Clone)]
pub(super) struct Appender {
    storage: Storage,
    subjects: Subjects,
    leader: LeaderId,
    /// The lowest epoch that is written: blocks of those below are given up.
    from: Rc<Cell<Epoch>>,
    under_way: Rc<UnderWay>,
    flight: Rc<Semaphore>,
    repeated: Rc<RefCell<Repeated>>,
    unwritten: Unwritten,
}

impl Appender {
    pub(super) fn new(storage: &Storage, subjects: &Subjects, leader: LeaderId) -> Self {
        let mut jetstream = storage.jetstream().clone();
        jetstream.set_timeout(PATIENCE);
        Self {
            storage: storage.over(jetstream),
            subjects: subjects.clone(),
            leader,
            from: Rc::new(Cell::new(NONE)),
            under_way: Rc::default(),
            flight: Rc::new(Semaphore::new(FLIGHT)),
            repeated: Rc::default(),
            unwritten: Rc::default(),
        }
    }

    /// Since when nothing can be appended, and why, if that is so.
    pub(super) fn unwritten(&self) -> Unwritten {
        self.unwritten.clone()
    }

    /// Bytes that the stream may hold, and copies of all that is kept, from now on.
    pub(super) fn settle(&self, settings: &ClusterSettings) {
        let bytes = self.storage.set_record_bytes(settings.record_max_bytes);
        let copies = self.storage.set_replicas(settings.broker_replicas);
        if bytes || copies {
            let storage = self.storage.clone();
            actix::spawn(async move {
                if let Err(error) = storage.ensure().await {
                    tracing::warn!(
                        error,
                        "not everything that is kept has its limit and copies"
                    );
                }
            });
        }
    }

    /// A reign begins. What is left of the one before is appended first, unless that was given up.
    pub(super) fn begin(&self, epoch: Epoch) {
        self.from.set(self.from.get().min(epoch));
    }

    /// What is not appended is given up.
    pub(super) fn give_up(&self) {
        *self.unwritten.borrow_mut() = None;
        self.from.set(NONE);
    }

    /// Appends a block until it is acknowledged or given up.
    pub(super) fn append(
        &self,
        epoch: Epoch,
        number: u64,
        bytes: Vec<u8>,
        leader: Recipient<Told>,
    ) {
        let (this, bytes) = (self.clone(), Bytes::from(bytes));
        this.under_way.begins(epoch);
        actix::spawn(async move {
            // Who reads the record as it grows reads one epoch behind the other.
            this.under_way.first(epoch).await;
            let permit = this.flight.acquire().await;
            this.append_until(epoch, number, bytes, leader).await;
            drop(permit);
            this.under_way.ends(epoch);
        });
    }

    async fn append_until(&self, epoch: Epoch, number: u64, bytes: Bytes, leader: Recipient<Told>) {
        while epoch >= self.from.get() {
            match self.try_append(epoch, number, bytes.clone()).await {
                Ok(()) => {
                    if self.repeated.borrow_mut().is_over() {
                        tracing::info!(epoch, number, "the record is written again");
                    }
                    *self.unwritten.borrow_mut() = None;
                    // Nobody is left to hear it if this fails.
                    let _ = leader.send(Told::Recorded { epoch, number }).await;
                    return;
                }
                Err(error) => {
                    self.fails(&error);
                    let said = self.repeated.borrow_mut().happened(Instant::now());
                    if let Some(unsaid) = said {
                        tracing::warn!(epoch, number, error, unsaid, "a block is not recorded yet");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    fn fails(&self, why: &str) {
        let unwritten = &mut *self.unwritten.borrow_mut();
        let since = unwritten
            .take()
            .map_or_else(Instant::now, |(since, _)| since);
        *unwritten = Some((since, why.to_owned()));
    }

    async fn try_append(&self, epoch: Epoch, number: u64, bytes: Bytes) -> Result<(), String> {
        let id = format!("{epoch}.{}.{number}", self.leader);
        let subject = self.subjects.record(epoch).into();
        crate::stream::append(&self.storage, Stored::Record, subject, &id, bytes).await
    }

    /// The highest epoch in the stream: a store that lost the lease must not repeat it.
    pub(super) async fn last_epoch(jetstream: &Context, subjects: &Subjects) -> Epoch {
        let Ok(stream) = jetstream.get_stream(subjects.record_stream()).await else {
            return 0;
        };
        let state = &stream.cached_info().state;
        // Anchors are among the blocks, and of no epoch.
        for sequence in (state.first_sequence..=state.last_sequence)
            .rev()
            .take(LATEST)
        {
            let Ok(message) = stream.get_raw_message(sequence).await else {
                continue;
            };
            let epoch = message.subject.rsplit('.').next();
            let epoch = epoch.and_then(|epoch| epoch.parse().ok());
            if let Some(epoch) = epoch.filter(|epoch| *epoch != ANCHORS) {
                return epoch;
            }
        }
        0
    }
}
