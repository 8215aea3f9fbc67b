//! The broker's durable half: key-value entries with compare-and-set and a time to live, and the record
//! stream. It can lose an acknowledged tail, like a broker that crashes before it synced.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Nanos, SECOND};

/// Key of the lease.
pub const LEASE: &str = "leader";
/// Key of the placement.
pub const PLACEMENT: &str = "placement";
/// Key of the learned profile.
pub const PROFILE: &str = "profile";
/// Time to live of a lease.
pub const LEASE_TTL: Nanos = 2 * SECOND;

/// A request to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreRequest {
    /// Reads an entry.
    Get {
        /// The key.
        key: &'static str,
    },
    /// Writes an entry if its revision is still `expected` (0 if the entry never existed).
    Swap {
        /// The key.
        key: &'static str,
        /// The revision it must have.
        expected: u64,
        /// The new value.
        value: Vec<u8>,
        /// Time to live, unless the entry is written again.
        ttl: Option<Nanos>,
    },
    /// Writes an entry unless a writer of a higher epoch did: a read and a compare-and-set.
    PutFenced {
        /// The key.
        key: &'static str,
        /// The writer's epoch.
        epoch: u64,
        /// The new value.
        value: Vec<u8>,
    },
    /// Writes an entry unless there is one: restores the content of a deleted bucket.
    PutBack {
        /// The key.
        key: &'static str,
        /// The epoch of its writer.
        epoch: u64,
        /// The value.
        value: Vec<u8>,
    },
    /// Appends to the record stream, once per message id.
    Append {
        /// Subject of the block.
        subject: String,
        /// Message id.
        id: String,
        /// The block.
        bytes: Vec<u8>,
    },
}

impl StoreRequest {
    /// True if it changes stored data.
    pub fn writes(&self) -> bool {
        !matches!(self, Self::Get { .. })
    }
}

/// An answer of the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreReply {
    /// The entry.
    Entry {
        /// Its revision, also that of a deletion's marker; 0 if there is nothing at all.
        revision: u64,
        /// Its value, if it has one.
        value: Option<Vec<u8>>,
    },
    /// There is no entry, because its bucket was deleted and created again.
    Anew,
    /// The entry was written, with the new revision.
    Written(u64),
    /// The entry has another revision.
    Conflict,
    /// The block has this sequence number; a repeated id returns the old one.
    Appended(u64),
    /// The write is refused: there is no room, or the disk is read-only.
    Refused,
    /// No answer came, because the broker is away. The request may or may not have been carried out.
    Away,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Entry {
    revision: u64,
    value: Option<Vec<u8>>,
    expires: Option<Nanos>,
    epoch: u64,
}

/// One block of the record stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBlock {
    /// Its subject: the epoch.
    pub subject: String,
    /// Its message id.
    pub id: String,
    /// The block.
    pub bytes: Vec<u8>,
}

#[derive(Debug)]
enum Undo {
    Entry(&'static str, Entry),
    Block,
}

/// The entries and the record.
#[derive(Debug, Default)]
pub struct Store {
    entries: BTreeMap<&'static str, Entry>,
    record: Vec<StoredBlock>,
    ids: BTreeMap<String, u64>,
    undo: Vec<Undo>,
    /// Entries of buckets that were deleted and created again, without a write since.
    anew: BTreeSet<&'static str>,
    /// Number of acknowledged record blocks that were lost.
    pub lost_blocks: u64,
}

impl Store {
    /// Carries out a request.
    pub fn handle(&mut self, now: Nanos, request: StoreRequest) -> StoreReply {
        match request {
            StoreRequest::Get { key } => self.read(now, key),
            StoreRequest::Swap {
                key,
                expected,
                value,
                ttl,
            } => {
                self.expire(now, key);
                if self.entry(key).revision != expected {
                    return StoreReply::Conflict;
                }
                self.write(key, value, ttl.map(|ttl| now + ttl), 0)
            }
            StoreRequest::PutFenced { key, epoch, value } => {
                if self.entry(key).epoch > epoch {
                    return StoreReply::Conflict;
                }
                self.write(key, value, None, epoch)
            }
            StoreRequest::PutBack { key, epoch, value } => {
                if self.entry(key).revision > 0 {
                    return StoreReply::Conflict;
                }
                self.write(key, value, None, epoch)
            }
            StoreRequest::Append { subject, id, bytes } => {
                let next = self.record.len() as u64 + 1;
                let at = *self.ids.entry(id.clone()).or_insert(next);
                if at == next {
                    self.record.push(StoredBlock { subject, id, bytes });
                    self.undo.push(Undo::Block);
                }
                StoreReply::Appended(at)
            }
        }
    }

    /// Returns the current entry.
    pub fn read(&mut self, now: Nanos, key: &'static str) -> StoreReply {
        self.expire(now, key);
        if self.anew.contains(key) {
            return StoreReply::Anew;
        }
        let Entry {
            revision, value, ..
        } = self.entry(key).clone();
        StoreReply::Entry { revision, value }
    }

    fn entry(&mut self, key: &'static str) -> &mut Entry {
        self.entries.entry(key).or_default()
    }

    fn write(
        &mut self,
        key: &'static str,
        value: Vec<u8>,
        expires: Option<Nanos>,
        epoch: u64,
    ) -> StoreReply {
        self.anew.remove(key);
        let before = self.entry(key).clone();
        let revision = before.revision + 1;
        self.undo.push(Undo::Entry(key, before));
        *self.entry(key) = Entry {
            revision,
            value: Some(value),
            expires,
            epoch,
        };
        StoreReply::Written(revision)
    }

    /// Expires an entry after its time to live. A marker with a new revision takes its place.
    fn expire(&mut self, now: Nanos, key: &'static str) {
        let entry = self.entry(key);
        if entry.expires.is_some_and(|at| at <= now) {
            entry.revision += 1;
            entry.value = None;
            entry.expires = None;
        }
    }

    /// Loses the last `writes` acknowledged writes. Their revisions are given out again, so a revision is
    /// no epoch.
    pub fn lose_tail(&mut self, writes: usize) {
        for _ in 0..writes {
            match self.undo.pop() {
                None => return,
                Some(Undo::Block) => {
                    if let Some(block) = self.record.pop() {
                        self.ids.remove(&block.id);
                        self.lost_blocks += 1;
                    }
                }
                Some(Undo::Entry(key, before)) => *self.entry(key) = before,
            }
        }
    }

    /// Deletes an entry's bucket and creates it again, as an administrator might by mistake.
    pub fn delete(&mut self, key: &'static str) {
        self.entries.remove(key);
        self.undo
            .retain(|undo| !matches!(undo, Undo::Entry(of, _) if *of == key));
    }

    /// Deletes an entry's bucket and creates it again. A node that knows the entry can put it back.
    pub fn renew(&mut self, key: &'static str) {
        self.delete(key);
        self.anew.insert(key);
    }

    /// Loses a block in the middle of the record, without any trace.
    pub fn forget_middle_block(&mut self) {
        if self.record.len() > 2 {
            self.record.remove(self.record.len() / 2);
        }
    }

    /// Returns the record stream.
    #[must_use]
    pub fn record(&self) -> &[StoredBlock] {
        &self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn swap(expected: u64, value: u8) -> StoreRequest {
        StoreRequest::Swap {
            key: "leader",
            expected,
            value: vec![value],
            ttl: Some(10),
        }
    }

    fn append(id: &str) -> StoreRequest {
        StoreRequest::Append {
            subject: "r.1".into(),
            id: id.into(),
            bytes: vec![],
        }
    }

    fn entry(revision: u64, value: Option<u8>) -> StoreReply {
        StoreReply::Entry {
            revision,
            value: value.map(|value| vec![value]),
        }
    }

    #[test]
    fn only_one_of_two_swaps_wins_and_an_entry_expires_to_a_marker() {
        let mut store = Store::default();
        assert_eq!(store.handle(0, swap(0, 1)), StoreReply::Written(1));
        assert_eq!(store.handle(0, swap(0, 2)), StoreReply::Conflict);
        assert_eq!(store.handle(5, swap(1, 3)), StoreReply::Written(2));
        let get = StoreRequest::Get { key: "leader" };
        assert_eq!(store.handle(14, get.clone()), entry(2, Some(3)));
        assert_eq!(store.handle(15, get), entry(3, None));
        assert_eq!(store.handle(15, swap(0, 4)), StoreReply::Conflict);
        assert_eq!(store.handle(15, swap(3, 4)), StoreReply::Written(4));
    }

    #[test]
    fn a_lost_tail_brings_old_entries_back_and_forgets_message_ids() {
        let mut store = Store::default();
        store.handle(0, swap(0, 1));
        store.handle(0, append("a"));
        store.handle(0, swap(1, 2));
        store.handle(0, append("b"));
        store.lose_tail(2);
        assert_eq!(store.record().len(), 1);
        assert_eq!(store.read(1, "leader"), entry(1, Some(1)));
        assert_eq!(store.handle(1, append("b")), StoreReply::Appended(2));
        assert_eq!(store.handle(1, append("b")), StoreReply::Appended(2));
        assert_eq!(store.record().len(), 2);
    }

    #[test]
    fn what_was_deleted_is_put_back_once() {
        let mut store = Store::default();
        store.handle(0, swap(0, 1));
        let back = |value| StoreRequest::PutBack {
            key: "leader",
            epoch: 1,
            value: vec![value],
        };
        assert_eq!(store.handle(0, back(2)), StoreReply::Conflict);
        store.renew("leader");
        assert_eq!(store.read(0, "leader"), StoreReply::Anew);
        assert_eq!(store.handle(0, back(3)), StoreReply::Written(1));
        assert_eq!(store.handle(0, back(4)), StoreReply::Conflict);
        assert_eq!(store.read(0, "leader"), entry(1, Some(3)));
    }

    #[test]
    fn a_lower_epoch_does_not_overwrite_a_higher_one() {
        let mut store = Store::default();
        let put = |epoch, value| StoreRequest::PutFenced {
            key: "placement",
            epoch,
            value: vec![value],
        };
        assert_eq!(store.handle(0, put(2, 1)), StoreReply::Written(1));
        assert_eq!(store.handle(0, put(1, 2)), StoreReply::Conflict);
        assert_eq!(store.handle(0, put(2, 3)), StoreReply::Written(2));
    }
}
