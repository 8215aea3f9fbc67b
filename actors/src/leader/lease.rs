//! The lease in JetStream KV, written by compare-and-set and expiring by itself.

use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE;
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::kv::{self, Operation, Store};
use async_nats::jetstream::{Context, stream::StorageType};
use bus_schemas::subject::Subjects;
use scheduler_leader_core::Lease;

/// The entry's key.
const KEY: &str = "leader";
/// How long the entry lives without being renewed.
const LIFE: &str = "2s";
/// How long the marker of an expired entry stays.
const MARKER: Duration = Duration::from_secs(10);
/// How long the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

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
    jetstream: Context,
    bucket: String,
}

impl LeaseStore {
    pub(super) fn new(mut jetstream: Context, subjects: &Subjects) -> Self {
        jetstream.set_timeout(PATIENCE);
        Self {
            jetstream,
            bucket: subjects.lease_bucket(),
        }
    }

    /// Reads the lease. A bucket that is not there is made.
    pub(super) async fn read(&self) -> Answer {
        match tokio::time::timeout(PATIENCE, self.try_read()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                tracing::debug!(error, "the lease cannot be read");
                Answer::Unavailable
            }
            Err(_) => Answer::Unavailable,
        }
    }

    async fn try_read(&self) -> Result<Answer, String> {
        let store = self.store().await?;
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

    async fn store(&self) -> Result<Store, String> {
        if let Ok(store) = self.jetstream.get_key_value(&self.bucket).await {
            return Ok(store);
        }
        self.create().await
    }

    async fn create(&self) -> Result<Store, String> {
        let config = kv::Config {
            bucket: self.bucket.clone(),
            history: 1,
            // A restart of the broker must not let epochs start over.
            storage: StorageType::File,
            limit_markers: Some(MARKER),
            ..kv::Config::default()
        };
        let created = self.jetstream.create_key_value(config).await;
        created.map_err(|error| error.to_string())
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
            let publish = self
                .jetstream
                .publish_with_headers(subject, headers, value.into());
            publish.await?.await
        };
        match tokio::time::timeout(PATIENCE, write).await {
            Ok(Ok(ack)) => Answer::Written {
                revision: ack.sequence,
            },
            Ok(Err(error)) => match error.kind() {
                PublishErrorKind::WrongLastSequence => Answer::Conflict,
                PublishErrorKind::StreamNotFound => {
                    tracing::warn!(
                        bucket = self.bucket,
                        "the lease's bucket is gone: made anew"
                    );
                    if let Err(error) = self.create().await {
                        tracing::warn!(error, "the lease's bucket cannot be made");
                    }
                    Answer::Unavailable
                }
                _ => {
                    tracing::warn!(%error, "the lease cannot be written");
                    Answer::Unavailable
                }
            },
            Err(_) => Answer::Unavailable,
        }
    }
}
