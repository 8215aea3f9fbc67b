//! Answers to requests with an idempotency key, in a bucket of their own: each login has room for so many, and
//! none takes room of tokens and logins.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use actors::storage::Storage;
use actors::storage::Stored;
use async_nats::jetstream;
use futures_util::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use warploom_cli::calendar::now_ms;

use super::bucket::{Bucket, failed};
use super::digest;
use crate::problem::Problem;

/// How long a request with a key may be under way: its controller may have died meanwhile.
const UNDER_WAY: Duration = Duration::from_secs(120);
/// How long the answer to a request that was done is kept.
const DONE: Duration = Duration::from_secs(24 * 3_600);
/// How long a refusal is kept: nothing was done, and the same request may be allowed soon.
const REFUSED: Duration = Duration::from_secs(10);
/// Keys that are kept for one login: with the longest answers they take half of the bucket.
pub(crate) const KEYS: usize = 500;
/// How old a count of a login's keys may be.
const COUNTED_MS: u64 = 10_000;
/// Logins whose keys are counted.
const LOGINS: usize = 4_096;

/// The answer to a request that came with an idempotency key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Of the request: another one may not come with the same key.
    pub(crate) request: String,
    /// Status and body, once it is answered.
    pub(crate) answer: Option<(u16, String)>,
}

/// A request's key: of a login, and of the request as the login names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    /// The login, or the tenant that several belong to.
    pub(crate) owner: String,
    /// A digest of the login and the key.
    pub(crate) name: String,
}

impl Key {
    /// Before the keys of its owner.
    fn owner(&self) -> String {
        let digest = digest("owner", &self.owner);
        digest.chars().take(16).collect()
    }

    fn stored(&self) -> String {
        format!("{}.{}", self.owner(), self.name)
    }
}

/// Keys of logins, as they were counted last, and when.
type Counts = HashMap<String, (usize, u64)>;

/// The bucket of answers, and the one that they were kept in before.
#[derive(Clone)]
pub(super) struct Answers {
    bucket: Bucket,
    before: Bucket,
    counts: Arc<Mutex<Counts>>,
}

impl Answers {
    /// Opens it, or makes it.
    pub(super) async fn open(
        storage: &Storage,
        jetstream: &jetstream::Context,
        before: Bucket,
    ) -> Result<Self, Problem> {
        let store = storage.bucket(Stored::Answers).await.map_err(failed)?;
        Ok(Self {
            bucket: Bucket::new(jetstream.clone(), store),
            before,
            counts: Arc::default(),
        })
    }

    /// Begins a request: none where its key is new, else what is kept of it.
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
            // Controllers of before kept all keys beside tokens and logins.
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
            // Another controller has just begun it.
        }
    }

    /// Keeps the answer of a request that was begun; none forgets it, for it may be tried again.
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

    /// Whether a login may have one more key.
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
        // Beyond that a login is counted each time.
        if counts.len() < LOGINS || counts.contains_key(owner) {
            counts.insert(owner.to_owned(), (count, now));
        }
    }

    /// The keys of a login that are in the bucket.
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
