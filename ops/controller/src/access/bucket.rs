//! A bucket with values that expire.

use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::kv::{Operation as Written, Store};
use async_nats::jetstream::message::PublishMessage;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::problem::Problem;

/// The problem of a broker that does not answer.
pub(super) fn failed(error: impl std::fmt::Display) -> Problem {
    let why = format!("the broker does not answer for tokens and logins ({error})");
    anyhow::anyhow!(admin::errors::Unreachable(why)).into()
}

/// A bucket, and the connection over which expiring values are written.
#[derive(Clone)]
pub(super) struct Bucket {
    jetstream: jetstream::Context,
    store: Store,
}

impl Bucket {
    pub(super) fn new(jetstream: jetstream::Context, store: Store) -> Self {
        Self { jetstream, store }
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    /// Writes an expiring value over the given revision; revision 0 means that no value exists.
    /// Returns true if the revision matched.
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
        let Some(entry) = self.store.entry(key).await.map_err(failed)? else {
            return Ok((None, 0));
        };
        let value =
            (entry.operation == Written::Put).then(|| serde_json::from_slice(&entry.value).ok());
        Ok((value.flatten(), entry.revision))
    }

    /// Removes a value.
    pub(super) async fn delete(&self, key: &str) -> Result<(), Problem> {
        self.store.delete(key).await.map_err(failed)
    }

    /// Removes the value of the given revision. Returns true if it existed.
    pub(super) async fn take(&self, key: &str, revision: u64) -> bool {
        let taken = self.store.delete_expect_revision(key, Some(revision));
        taken.await.is_ok()
    }
}
