//! Tokens and logins, in the cluster's bucket for them, and answered requests in theirs: all that controllers
//! know.

use std::collections::BTreeMap;
use std::time::Duration;

use actors::storage::{Storage, Stored};
use async_nats::jetstream;
use bus_schemas::Tenant;
use futures_util::TryStreamExt as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use warploom_cli::admin::Administrator;
use warploom_cli::calendar::now_ms;

use super::answers::{Answers, Kept, Key};
use super::bucket::{Bucket, failed};
use super::{Identity, Means, Operation, Role, Secret};
use crate::problem::Problem;

/// How long a link may be used.
const LINK: Duration = Duration::from_secs(600);
/// How long a login lasts.
pub(crate) const LOGIN: Duration = Duration::from_secs(12 * 3_600);
/// Tokens there may be.
const TOKENS: usize = 1_000;

/// What is kept of a token or a login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TokenRecord {
    /// Of the secret.
    pub(crate) digest: String,
    /// Its name, for people.
    pub(crate) name: String,
    /// Its role.
    pub(crate) role: Role,
    /// The tenant of a tenant-admin.
    #[serde(default)]
    pub(crate) tenant: Option<Tenant>,
    /// The operations that it is narrowed to.
    #[serde(default)]
    pub(crate) operations: Option<Vec<Operation>>,
    /// When it was made, milliseconds since 1970.
    pub(crate) created_ms: u64,
    /// When it ends.
    pub(crate) expires_ms: u64,
}

impl TokenRecord {
    /// Who has its secret, at that moment.
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

/// The buckets.
#[derive(Clone)]
pub(crate) struct AccessStore {
    bucket: Bucket,
    answers: Answers,
}

/// Where a token or a login is kept.
fn key(means: Means, id: &str) -> String {
    match means {
        Means::Token => format!("token.{id}"),
        Means::Cookie => format!("login.{id}"),
    }
}

impl AccessStore {
    /// Opens it, or makes it.
    pub(crate) async fn open(administrator: &Administrator) -> Result<Self, Problem> {
        let mut jetstream = jetstream::new(administrator.client().clone());
        jetstream.set_timeout(administrator.patience());
        let storage = Storage::new(jetstream.clone(), administrator.subjects());
        let store = storage.bucket(Stored::Control).await.map_err(failed)?;
        let bucket = Bucket::new(jetstream.clone(), store);
        let answers = Answers::open(&storage, &jetstream, bucket.clone()).await?;
        Ok(Self { bucket, answers })
    }

    /// A link that logs one browser in, once.
    pub(crate) async fn link(&self) -> Result<Secret, Problem> {
        let secret = Secret::random()?;
        self.bucket
            .write(&format!("link.{}", secret.id), &secret.digest(), 0, LINK)
            .await?;
        Ok(secret)
    }

    /// Uses a link up; whether it was there. Of several that try it at once one does it.
    pub(crate) async fn redeem(&self, secret: &Secret) -> Result<bool, Problem> {
        let key = format!("link.{}", secret.id);
        let (kept, revision) = self.bucket.read::<String>(&key).await?;
        if !kept.is_some_and(|kept| secret.is(&kept)) {
            return Ok(false);
        }
        Ok(self.bucket.take(&key, revision).await)
    }

    /// Logs somebody in as an operator; gives the cookie's secret.
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

    /// Who has this secret.
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

    /// Whether a token or login is still there as somebody has shown it.
    pub(crate) async fn stands(&self, identity: &Identity) -> Result<bool, Problem> {
        let key = key(identity.means, &identity.id);
        let (record, _) = self.bucket.read::<TokenRecord>(&key).await?;
        Ok(record.is_some_and(|record| now_ms() < record.expires_ms))
    }

    /// Keeps a new token.
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

    /// Writes a value that goes by itself, over whatever is there.
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

    /// The values of all keys that begin like this, by the rest of the key.
    pub(crate) async fn under<T: DeserializeOwned>(
        &self,
        prefix: &str,
    ) -> Result<BTreeMap<String, T>, Problem> {
        let keys = self.bucket.store().keys().await.map_err(failed)?;
        let keys: Vec<String> = keys.try_collect().await.map_err(failed)?;
        let mut values = BTreeMap::new();
        for key in keys {
            let Some(rest) = key.strip_prefix(prefix) else {
                continue;
            };
            // It may have gone since.
            let value = self.bucket.read(&key).await?.0;
            values.extend(value.map(|value| (rest.to_owned(), value)));
        }
        Ok(values)
    }

    /// All tokens by id.
    pub(crate) async fn tokens(&self) -> Result<BTreeMap<String, TokenRecord>, Problem> {
        self.under("token.").await
    }

    /// Removes a token; whether there was one.
    pub(crate) async fn remove_token(&self, id: &str) -> Result<bool, Problem> {
        let key = format!("token.{id}");
        let (record, revision) = self.bucket.read::<TokenRecord>(&key).await?;
        if record.is_none() {
            return Ok(false);
        }
        Ok(self.bucket.take(&key, revision).await)
    }

    /// Begins a request that came with an idempotency key: none where it is new, else what is kept of it.
    pub(crate) async fn begin(&self, key: &Key, request: &str) -> Result<Option<Kept>, Problem> {
        self.answers.begin(key, request).await
    }

    /// Keeps the answer of a request that was begun; none forgets it, for it may be tried again.
    pub(crate) async fn answered(
        &self,
        key: &Key,
        request: &str,
        answer: Option<(u16, String)>,
    ) -> Result<(), Problem> {
        self.answers.answered(key, request, answer).await
    }
}
