//! Copies of blocks that are not stored yet: at the other candidates at once, and at the workers if
//! storing takes long.

use bus_schemas::{MessageError, WIRE_VERSION, decode, encode};
use bytes::Bytes;
use scheduler_leader_core::{TermId, UnstoredBlock};

use super::Appender;

impl Appender {
    pub(super) fn ask(&self) {
        self.publish(self.subjects.unstored_ask(), Vec::new());
    }

    pub(super) fn publish(&self, subject: String, bytes: Vec<u8>) {
        let client = self.storage.jetstream().client();
        actix::spawn(async move {
            // A candidate that reconnects requests lost copies.
            let _ = client.publish(subject, bytes.into()).await;
        });
    }

    /// Encodes a copy of a block that is not stored; with number 0 it only tells how far the term's
    /// blocks are stored.
    pub(super) fn copy(&self, (epoch, leader): TermId, number: u64, bytes: &[u8]) -> Vec<u8> {
        let stored = self.unstored.borrow().stored_through((epoch, leader));
        encode(&bus_schemas::UnstoredCopy {
            v: WIRE_VERSION,
            epoch,
            leader,
            stored,
            number,
            bytes,
        })
    }

    /// Asks the workers to keep a block.
    pub(super) fn lend(&self, block: &UnstoredBlock) {
        self.lent.set(true);
        let copy = self.copy(block.term, block.number, &block.bytes);
        self.publish(self.subjects.unstored_worker(), copy);
    }

    /// Publishes the progress of storing since the last call: others need not keep those blocks.
    pub(in crate::leader) fn publish_stored(&self) {
        if !self.writes() {
            return;
        }
        let stored = self.unstored.borrow_mut().newly_stored();
        for term in stored {
            let copy = self.copy(term, 0, &[]);
            if self.lent.get() {
                self.publish(self.subjects.unstored_worker(), copy.clone());
            }
            self.publish(self.subjects.unstored(), copy);
        }
        if self.late.get() == 0 {
            self.lent.set(false);
        }
    }

    /// Receives a block of another leader that is not stored. Requests missing ones, at a bounded
    /// rate. Blocks of an earlier leader are appended, because that leader may be cut off or gone.
    ///
    /// # Errors
    /// The message cannot be decoded.
    pub(in crate::leader) fn receive(&self, message: &Bytes) -> Result<(), MessageError> {
        let copy: bus_schemas::UnstoredCopy<'_> = decode(message)?;
        let (term, bytes) = ((copy.epoch, copy.leader), message.slice_ref(copy.bytes));
        let now = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let is_to_ask = {
            let mut unstored = self.unstored.borrow_mut();
            unstored.receive(term, copy.stored, copy.number, bytes);
            unstored.is_to_ask(now, term)
        };
        if is_to_ask {
            self.ask();
        }
        if self.writes() && term.0 < self.epoch.get() {
            self.append_left();
        }
        Ok(())
    }

    /// Answers a candidate that may have missed blocks.
    pub(in crate::leader) fn asked(&self) {
        if self.writes() {
            self.publish_all();
        }
    }

    /// Publishes all blocks that are not stored. One run answers all requests that come meanwhile.
    /// Publishes block by block, because they may be many.
    pub(super) fn publish_all(&self) {
        if self.repeating.replace(true) {
            return;
        }
        let this = self.clone();
        actix::spawn(async move {
            let client = this.storage.jetstream().client();
            let all = this.unstored.borrow().all();
            for block in all {
                let copy = this.copy(block.term, block.number, &block.bytes);
                let to = this.subjects.unstored();
                if client.publish(to, copy.into()).await.is_err() {
                    break;
                }
            }
            this.repeating.set(false);
        });
    }
}
