//! Tokens and logins in the cluster's bucket for them, and answered requests in another: all state
//! of the controllers.

use std::collections::BTreeMap;
use std::time::Duration;

use admin::Administrator;
use admin::calendar::now_ms;
use async_nats::jetstream;
use bus_schemas::Tenant;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use storage::{Storage, Stored};

use super::answers::{Answers, Kept, Key};
use super::bucket::{Bucket, failed};
use super::{Identity, Means, Operation, Role, Secret};
use crate::problem::Problem;

/// Lifetime of a link.
const LINK: Duration = Duration::from_secs(600);
/// Lifetime of a login.
pub(crate) const LOGIN: Duration = Duration::from_secs(12 * 3_600);
/// Maximum number of tokens.
const TOKENS: usize = 1_000;

/// Stored entry of a token or a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    /// Digest of the secret.
    pub(crate) digest: String,
    /// Its name, for display.
    pub(crate) name: String,
    /// Its role.
    pub(crate) role: Role,
    /// The tenant of a tenant-admin.
    #[serde(default)]
    pub(crate) tenant: Option<Tenant>,
    /// The operations to which it is narrowed.
    #[serde(default)]
    pub(crate) operations: Option<Vec<Operation>>,
    /// Creation time, milliseconds since 1970.
    pub(crate) created_ms: u64,
    /// Expiry, milliseconds since 1970.
    pub(crate) expires_ms: u64,
}

impl TokenRecord {
    /// Returns the identity if the secret matches and has not expired at `now`.
    fn identity(self, secret: &Secret, means: Means, now: u64) -> Option<Identity> {
        (secret.is(&self.digest) && now < self.expires_ms).then(|| Identity {
            id: secret.id.clone(),
            name: self.name,
            role: self.role,
            tenant: self.tenant,
            operations: self.operations,
            expires_ms: self.expires_ms,
            means,
            csrf: secret.csrf(),
        })
    }
}

/// The buckets of tokens, logins and answers.
#[derive(Clone)]
pub(crate) struct AccessStore {
    bucket: Bucket,
    answers: Answers,
}

/// Key of a token or a login in the bucket.
fn key(means: Means, id: &str) -> String {
    match means {
        Means::Token => format!("token.{id}"),
        Means::Cookie => format!("login.{id}"),
    }
}

impl AccessStore {
    /// Opens the buckets; creates those that do not exist.
    pub(crate) async fn open(administrator: &Administrator) -> Result<Self, Problem> {
        let patience = administrator.patience();
        let mut jetstream = jetstream::new(administrator.client().clone());
        jetstream.set_timeout(patience);
        let storage = Storage::new(jetstream.clone(), administrator.subjects());
        let store = storage.bucket(Stored::Control).await.map_err(failed)?;
        let bucket = Bucket::new(jetstream.clone(), store, patience);
        let answers = Answers::open(&storage, (&jetstream, patience), bucket.clone()).await?;
        Ok(Self { bucket, answers })
    }

    /// Creates a link that logs one browser in, once.
    pub(crate) async fn link(&self) -> Result<Secret, Problem> {
        let secret = Secret::random()?;
        self.bucket
            .write(&format!("link.{}", secret.id), &secret.digest(), 0, LINK)
            .await?;
        Ok(secret)
    }

    /// Consumes a link. Returns true if the link existed; of concurrent callers only one gets true.
    pub(crate) async fn redeem(&self, secret: &Secret) -> Result<bool, Problem> {
        let key = format!("link.{}", secret.id);
        let (kept, revision) = self.bucket.read::<String>(&key).await?;
        if !kept.is_some_and(|kept| secret.is(&kept)) {
            return Ok(false);
        }
        Ok(self.bucket.take(&key, revision).await)
    }

    /// Creates a login with the role of an operator. Returns the secret of its cookie.
    pub(crate) async fn log_in(&self, name: &str) -> Result<Secret, Problem> {
        let (secret, now) = (Secret::random()?, now_ms());
        let record = TokenRecord {
            digest: secret.digest(),
            name: name.into(),
            role: Role::Operator,
            tenant: None,
            operations: None,
            created_ms: now,
            expires_ms: now + LOGIN.as_millis() as u64,
        };
        self.bucket
            .write(&format!("login.{}", secret.id), &record, 0, LOGIN)
            .await?;
        Ok(secret)
    }

    /// Ends a login.
    pub(crate) async fn log_out(&self, secret: &Secret) -> Result<(), Problem> {
        self.bucket.delete(&format!("login.{}", secret.id)).await
    }

    /// Returns the identity that has this secret.
    pub(crate) async fn identity(
        &self,
        secret: &Secret,
        means: Means,
    ) -> Result<Option<Identity>, Problem> {
        let (record, _) = self
            .bucket
            .read::<TokenRecord>(&key(means, &secret.id))
            .await?;
        Ok(record.and_then(|record| record.identity(secret, means, now_ms())))
    }

    /// True if the token or login of this identity still exists and has not expired.
    pub(crate) async fn stands(&self, identity: &Identity) -> Result<bool, Problem> {
        let key = key(identity.means, &identity.id);
        let (record, _) = self.bucket.read::<TokenRecord>(&key).await?;
        Ok(record.is_some_and(|record| now_ms() < record.expires_ms))
    }

    /// Stores a new token.
    pub(crate) async fn add_token(
        &self,
        secret: &Secret,
        record: &TokenRecord,
    ) -> Result<(), Problem> {
        if self.tokens().await?.len() >= TOKENS {
            return Err(Problem::conflict(format!(
                "there are {TOKENS} tokens: remove some first"
            )));
        }
        let life = Duration::from_millis(record.expires_ms.saturating_sub(record.created_ms));
        self.bucket
            .write(&format!("token.{}", secret.id), record, 0, life)
            .await?;
        Ok(())
    }

    /// Writes an expiring value over any existing one.
    pub(crate) async fn renew(
        &self,
        key: &str,
        value: &impl Serialize,
        life: Duration,
    ) -> Result<(), Problem> {
        let (_, revision) = self.bucket.read::<serde_json::Value>(key).await?;
        self.bucket
            .write(key, value, revision, life)
            .await
            .map(drop)
    }

    /// Removes a value.
    pub(crate) async fn remove(&self, key: &str) -> Result<(), Problem> {
        self.bucket.delete(key).await
    }

    /// The values of all keys with this prefix, by the rest of the key.
    pub(crate) async fn under<T: DeserializeOwned>(
        &self,
        prefix: &str,
    ) -> Result<BTreeMap<String, T>, Problem> {
        let mut values = BTreeMap::new();
        for key in self.bucket.keys().await? {
            let Some(rest) = key.strip_prefix(prefix) else {
                continue;
            };
            // The value may have been removed since.
            let value = self.bucket.read(&key).await?.0;
            values.extend(value.map(|value| (rest.to_owned(), value)));
        }
        Ok(values)
    }

    /// All tokens by id.
    pub(crate) async fn tokens(&self) -> Result<BTreeMap<String, TokenRecord>, Problem> {
        self.under("token.").await
    }

    /// Removes a token. Returns true if it existed.
    pub(crate) async fn remove_token(&self, id: &str) -> Result<bool, Problem> {
        let key = format!("token.{id}");
        let (record, revision) = self.bucket.read::<TokenRecord>(&key).await?;
        if record.is_none() {
            return Ok(false);
        }
        Ok(self.bucket.take(&key, revision).await)
    }

    /// Begins a request with an idempotency key. Returns `None` if the key is new, else the stored
    /// entry.
    pub(crate) async fn begin(&self, key: &Key, request: &str) -> Result<Option<Kept>, Problem> {
        self.answers.begin(key, request).await
    }

    /// Stores the answer of a begun request. `None` removes the entry, so that the request can be
    /// retried.
    pub(crate) async fn answered(
        &self,
        key: &Key,
        request: &str,
        answer: Option<(u16, String)>,
    ) -> Result<(), Problem> {
        self.answers.answered(key, request, answer).await
    }
}
