//! Blocks on their way into the record stream: appended again until acknowledged.

mod copies;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use actix::Recipient;
use bus_schemas::subject::Subjects;
use bus_schemas::{ClusterSettings, Epoch, LeaderId};
use scheduler_leader_core::{Unstored, UnstoredBlock};
use tokio::sync::{Notify, Semaphore};

use super::messages::LeaderMessage;
use super::stores::Unwritten;
use crate::repeated::Repeated;
use storage::{Storage, Stored};

/// Timeout for the stream's acknowledgement.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which workers also keep a block that is not stored yet. If the broker is partitioned,
/// this leader's side may have no candidate.
const LONG: Duration = Duration::from_millis(100);
/// Pause before a block is appended again.
const PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of blocks under way.
const FLIGHT: usize = 64;

/// An epoch above all others: no block is appended.
const NONE: Epoch = Epoch::MAX;

/// Number of blocks that are not appended yet, by epoch.
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

    /// Waits until no block of an earlier epoch is left.
    async fn first(&self, epoch: Epoch) {
        let earlier = || self.blocks.borrow().range(..epoch).next().is_some();
        while earlier() {
            self.fewer.notified().await;
        }
    }
}

/// Appends blocks. The core bounds the bytes that wait here.
#[derive(Clone)]
pub(super) struct Appender {
    storage: Storage,
    subjects: Subjects,
    leader: LeaderId,
    /// The lowest epoch that is written; blocks of lower epochs are given up.
    from: Rc<Cell<Epoch>>,
    /// The epoch in which this candidate led last.
    epoch: Rc<Cell<Epoch>>,
    under_way: Rc<UnderWay>,
    flight: Rc<Semaphore>,
    repeated: Rc<RefCell<Repeated>>,
    unwritten: Unwritten,
    /// Notified when the connection is up again: messages over the previous one get no answer.
    connected: Rc<Notify>,
    unstored: Rc<RefCell<Unstored>>,
    /// True while all blocks that are not stored are being published again.
    repeating: Rc<Cell<bool>>,
    /// Number of blocks that take long.
    late: Rc<Cell<u64>>,
    /// True if workers keep copies.
    lent: Rc<Cell<bool>>,
    /// Origin of the core's clock.
    began: Instant,
}

impl Appender {
    pub(super) fn new(storage: &Storage, subjects: &Subjects, leader: LeaderId) -> Self {
        let mut jetstream = storage.jetstream().clone();
        jetstream.set_timeout(TIMEOUT);
        Self {
            storage: storage.over(jetstream),
            subjects: subjects.clone(),
            leader,
            from: Rc::new(Cell::new(NONE)),
            epoch: Rc::default(),
            under_way: Rc::default(),
            flight: Rc::new(Semaphore::new(FLIGHT)),
            repeated: Rc::default(),
            unwritten: Rc::default(),
            connected: Rc::default(),
            unstored: Rc::default(),
            repeating: Rc::default(),
            late: Rc::default(),
            lent: Rc::default(),
            began: Instant::now(),
        }
    }

    /// Notes that the connection is up again. Blocks without an acknowledgement are sent again at
    /// once, to the stream and to the other candidates. The blocks that other leaders published
    /// meanwhile are requested.
    pub(super) fn connected(&self) {
        self.connected.notify_waiters();
        match self.writes() {
            true => self.asked(),
            false => self.ask(),
        }
    }

    /// True if this candidate appends blocks.
    fn writes(&self) -> bool {
        self.from.get() != NONE
    }

    /// Time since which appends fail, and the error, if they do.
    pub(super) fn unwritten(&self) -> Unwritten {
        self.unwritten.clone()
    }

    /// Applies the settings: the record's bytes, and the copies of everything.
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

    /// Begins a term. Blocks left of earlier terms are appended first.
    pub(super) fn begin(&self, epoch: Epoch) {
        self.from.set(self.from.get().min(epoch));
        self.epoch.set(epoch);
        self.append_left();
    }

    /// Appends the blocks of earlier terms that this candidate has.
    fn append_left(&self) {
        let left = self.unstored.borrow_mut().take_over(self.epoch.get());
        for block in left {
            self.from.set(self.from.get().min(block.term.0));
            self.start(block, None);
        }
    }

    /// Gives up blocks that are not appended. The next leader may have no copy of them.
    pub(super) fn give_up(&self) {
        *self.unwritten.borrow_mut() = None;
        self.from.set(NONE);
        self.unstored.borrow_mut().give_up();
        self.publish_all();
    }

    /// Appends a block of this leader until it is acknowledged or given up.
    pub(super) fn append(
        &self,
        epoch: Epoch,
        number: u64,
        bytes: Vec<u8>,
        leader: Recipient<LeaderMessage>,
    ) {
        let block = UnstoredBlock {
            term: (epoch, self.leader),
            number,
            bytes: bytes.into(),
        };
        self.unstored.borrow_mut().append(&block);
        self.start(block, Some(leader));
    }

    fn start(&self, block: UnstoredBlock, leader: Option<Recipient<LeaderMessage>>) {
        let (this, (epoch, _)) = (self.clone(), block.term);
        let copy = self.copy(block.term, block.number, &block.bytes);
        self.publish(self.subjects.unstored(), copy);
        this.under_way.begins(epoch);
        actix::spawn(async move {
            let appended = async {
                // Readers of a growing record expect one epoch after the other.
                this.under_way.first(epoch).await;
                let _permit = this.flight.acquire().await;
                this.append_until(&block, leader).await;
            };
            let mut appended = std::pin::pin!(appended);
            // If earlier blocks take long, this one will as well.
            let lent = this.late.get() > 0;
            if lent {
                this.lend(&block);
            }
            let soon = tokio::time::timeout(LONG, &mut appended).await;
            if soon.is_err() {
                if !lent {
                    this.lend(&block);
                }
                this.late.set(this.late.get() + 1);
                appended.await;
                this.late.set(this.late.get() - 1);
            }
            this.under_way.ends(epoch);
        });
    }

    async fn append_until(&self, block: &UnstoredBlock, leader: Option<Recipient<LeaderMessage>>) {
        let ((epoch, _), number) = (block.term, block.number);
        while epoch >= self.from.get() {
            let connected = self.connected.notified();
            let appended = tokio::select! {
                appended = self.try_append(block) => appended,
                () = connected => continue,
            };
            match appended {
                Ok(()) => {
                    if self.repeated.borrow_mut().is_over() {
                        tracing::info!(epoch, number, "the record is written again");
                    }
                    *self.unwritten.borrow_mut() = None;
                    self.unstored.borrow_mut().stored(block.term, number);
                    if let Some(leader) = leader {
                        // This fails only if the receiver is gone.
                        let _ = leader.send(LeaderMessage::Recorded { epoch, number }).await;
                    }
                    return;
                }
                Err(error) => {
                    self.fails(&error);
                    let said = self.repeated.borrow_mut().happened(Instant::now());
                    if let Some(unsaid) = said {
                        tracing::warn!(epoch, number, error, unsaid, "a block is not recorded yet");
                    }
                    let connected = self.connected.notified();
                    let _ = tokio::time::timeout(PAUSE, connected).await;
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

    async fn try_append(&self, block: &UnstoredBlock) -> Result<(), String> {
        let ((epoch, leader), number) = (block.term, block.number);
        let id = format!("{epoch}.{leader}.{number}");
        let subject = self.subjects.record(epoch).into();
        let bytes = block.bytes.clone();
        crate::stream::append(&self.storage, Stored::Record, subject, &id, bytes).await
    }

    /// Returns the highest epoch in the stream, 0 if it has none. A store that lost the lease must
    /// not repeat an epoch.
    ///
    /// # Errors
    /// The broker does not answer: the epoch is unknown then.
    pub(super) async fn last_epoch(
        storage: &Storage,
        subjects: &Subjects,
    ) -> Result<Epoch, String> {
        let stream = storage.find_stream(Stored::Record).await;
        let Some(stream) = stream.map_err(|error| error.to_string())? else {
            return Ok(0);
        };
        let epochs = storage::epochs(&stream, subjects).await?;
        Ok(epochs.last().copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
