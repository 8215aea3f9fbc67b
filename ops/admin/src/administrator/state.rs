//! The state bucket: tenants, the cluster's settings and the pinned profile.

use std::error::Error;
use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::kv::{Entry, EntryErrorKind, Operation, PutError, Store};
use bus_schemas::ClusterSettings;
use bytes::Bytes;
use storage::{Storage, Stored};
use tokio::time::timeout;

use super::Administrator;
use super::retries::{Failed, again};

/// Timeout of the first request for the bucket; doubled with each retry.
const ANSWER: Duration = Duration::from_secs(5);

/// Timeout of the first read of an entry; doubled with each retry.
const READ: Duration = Duration::from_secs(2);

/// Timeout of the first write of an entry; doubled with each retry.
const STORED: Duration = Duration::from_secs(2);

impl Administrator {
    /// The bucket of tenants, settings and other state.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] if the broker does not answer.
    pub async fn state_bucket(&self) -> Result<Store> {
        self.bucket().await
    }

    /// Opens the bucket. Servers that elect a leader drop requests silently, so it retries until
    /// the patience ends.
    pub(crate) async fn bucket(&self) -> Result<Store> {
        let ask = |wait| {
            let mut jetstream = self.jetstream();
            jetstream.set_timeout(wait);
            let storage = Storage::new(jetstream, self.subjects());
            async move {
                storage.bucket(Stored::State).await.map_err(|error| {
                    Failed::Unanswered(format!("the broker's JetStream does not answer ({error})"))
                })
            }
        };
        again(self.patience(), ANSWER, ask).await
    }

    /// Reads an entry of the bucket; `None` if it does not exist. Servers that elect a leader drop
    /// requests silently, so it retries until the patience ends.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] if the broker does not answer.
    pub(crate) async fn entry(&self, key: &str) -> Result<Option<Entry>> {
        let store = self.bucket().await?;
        let store = &store;
        let read = |wait| async move {
            match timeout(wait, store.entry(key)).await {
                Ok(Ok(entry)) => Ok(entry),
                Ok(Err(error)) if error.kind() == EntryErrorKind::InvalidKey => {
                    Err(Failed::Refused(error.into()))
                }
                Ok(Err(error)) => Err(Failed::Unanswered(format!(
                    "the broker does not hand out {key} ({error})"
                ))),
                Err(_) => Err(Failed::Unanswered(format!(
                    "the broker does not answer where {key} is asked for"
                ))),
            }
        };
        again(self.patience(), READ, read).await
    }

    /// The value of an entry, as by [`Self::entry`]; `None` if it was deleted.
    pub(crate) async fn value(&self, key: &str) -> Result<Option<Bytes>> {
        let entry = self.entry(key).await?;
        Ok(entry
            .filter(|entry| entry.operation == Operation::Put)
            .map(|entry| entry.value))
    }

    /// Writes all of the cluster's settings.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub async fn set_cluster(&self, settings: &ClusterSettings) -> Result<()> {
        let value = serde_json::to_vec(settings)?;
        let written = self.put("settings", value).await;
        written.context("writing the settings")
    }

    /// Puts an entry. A deposed server drops requests silently, so the put is retried until the
    /// patience ends. Putting the same entry twice has the same effect as once.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] if the broker does not confirm within the patience that the entry is stored;
    /// the broker's reason if it refuses.
    pub(crate) async fn put(&self, key: &str, value: Vec<u8>) -> Result<()> {
        let (store, value) = (self.bucket().await?, Bytes::from(value));
        let (store, patience) = (&store, self.patience());
        let put = |wait| {
            let value = value.clone();
            async move {
                match timeout(wait, store.put(key, value)).await {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) if !unanswered(&error) => Err(Failed::Refused(error.into())),
                    Err(_) | Ok(Err(_)) => Err(Failed::Unanswered(format!(
                        "the broker has not stored it in {patience:?}: its disk may be full, or too few of its servers run"
                    ))),
                }
            }
        };
        again(patience, STORED, put).await
    }
}

/// True if the store has no leader at the moment, or if its answer was lost.
fn unanswered(error: &PutError) -> bool {
    let source = error.source();
    let source = source.and_then(|source| source.downcast_ref::<PublishError>());
    source.is_some_and(|error| {
        let kind = error.kind();
        kind == PublishErrorKind::TimedOut || kind == PublishErrorKind::StreamNotFound
    })
}
