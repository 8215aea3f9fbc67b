//! A bucket with values that expire.

use std::time::Duration;

use admin::entries;
use admin::errors::Unreachable;
use async_nats::jetstream;
use async_nats::jetstream::kv::{Operation as Written, Store};
use async_nats::jetstream::message::PublishMessage;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The problem of a broker that does not answer.
pub(super) fn failed(error: impl std::fmt::Display) -> Problem {
    let why = format!("the broker does not answer for tokens and logins ({error})");
    anyhow::anyhow!(Unreachable(why)).into()
}

/// The problem of a broker that was asked again and again.
fn unanswered(error: anyhow::Error) -> Problem {
    match error.downcast::<Unreachable>() {
        // The problem has the code.
        Ok(Unreachable(why)) => failed(why),
        Err(error) => failed(error),
    }
}

/// A bucket, and the connection over which expiring values are written.
#[derive(Clone)]
pub(super) struct Bucket {
    jetstream: jetstream::Context,
    store: Store,
    /// Time for which an unanswered read or removal is repeated.
    patience: Duration,
}

impl Bucket {
    pub(super) fn new(jetstream: jetstream::Context, store: Store, patience: Duration) -> Self {
        Self {
            jetstream,
            store,
            patience,
        }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Writes an expiring value over the given revision; revision 0 means that no value exists.
    /// Returns true if the revision matched. It is written once: two controllers may write the same
    /// value at the same time, and only one of them may go on.
    pub(super) async fn write(
        &self,
        key: &str,
        value: &impl Serialize,
        over: u64,
        life: Duration,
    ) -> Result<bool, Problem> {
        let value =
            serde_json::to_vec(value).map_err(|error| Problem::internal(error.to_string()))?;
        let message = PublishMessage::build()
            .payload(value.into())
            .expected_last_subject_sequence(over)
            .ttl(life);
        let subject = format!("$KV.{}.{key}", self.store.name);
        let sent = self.jetstream.send_publish(subject, message);
        match sent.await.map_err(failed)?.await {
            Ok(_) => Ok(true),
            Err(error)
                if error.kind() == jetstream::context::PublishErrorKind::WrongLastSequence =>
            {
                Ok(false)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Returns a value and its revision. Without a value, the revision is the one that a new value
    /// must replace.
    pub(super) async fn read<T: DeserializeOwned>(
        &self,
        key: &str,
    ) -> Result<(Option<T>, u64), Problem> {
        let entry = entries::read(&self.store, key, self.patience).await;
        let Some(entry) = entry.map_err(unanswered)? else {
            return Ok((None, 0));
        };
        let value =
            (entry.operation == Written::Put).then(|| serde_json::from_slice(&entry.value).ok());
        Ok((value.flatten(), entry.revision))
    }

    /// Removes a value.
    pub(super) async fn delete(&self, key: &str) -> Result<(), Problem> {
        let removed = entries::remove(&self.store, key, self.patience).await;
        removed.map_err(unanswered)
    }

    /// Returns the keys of all values.
    pub(super) async fn keys(&self) -> Result<Vec<String>, Problem> {
        let keys = entries::keys(&self.store, self.patience).await;
        keys.map_err(unanswered)
    }

    /// Removes the value of the given revision. Returns true if it existed.
    pub(super) async fn take(&self, key: &str, revision: u64) -> bool {
        let taken = self.store.delete_expect_revision(key, Some(revision));
        taken.await.is_ok()
    }
}
