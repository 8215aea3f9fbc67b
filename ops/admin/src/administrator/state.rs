//! The state bucket: tenants, the cluster's settings and the pinned profile.

use std::error::Error;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::kv::{Entry, EntryErrorKind, Operation, PutError, Store};
use bus_schemas::ClusterSettings;
use bytes::Bytes;
use storage::{Storage, Stored};
use tokio::time::{Instant, timeout};

use super::Administrator;
use crate::errors::Unreachable;

/// Timeout of the first request for the bucket; doubled with each retry.
const ANSWER: Duration = Duration::from_secs(5);

/// Timeout of the first read of an entry; doubled with each retry.
const READ: Duration = Duration::from_secs(2);

/// Timeout of the first write of an entry; doubled with each retry.
const STORED: Duration = Duration::from_secs(2);

/// The pause before a retry of a write.
const PAUSE: Duration = Duration::from_millis(50);

impl Administrator {
    /// The bucket of tenants, settings and other state.
    ///
    /// # Errors
    /// [`Unreachable`] if the broker does not answer.
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
    /// [`Unreachable`] if the broker does not answer.
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
    /// [`Unreachable`] if the broker does not confirm within the patience that the entry is stored;
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

/// The outcome of a failed attempt.
enum Failed {
    /// No answer came; the text says so to a user.
    Unanswered(String),
    /// The broker refused; another attempt would change nothing.
    Refused(anyhow::Error),
}

/// Retries until an attempt succeeds or is refused, or the patience ends. The timeout of an attempt
/// is `first`, and doubles after each one that timed out, so that a slow broker is heard, too.
async fn again<T, F: Future<Output = Result<T, Failed>>>(
    patience: Duration,
    first: Duration,
    mut attempt: impl FnMut(Duration) -> F,
) -> Result<T> {
    let (begun, mut wait) = (Instant::now(), first);
    loop {
        let before = begun.elapsed();
        let failed = match attempt(wait.min(patience.saturating_sub(before))).await {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        match failed {
            Failed::Refused(error) => return Err(error),
            Failed::Unanswered(why) if begun.elapsed() >= patience => bail!(Unreachable(why)),
            // The broker itself may say at once that the store has no leader yet.
            Failed::Unanswered(_) if begun.elapsed() - before >= wait => wait *= 2,
            Failed::Unanswered(_) => {}
        }
        tokio::time::sleep(PAUSE).await;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Timeouts of the attempts until `failing` of them have failed, each after `spent` or its own
    /// timeout.
    async fn waits(patience: u64, failing: usize, spent: Duration) -> (Vec<u64>, Result<()>) {
        let mut waits = Vec::new();
        let ended = again(Duration::from_secs(patience), STORED, |wait| {
            waits.push(wait.as_secs());
            let fails = waits.len() <= failing;
            async move {
                if !fails {
                    return Ok(());
                }
                tokio::time::sleep(wait.min(spent)).await;
                Err(Failed::Unanswered("no answer".into()))
            }
        });
        let ended = ended.await;
        (waits, ended)
    }

    #[tokio::test(start_paused = true)]
    async fn what_nothing_answers_is_attempted_again_with_more_time() {
        let (waits, ended) = waits(60, 3, Duration::MAX).await;
        assert_eq!(waits, [2, 4, 8, 16]);
        ended.expect("answered in the end");
    }

    #[tokio::test(start_paused = true)]
    async fn the_patience_ends() {
        let begun = Instant::now();
        let (waits, ended) = waits(10, 9, Duration::MAX).await;
        assert_eq!(waits, [2, 4, 3], "the last has what is left");
        assert!(ended.is_err_and(|error| error.is::<Unreachable>()));
        assert_eq!(begun.elapsed().as_secs(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_that_fail_at_once_end_no_patience() {
        let (waits, ended) = waits(60, 100, Duration::ZERO).await;
        assert_eq!((waits.len(), waits[100]), (101, 2));
        ended.expect("done in the end");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_refused_is_not_attempted_again() {
        let mut attempts = 0;
        let patience = Duration::from_secs(60);
        let ended = again(patience, STORED, |_| {
            attempts += 1;
            async { Err::<(), _>(Failed::Refused(anyhow::anyhow!("the entry is too large"))) }
        });
        assert!(ended.await.is_err());
        assert_eq!(attempts, 1);
    }
}
