//! Entries of a bucket. Servers that elect a leader drop requests silently, so each request is made
//! again until the patience ends.

use std::error::Error;
use std::time::Duration;

use anyhow::Result;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::kv::{
    Entry, EntryErrorKind, Operation, Store, UpdateError, UpdateErrorKind,
};
use bytes::Bytes;
use futures_util::TryStreamExt;
use tokio::time::timeout;

use super::retries::{Failed, again};

/// Timeout of the first read of an entry; doubled with each retry.
const READ: Duration = Duration::from_secs(2);

/// Timeout of the first write of an entry; doubled with each retry.
const STORED: Duration = Duration::from_secs(2);

/// Reads an entry; `None` if it does not exist.
///
/// # Errors
/// [`crate::errors::Unreachable`] if the broker does not answer within the patience.
pub async fn read(store: &Store, key: &str, patience: Duration) -> Result<Option<Entry>> {
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
    again(patience, READ, read).await
}

/// Lists the keys of all values.
///
/// # Errors
/// As [`read`].
pub async fn keys(store: &Store, patience: Duration) -> Result<Vec<String>> {
    let list = |wait| async move {
        let listed = async {
            let keys = store.keys().await.map_err(|error| error.to_string())?;
            let keys = keys.try_collect::<Vec<String>>().await;
            keys.map_err(|error| error.to_string())
        };
        let why = match timeout(wait, listed).await {
            Ok(Ok(keys)) => return Ok(keys),
            Ok(Err(why)) => why,
            Err(_) => "timed out".to_owned(),
        };
        Err(Failed::Unanswered(format!(
            "the broker does not list the keys of {} ({why})",
            store.name
        )))
    };
    again(patience, READ, list).await
}

/// Puts an entry. Putting the same entry twice has the same effect as once.
///
/// # Errors
/// [`crate::errors::Unreachable`] if the broker does not confirm within the patience that the entry is stored;
/// the broker's reason if it refuses.
pub(super) async fn put(store: &Store, key: &str, value: Bytes, patience: Duration) -> Result<()> {
    let put = |wait| {
        let value = value.clone();
        async move {
            match timeout(wait, store.put(key, value)).await {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) if !unanswered(&error) => Err(Failed::Refused(error.into())),
                Err(_) | Ok(Err(_)) => Err(not_stored(patience)),
            }
        }
    };
    again(patience, STORED, put).await
}

/// Replaces the entry of revision `over`; 0 means that there is none. Returns the new revision, or
/// `None` if the entry has another revision. If an answer is lost, the same value in a later
/// revision counts as written.
///
/// # Errors
/// As [`put`].
pub(super) async fn replace(
    store: &Store,
    key: &str,
    value: Bytes,
    over: u64,
    patience: Duration,
) -> Result<Option<u64>> {
    let mut asked = false;
    let replace = |wait| {
        let (repeated, value) = (std::mem::replace(&mut asked, true), value.clone());
        async move {
            match timeout(wait, store.update(key, value.clone(), over)).await {
                Ok(Ok(revision)) => Ok(Some(revision)),
                Ok(Err(error)) if error.kind() == UpdateErrorKind::WrongLastRevision => {
                    match repeated {
                        true => written(store, key, &value, over, wait).await,
                        false => Ok(None),
                    }
                }
                Ok(Err(error)) if !lost(&error) => Err(Failed::Refused(error.into())),
                Err(_) | Ok(Err(_)) => Err(not_stored(patience)),
            }
        }
    };
    again(patience, STORED, replace).await
}

/// The revision after `over` that has this value: an earlier attempt wrote it. `None` if the entry
/// has another value.
async fn written(
    store: &Store,
    key: &str,
    value: &Bytes,
    over: u64,
    wait: Duration,
) -> Result<Option<u64>, Failed> {
    let Ok(Ok(entry)) = timeout(wait, store.entry(key)).await else {
        let why = format!("the broker does not answer where {key} is asked for");
        return Err(Failed::Unanswered(why));
    };
    let own = |entry: &Entry| {
        entry.operation == Operation::Put && entry.revision > over && entry.value == *value
    };
    Ok(entry.filter(own).map(|entry| entry.revision))
}

/// Removes an entry. Removing it twice has the same effect as once.
///
/// # Errors
/// As [`put`].
pub async fn remove(store: &Store, key: &str, patience: Duration) -> Result<()> {
    let remove = |wait| async move {
        match timeout(wait, store.delete(key)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if !lost(&error) => Err(Failed::Refused(error.into())),
            Err(_) | Ok(Err(_)) => Err(not_stored(patience)),
        }
    };
    again(patience, STORED, remove).await
}

fn not_stored(patience: Duration) -> Failed {
    Failed::Unanswered(format!(
        "the broker has not stored it in {patience:?}: its disk may be full, or too few of its servers run"
    ))
}

/// True if the store has no leader at the moment, or if its answer was lost.
fn unanswered(error: &(dyn Error + 'static)) -> bool {
    let source = error.source();
    let source = source.and_then(|source| source.downcast_ref::<PublishError>());
    source.is_some_and(|error| {
        let kind = error.kind();
        kind == PublishErrorKind::TimedOut || kind == PublishErrorKind::StreamNotFound
    })
}

/// As [`unanswered`], of a replacement or a removal.
fn lost(error: &UpdateError) -> bool {
    error.kind() == UpdateErrorKind::TimedOut || unanswered(error)
}

#[cfg(test)]
mod tests {
    use test_cluster::TestBroker;

    use super::*;
    use crate::Administrator;

    const SOON: Duration = Duration::from_secs(60);

    async fn store(broker: &TestBroker) -> Store {
        let administrator = Administrator::patient(broker.credentials(), SOON).await;
        let administrator = administrator.expect("it answers");
        administrator.bucket().await.expect("a bucket")
    }

    #[tokio::test]
    async fn a_replacement_is_made_over_its_revision_alone() {
        let broker = TestBroker::start();
        let store = store(&broker).await;
        let (one, other) = (Bytes::from_static(b"1"), Bytes::from_static(b"2"));
        let made = replace(&store, "a", one.clone(), 0, SOON).await;
        let made = made.expect("written").expect("it is new");
        let late = replace(&store, "a", one.clone(), 0, SOON).await;
        assert_eq!(late.expect("answered"), None);
        // As where the answer to an earlier attempt was lost.
        let own = written(&store, "a", &one, 0, SOON).await;
        assert_eq!(own.ok(), Some(Some(made)));
        let own = written(&store, "a", &one, made, SOON).await;
        assert_eq!(own.ok(), Some(None), "nothing was written since");
        let own = written(&store, "a", &other, 0, SOON).await;
        assert_eq!(own.ok(), Some(None), "another value");
        assert_eq!(keys(&store, SOON).await.expect("listed"), ["a"]);
        remove(&store, "a", SOON).await.expect("removed");
        let gone = written(&store, "a", &Bytes::new(), 0, SOON).await;
        assert_eq!(gone.ok(), Some(None));
    }

    #[tokio::test]
    async fn a_request_outlasts_a_broker_that_stands_still() {
        let broker = TestBroker::start();
        let store = store(&broker).await;
        put(&store, "a", Bytes::from_static(b"1"), SOON)
            .await
            .expect("written");
        let server = &broker.servers()[0];
        server.pause().expect("it stands still");
        let resume = async {
            // Longer than a first attempt.
            tokio::time::sleep(READ + Duration::from_millis(500)).await;
            server.resume().expect("it goes on");
        };
        let (entry, removed, ()) =
            tokio::join!(read(&store, "a", SOON), remove(&store, "b", SOON), resume);
        assert_eq!(&entry.expect("read").expect("it is there").value[..], b"1");
        removed.expect("removed");
    }
}
