//! Copies of blocks that are not stored yet: with the other candidates at once, and with the workers
//! where storing takes long.

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
            // What is lost is asked for by whoever is connected anew.
            let _ = client.publish(subject, bytes.into()).await;
        });
    }

    /// A message of a block that is not stored, or with number 0 only of how far a term's are.
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

    /// Has the workers keep a block.
    pub(super) fn lend(&self, block: &UnstoredBlock) {
        self.lent.set(true);
        let copy = self.copy(block.term, block.number, &block.bytes);
        self.publish(self.subjects.unstored_worker(), copy);
    }

    /// Publishes what is stored since this was last done: others need not keep it.
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

    /// Another leader published what of its record is not stored. It is asked for what was not received,
    /// not too often. What comes of a leader before this one is appended: that one may have been cut
    /// off, and may be gone.
    ///
    /// # Errors
    /// If that cannot be read.
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

    /// A candidate may have missed what was published.
    pub(in crate::leader) fn asked(&self) {
        if self.writes() {
            self.publish_all();
        }
    }

    /// Publishes all that is not stored, to all who ask meanwhile at once, and block by block, for it may be
    /// much.
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
