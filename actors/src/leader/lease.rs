//! The lease in JetStream KV: written by compare-and-set, and expires by itself.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::kv::{Operation, Store};
use bus_schemas::subject::Subjects;
use scheduler_leader_core::Lease;

use crate::repeated::Repeated;
use storage::{Storage, Stored};

/// The entry's key.
const KEY: &str = "leader";
/// Lifetime of the entry without a renewal.
const LIFE: &str = "2s";
/// Timeout of the store.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Result of a lease operation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Read { lease: Option<Lease>, revision: u64 },
    Written { revision: u64 },
    Conflict,
    Unavailable,
}

/// The bucket that holds the lease.
#[derive(Clone)]
pub(super) struct LeaseStore {
    storage: Storage,
    bucket: String,
    repeated: Rc<RefCell<Repeated>>,
    /// The bucket, once found. Looking it up needs servers that reading it does not.
    found: Rc<RefCell<Option<Store>>>,
}

impl LeaseStore {
    pub(super) fn new(storage: &Storage, subjects: &Subjects) -> Self {
        let mut jetstream = storage.jetstream().clone();
        jetstream.set_timeout(TIMEOUT);
        Self {
            storage: storage.over(jetstream),
            bucket: subjects.lease_bucket(),
            repeated: Rc::default(),
            found: Rc::default(),
        }
    }

    /// True if several servers keep the lease. If one dies, they elect a new one that serves the
    /// entry.
    pub(super) fn is_clustered(&self) -> bool {
        self.storage.is_clustered()
    }

    /// Reads the lease. Creates the bucket if it is missing.
    pub(super) async fn read(&self) -> Answer {
        match tokio::time::timeout(TIMEOUT, self.try_read()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                tracing::debug!(error, "the lease cannot be read");
                self.found.take();
                Answer::Unavailable
            }
            Err(_) => Answer::Unavailable,
        }
    }

    async fn try_read(&self) -> Result<Answer, String> {
        let found = self.found.borrow().clone();
        let store = match found {
            Some(store) => store,
            None => self.storage.bucket(Stored::Lease).await?,
        };
        *self.found.borrow_mut() = Some(store.clone());
        let entry = store.entry(KEY).await;
        let entry = entry.map_err(|error| error.to_string())?;
        Ok(match entry {
            None => Answer::Read {
                lease: None,
                revision: 0,
            },
            Some(entry) => Answer::Read {
                // A value that is no lease counts as none: it is replaced.
                lease: match entry.operation {
                    Operation::Put => serde_json::from_slice(&entry.value).ok(),
                    Operation::Delete | Operation::Purge => None,
                },
                revision: entry.revision,
            },
        })
    }

    /// Writes the lease if its revision is `expected`. It is published directly, because the client
    /// library's own way to create an entry with a lifetime drops the lifetime over a deletion
    /// marker.
    pub(super) async fn write(&self, lease: Lease, expected: u64) -> Answer {
        let Ok(value) = serde_json::to_vec(&lease) else {
            return Answer::Unavailable;
        };
        let mut headers = HeaderMap::new();
        headers.insert(NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
        headers.insert("Nats-TTL", LIFE);
        let subject = format!("$KV.{}.{KEY}", self.bucket);
        let write = async {
            let jetstream = self.storage.jetstream();
            let publish = jetstream.publish_with_headers(subject, headers, value.into());
            publish.await?.await
        };
        match tokio::time::timeout(TIMEOUT, write).await {
            Ok(Ok(ack)) => {
                self.repeated.borrow_mut().is_over();
                Answer::Written {
                    revision: ack.sequence,
                }
            }
            Ok(Err(error)) => match error.kind() {
                PublishErrorKind::WrongLastSequence => Answer::Conflict,
                // While the servers elect a leader for the bucket, a write finds no responder. A
                // read shows if the bucket exists at all.
                PublishErrorKind::StreamNotFound if self.is_clustered() => Answer::Unavailable,
                PublishErrorKind::StreamNotFound => {
                    tracing::warn!(
                        bucket = self.bucket,
                        "the lease's bucket is gone: made anew"
                    );
                    if let Err(error) = self.storage.make_bucket(Stored::Lease).await {
                        tracing::warn!(error, "the lease's bucket cannot be made");
                    }
                    Answer::Unavailable
                }
                _ => {
                    let said = self.repeated.borrow_mut().happened(Instant::now());
                    if let Some(unsaid) = said {
                        tracing::warn!(%error, unsaid, "the lease cannot be written");
                    }
                    Answer::Unavailable
                }
            },
            Err(_) => Answer::Unavailable,
        }
    }
}
