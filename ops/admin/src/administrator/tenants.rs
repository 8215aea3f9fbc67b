//! Tenants: sets, suspends and removes them. Also gives them new logins, if the broker is local.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use async_nats::jetstream::kv::Operation;
use broker::Broker;
use bus_schemas::{SessionId, Tenant, TenantSettings};
use futures_util::TryStreamExt;
use serde::Serialize;

use super::Administrator;
use super::retries::Pauses;
use super::sessions::SessionFilter;
use crate::errors::{ErrorCode, Unreachable, UsageError};
use crate::tenant_settings::check;

/// Attempts at a change that conflicts with other changes.
const TRIES: u32 = 8;
/// Number of sessions of a tenant that are ended at the same time.
const TOGETHER: usize = 64;

/// The outcome of a change of a tenant.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TenantChange {
    /// The settings after the change.
    pub settings: TenantSettings,
    /// True if a leader applies the settings; if no leader answers, the next one will.
    pub applied: bool,
}

/// The outcome of a tenant's removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RemovedTenant {
    /// Number of its sessions that were ended.
    pub ended: usize,
    /// True if its login was removed; false if the broker is not local or the tenant had no login.
    pub login: bool,
}

/// A tenant's new login.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RenewedLogin {
    /// Its user name, as before.
    pub user: String,
    /// The file with the new password.
    pub credentials: PathBuf,
}

fn unknown(tenant: &Tenant) -> anyhow::Error {
    UsageError(format!(
        "there is no tenant {tenant}: `warploom tenant list` names them"
    ))
    .into()
}

fn key(tenant: &Tenant) -> String {
    format!("tenant.{tenant}")
}

impl Administrator {
    /// Refuses an unknown tenant.
    ///
    /// # Errors
    /// [`UsageError`] if it does not exist; an error if the store does not answer.
    pub async fn known(&self, tenant: &Tenant) -> Result<()> {
        match self.tenant(tenant).await? {
            Some(_) => Ok(()),
            None => Err(unknown(tenant)),
        }
    }

    /// Writes a tenant's settings; the leader reads and records them.
    ///
    /// # Errors
    /// [`UsageError`] if the settings are invalid, [`Unreachable`] without a broker.
    pub async fn set_tenant(&self, tenant: &Tenant, settings: &TenantSettings) -> Result<()> {
        check(settings)?;
        let value = serde_json::to_vec(settings)?;
        self.put(&key(tenant), value)
            .await
            .context("writing the tenant")
    }

    /// Replaces a tenant's settings at a revision of its entry; revision 0 means no entry. Returns
    /// the new revision, or `None` if the entry has changed since.
    ///
    /// # Errors
    /// As [`Self::set_tenant`].
    pub async fn replace_tenant(
        &self,
        tenant: &Tenant,
        settings: &TenantSettings,
        over: u64,
    ) -> Result<Option<u64>> {
        check(settings)?;
        let value = serde_json::to_vec(settings)?;
        let replaced = self.replace(&key(tenant), value, over).await;
        replaced.context("writing the tenant")
    }

    /// Waits until the leader applies these settings of a tenant.
    ///
    /// # Errors
    /// [`Unreachable`] when no leader does within `patience`.
    pub async fn tenant_applies(
        &self,
        tenant: &Tenant,
        settings: &TenantSettings,
        patience: Duration,
    ) -> Result<()> {
        let (asked, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let status = self.status(patience).await?;
            let mut known = status.tenants.iter();
            if known.any(|known| known.tenant == *tenant && known.settings == *settings) {
                return Ok(());
            }
            if asked.elapsed() > patience {
                bail!(Unreachable(format!(
                    "the leader has not heard of tenant {tenant} in {patience:?}"
                )));
            }
            pauses.pause().await;
        }
    }

    /// One tenant's settings, if it exists.
    ///
    /// # Errors
    /// [`Unreachable`] without a broker.
    pub async fn tenant(&self, tenant: &Tenant) -> Result<Option<TenantSettings>> {
        let entry = self.value(&key(tenant)).await?;
        entry
            .map(|value| serde_json::from_slice(&value).context("a tenant's entry"))
            .transpose()
    }

    /// All tenants, by name.
    ///
    /// # Errors
    /// [`Unreachable`] without a broker.
    pub async fn tenants(&self) -> Result<Vec<(Tenant, TenantSettings)>> {
        let store = self.bucket().await?;
        let keys: Vec<String> = store.keys().await?.try_collect().await?;
        let mut tenants = Vec::new();
        for key in keys {
            let Some(tenant) = key
                .strip_prefix("tenant.")
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            if let Some(settings) = self.tenant(&tenant).await? {
                tenants.push((tenant, settings));
            }
        }
        tenants.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(tenants)
    }

    /// Waits until the leader applies these settings of a tenant. Returns false if no leader
    /// answers; the next one will read them.
    ///
    /// # Errors
    /// [`Unreachable`] if a leader answers but has not read them within this administrator's
    /// patience.
    pub async fn tenant_heard(&self, tenant: &Tenant, settings: &TenantSettings) -> Result<bool> {
        if self.status(self.glance()).await.is_err() {
            return Ok(false);
        }
        self.tenant_applies(tenant, settings, self.patience())
            .await?;
        Ok(true)
    }

    /// Suspends or resumes a tenant. While it is suspended it gets no sessions, and its existing
    /// sessions get no further grants. Work that was already granted ends, and nothing is lost.
    ///
    /// # Errors
    /// [`UsageError`] if the tenant does not exist, [`Unreachable`] without a broker.
    pub async fn suspend(&self, tenant: &Tenant, on: bool) -> Result<TenantChange> {
        let set = |settings| {
            Ok(TenantSettings {
                suspended: on,
                ..settings
            })
        };
        let settings = self.change_tenant(tenant, set).await?;
        let applied = self.tenant_heard(tenant, &settings).await?;
        Ok(TenantChange { settings, applied })
    }

    /// Changes a tenant's current settings atomically, so that concurrent changes by others are
    /// kept. Returns the settings after the change.
    ///
    /// # Errors
    /// [`UsageError`] if the tenant does not exist or the settings are invalid, [`Unreachable`]
    /// without a broker.
    pub async fn change_tenant(
        &self,
        tenant: &Tenant,
        change: impl Fn(TenantSettings) -> Result<TenantSettings>,
    ) -> Result<TenantSettings> {
        for _ in 0..TRIES {
            let entry = self.entry(&key(tenant)).await;
            let entry = entry.context("reading the tenant")?;
            let entry = entry.filter(|entry| entry.operation == Operation::Put);
            let entry = entry.ok_or_else(|| unknown(tenant))?;
            let before = serde_json::from_slice(&entry.value);
            let before: TenantSettings = before.context("a tenant's entry")?;
            let after = change(before.clone())?;
            if after == before {
                return Ok(after);
            }
            check(&after)?;
            let value = serde_json::to_vec(&after)?;
            let replaced = self.replace(&key(tenant), value, entry.revision).await;
            // If there is none, another change came first.
            if replaced.context("writing the tenant")?.is_some() {
                return Ok(after);
            }
        }
        bail!(Unreachable(format!(
            "tenant {tenant} is changed by others all the time"
        )))
    }

    /// Removes a tenant, and its login if the broker is local. Its usage stays in the accounts.
    /// With `force` its sessions are ended first.
    ///
    /// # Errors
    /// `E-TENANT-BUSY` if it has sessions, without `force`; [`UsageError`] if the tenant does not
    /// exist; [`Unreachable`] without a leader.
    pub async fn remove_tenant(&self, tenant: &Tenant, force: bool) -> Result<RemovedTenant> {
        if self.tenant(tenant).await?.is_none() {
            bail!(unknown(tenant));
        }
        let there = self.all_sessions_of(tenant).await?;
        if !force && !there.is_empty() {
            let count = there.len();
            bail!(ErrorCode::TenantBusy.failed(format!(
                "tenant {tenant} has sessions ({count}); `--force` ends them, and \
                 `warploom session list --tenant {tenant}` shows them"
            )));
        }
        let mut ended = 0;
        if !there.is_empty() {
            // Keeps it from getting new sessions in the meantime.
            self.suspend(tenant, true).await?;
            ended += self.end_sessions_of(tenant).await?;
        }
        let removed = self.remove(&key(tenant)).await;
        removed.context("deleting the tenant")?;
        self.tenant_is_gone(tenant).await?;
        // Ends sessions that it got before the leader knew of the removal.
        ended += self.end_sessions_of(tenant).await?;
        let login = match self.own_broker().await? {
            Some(broker) => self.remove_login(broker, tenant).await?,
            None => false,
        };
        Ok(RemovedTenant { ended, login })
    }

    /// Waits until the leader no longer knows a tenant.
    async fn tenant_is_gone(&self, tenant: &Tenant) -> Result<()> {
        let (asked, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let status = self.status(self.patience()).await?;
            if status.tenants.iter().all(|known| known.tenant != *tenant) {
                return Ok(());
            }
            if asked.elapsed() > self.patience() {
                bail!(Unreachable(format!(
                    "the leader has not heard that tenant {tenant} is removed after {:?}",
                    self.patience()
                )));
            }
            pauses.pause().await;
        }
    }

    /// The ids of a tenant's sessions; the leader is asked until it knows all of them.
    async fn all_sessions_of(&self, tenant: &Tenant) -> Result<Vec<SessionId>> {
        let filter = SessionFilter {
            tenant: Some(tenant.clone()),
            ..SessionFilter::default()
        };
        let (asked, mut pauses) = (Instant::now(), Pauses::new());
        loop {
            let (sessions, partial) = self.told_sessions(&filter, None).await?;
            if !partial {
                return Ok(sessions.into_iter().map(|row| row.session).collect());
            }
            if asked.elapsed() > self.patience() {
                bail!(Unreachable(format!(
                    "the leader does not know all sessions yet after {:?}",
                    self.patience()
                )));
            }
            pauses.pause().await;
        }
    }

    /// Ends a tenant's sessions until it has none; returns their number.
    async fn end_sessions_of(&self, tenant: &Tenant) -> Result<usize> {
        let mut ended = 0;
        loop {
            let there = self.all_sessions_of(tenant).await?;
            if there.is_empty() {
                return Ok(ended);
            }
            for some in there.chunks(TOGETHER) {
                let ends = some.iter().map(|session| self.end_session(*session));
                let ends = futures_util::future::join_all(ends).await;
                for end in ends {
                    ended += usize::from(end?);
                }
            }
        }
    }

    /// Gives a tenant a new password if the broker is local. The old password becomes invalid, and
    /// connections made with it are closed.
    ///
    /// # Errors
    /// `E-TENANT-LOGIN` if the broker is not local, or if the tenant has no login there;
    /// [`UsageError`] if the tenant does not exist.
    pub async fn renew_login(&self, tenant: &Tenant) -> Result<RenewedLogin> {
        if self.tenant(tenant).await?.is_none() {
            bail!(unknown(tenant));
        }
        let Some(mut broker) = self.own_broker().await? else {
            bail!(ErrorCode::TenantLogin.failed(
                "this broker was not started by `warploom up` on this host: its logins \
                 are changed where it is configured (docs/howto/broker.md)"
            ));
        };
        let name = tenant.to_string();
        let renewed = blocking(move || {
            let login = broker.renew_tenant(&name)?;
            Ok((login, broker.credentials_path()))
        });
        let renewed = renewed.await;
        let (login, credentials) = renewed.with_context(|| {
            ErrorCode::TenantLogin
                .failed(format!("tenant {tenant} has not been given a new password"))
        })?;
        let user = login.login.user;
        Ok(RenewedLogin { user, credentials })
    }

    async fn remove_login(&self, mut broker: Broker, tenant: &Tenant) -> Result<bool> {
        if broker.credentials().tenant(tenant.as_str()).is_none() {
            return Ok(false);
        }
        let name = tenant.to_string();
        let removed = blocking(move || Ok(broker.remove_tenant(&name)?));
        removed.await.context("removing the tenant's login")?;
        Ok(true)
    }

    /// Gives a tenant a login if the broker is local; returns false if it is not.
    ///
    /// # Errors
    /// If the broker refuses it.
    pub async fn give_login(&self, tenant: &Tenant) -> Result<bool> {
        let Some(mut broker) = self.own_broker().await? else {
            return Ok(false);
        };
        let name = tenant.to_string();
        let given = blocking(move || Ok(broker.add_tenant(&name)?));
        given.await.context("giving the tenant a login")?;
        Ok(true)
    }

    /// The broker of which we may change the logins: one that runs on this host and that this
    /// connection uses.
    async fn own_broker(&self) -> Result<Option<Broker>> {
        let Some(folder) = self.broker.clone() else {
            return Ok(None);
        };
        // A folder without a running broker is no error: the broker is then another's.
        blocking(move || Ok(Broker::attach(&folder).ok())).await
    }
}

/// Runs blocking file and process work on a blocking thread.
async fn blocking<T: Send + 'static>(
    does: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(does).await?
}
