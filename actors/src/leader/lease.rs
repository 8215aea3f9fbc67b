//! The lease in JetStream KV, written by compare-and-set and expiring by itself.

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
use crate::storage::{Storage, Stored};

/// The entry's key.
const KEY: &str = "leader";
/// How long the entry lives without being renewed.
const LIFE: &str = "2s";
/// How long the store may take to answer.
const TIMEOUT: Duration = Duration::from_secs(1);

/// What became of a lease operation.
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
    /// The bucket, once it was found: asking for it needs servers that reading does not.
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

    /// Whether it is kept by several servers, which choose anew who answers for it when one dies.
    pub(super) fn is_clustered(&self) -> bool {
        self.storage.is_clustered()
    }

    /// Reads the lease. A bucket that is not there is made.
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
                // Anything but a lease is as good as none: it is replaced.
                lease: match entry.operation {
                    Operation::Put => serde_json::from_slice(&entry.value).ok(),
                    Operation::Delete | Operation::Purge => None,
                },
                revision: entry.revision,
            },
        })
    }

    /// Writes the lease if its revision is `expected`. Published directly: the client library's
    /// own way to create an entry with a lifetime drops the lifetime over a deletion's marker.
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
                // While its servers choose who answers for it, nobody listens where it is written.
                // Whether it is there at all is seen when it is read.
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
