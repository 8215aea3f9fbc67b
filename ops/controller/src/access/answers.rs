//! Answers to requests with an idempotency key, in a bucket of their own. The number of keys per
//! login is bounded, and they take no room from tokens and logins.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use admin::calendar::now_ms;
use async_nats::jetstream;
use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use storage::Storage;
use storage::Stored;

use super::bucket::{Bucket, failed};
use super::digest;
use crate::problem::Problem;

/// Maximum time for which a request with a key counts as in progress: its controller may have died
/// meanwhile.
const UNDER_WAY: Duration = Duration::from_secs(120);
/// Retention of the answer to a request that was done.
const DONE: Duration = Duration::from_secs(24 * 3_600);
/// Retention of a refusal: nothing was done, and the same request may be allowed soon.
const REFUSED: Duration = Duration::from_secs(10);
/// Maximum number of keys per login; with the longest answers they take half of the bucket.
pub(crate) const KEYS: usize = 500;
/// Maximum age of the count of a login's keys, in milliseconds.
const COUNTED_MS: u64 = 10_000;
/// Maximum number of logins with a cached count of keys.
const LOGINS: usize = 4_096;

/// The answer to a request that came with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Digest of the request; a different request may not reuse the key.
    pub(crate) request: String,
    /// Status and body, once the request is answered.
    pub(crate) answer: Option<(u16, String)>,
}

/// Key of a request: its owner, and a name derived from the login and the idempotency key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// The login, or the tenant to which several tokens belong.
    pub(crate) owner: String,
    /// A digest of the login and the key.
    pub(crate) name: String,
}

impl Key {
    /// Prefix of all keys of the owner.
    fn owner(&self) -> String {
        let digest = digest("owner", &self.owner);
        digest.chars().take(16).collect()
    }

    fn stored(&self) -> String {
        format!("{}.{}", self.owner(), self.name)
    }
}

/// Last count of the keys of each login, and the time of the count.
type Counts = HashMap<String, (usize, u64)>;

/// The bucket of answers, and the bucket that held them in earlier builds.
#[derive(Clone)]
pub(super) struct Answers {
    bucket: Bucket,
    before: Bucket,
    counts: Arc<Mutex<Counts>>,
}

impl Answers {
    /// Opens the bucket; creates it if it does not exist.
    pub(super) async fn open(
        storage: &Storage,
        (jetstream, patience): (&jetstream::Context, Duration),
        before: Bucket,
    ) -> Result<Self, Problem> {
        let store = storage.bucket(Stored::Answers).await.map_err(failed)?;
        Ok(Self {
            bucket: Bucket::new(jetstream.clone(), store, patience),
            before,
            counts: Arc::default(),
        })
    }

    /// Begins a request. Returns `None` if its key is new, else the stored entry.
    pub(super) async fn begin(&self, key: &Key, request: &str) -> Result<Option<Kept>, Problem> {
        let kept = Kept {
            request: request.into(),
            answer: None,
        };
        let stored = key.stored();
        loop {
            let (found, revision) = self.bucket.read::<Kept>(&stored).await?;
            if found.is_some() {
                return Ok(found);
            }
            // Controllers of earlier builds kept all keys in the bucket of tokens and logins.
            let old = format!("once.{}", key.name);
            if let (Some(found), _) = self.before.read::<Kept>(&old).await? {
                return Ok(Some(found));
            }
            self.room(key).await?;
            let written = self.bucket.write(&stored, &kept, revision, UNDER_WAY);
            if written.await? {
                if let Some((count, _)) = self.counts().get_mut(&key.owner) {
                    *count += 1;
                }
                return Ok(None);
            }
            // Another controller has just begun this request.
        }
    }

    /// Stores the answer of a begun request. `None` removes the entry, so that the request can be
    /// retried.
    pub(super) async fn answered(
        &self,
        key: &Key,
        request: &str,
        answer: Option<(u16, String)>,
    ) -> Result<(), Problem> {
        let stored = key.stored();
        let (_, revision) = self.bucket.read::<Kept>(&stored).await?;
        let Some((status, _)) = answer else {
            return self.bucket.delete(&stored).await;
        };
        let life = match status {
            200..300 => DONE,
            _ => REFUSED,
        };
        let kept = Kept {
            request: request.into(),
            answer,
        };
        let written = self.bucket.write(&stored, &kept, revision, life);
        written.await.map(drop)
    }

    /// Checks that the login may have one more key.
    async fn room(&self, key: &Key) -> Result<(), Problem> {
        let now = now_ms();
        let known = self.counts().get(&key.owner).copied();
        let fresh = known.filter(|(_, at)| now.saturating_sub(*at) < COUNTED_MS);
        let count = match fresh {
            Some((count, _)) => count,
            None => {
                let count = self.count(&key.owner()).await?;
                self.keep(&key.owner, count, now);
                count
            }
        };
        match count < KEYS {
            true => Ok(()),
            false => Err(Problem::share(format!(
                "{KEYS} requests with an Idempotency-Key are kept for a day: wait, or send none"
            ))),
        }
    }

    fn keep(&self, owner: &str, count: usize, now: u64) {
        let mut counts = self.counts();
        if counts.len() >= LOGINS {
            counts.retain(|_, (_, at)| now.saturating_sub(*at) < COUNTED_MS);
        }
        // Above this bound a login is counted on each request.
        if counts.len() < LOGINS || counts.contains_key(owner) {
            counts.insert(owner.to_owned(), (count, now));
        }
    }

    /// Number of the login's keys in the bucket.
    async fn count(&self, owner: &str) -> Result<usize, Problem> {
        let store = self.bucket.store();
        let filter = format!("$KV.{}.{owner}.*", store.name);
        let listed = store.stream.info_with_subjects(filter).await;
        let listed = listed.map_err(failed)?;
        let subjects: Vec<(String, usize)> = listed.try_collect().await.map_err(failed)?;
        Ok(subjects.len())
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
