//! The state bucket: tenants, the cluster's settings and the pinned profile.

use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream::kv::{Entry, Operation, Store};
use bus_schemas::ClusterSettings;
use bytes::Bytes;
use storage::{Storage, Stored};

use super::retries::{Failed, again};
use super::{Administrator, entries};

/// Timeout of the first request for the bucket; doubled with each retry.
const ANSWER: Duration = Duration::from_secs(5);

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
        entries::read(&self.bucket().await?, key, self.patience()).await
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
        let store = self.bucket().await?;
        entries::put(&store, key, value.into(), self.patience()).await
    }

    /// Replaces the entry of revision `over`; 0 means that there is none. Returns the new revision,
    /// or `None` if the entry has changed since.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub(crate) async fn replace(
        &self,
        key: &str,
        value: Vec<u8>,
        over: u64,
    ) -> Result<Option<u64>> {
        let store = self.bucket().await?;
        entries::replace(&store, key, value.into(), over, self.patience()).await
    }

    /// Removes an entry.
    ///
    /// # Errors
    /// As [`Self::put`].
    pub(crate) async fn remove(&self, key: &str) -> Result<()> {
        entries::remove(&self.bucket().await?, key, self.patience()).await
    }
}
