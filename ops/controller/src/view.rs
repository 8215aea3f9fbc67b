//! Tenants and settings of the state bucket, kept up to date by a watch. Removed keys stay known as
//! removed, so that a resuming client learns of the removal.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use admin::Administrator;
use async_nats::jetstream::kv::{Entry, Operation};
use bus_schemas::{Tenant, TenantSettings};
use bytes::Bytes;
use futures_util::StreamExt as _;
use tokio::sync::watch;

use crate::problem::Problem;

/// Maximum number of removed keys kept; beyond it, the one removed first is forgotten.
const GONE: usize = 10_000;

/// The newest value of a key; `None` if it was removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    /// The bucket's revision of this value.
    pub(crate) revision: u64,
    /// The value.
    pub(crate) value: Option<Bytes>,
}

/// All keys.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    rows: BTreeMap<String, Row>,
    /// Removals up to this revision may be forgotten.
    forgotten: u64,
}

impl Rows {
    /// Takes in a change of a key.
    fn set(&mut self, key: &str, row: Row) {
        if self
            .rows
            .get(key)
            .is_some_and(|known| known.revision >= row.revision)
        {
            return;
        }
        self.rows.insert(key.to_owned(), row);
        let gone = self.rows.iter().filter(|(_, row)| row.value.is_none());
        if gone.clone().count() > GONE
            && let Some((first, revision)) = gone
                .map(|(key, row)| (key.clone(), row.revision))
                .min_by_key(|it| it.1)
        {
            self.rows.remove(&first);
            self.forgotten = self.forgotten.max(revision);
        }
    }

    /// The newest revision.
    pub(crate) fn newest(&self) -> u64 {
        self.rows
            .values()
            .map(|row| row.revision)
            .max()
            .unwrap_or(0)
    }

    /// Changes after a revision, in order; `None` if they are no longer known, or if the revision
    /// does not exist yet.
    pub(crate) fn since(&self, revision: u64) -> Option<Vec<(String, Row)>> {
        if revision > self.newest() || (revision > 0 && revision < self.forgotten) {
            return None;
        }
        let behind = self.rows.iter().filter(|(_, row)| row.revision > revision);
        let mut behind: Vec<_> = behind
            .map(|(key, row)| (key.clone(), row.clone()))
            .collect();
        behind.sort_by_key(|(_, row)| row.revision);
        Some(behind)
    }
}

/// The view, shared.
#[derive(Clone)]
pub(crate) struct View {
    rows: Arc<RwLock<Rows>>,
    newest: watch::Receiver<u64>,
}

/// A tenant with its settings.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TenantRow {
    /// Its name.
    pub(crate) name: Tenant,
    /// Its settings.
    pub(crate) settings: TenantSettings,
    /// The revision of the settings.
    pub(crate) revision: u64,
}

impl View {
    /// Starts to watch; the view is complete when this returns.
    pub(crate) async fn begin(administrator: &Administrator) -> Result<Self, Problem> {
        let failed = |error: &dyn std::fmt::Display| {
            let why = format!("the broker does not show tenants and settings ({error})");
            Problem::from(anyhow::anyhow!(admin::errors::Unreachable(why)))
        };
        let bucket = administrator.state_bucket().await?;
        let (tell, newest) = watch::channel(0);
        let rows: Arc<RwLock<Rows>> = Arc::default();
        let view = Self {
            rows: Arc::clone(&rows),
            newest,
        };
        let mut entries = bucket
            .watch_with_history(">")
            .await
            .map_err(|error| failed(&error))?;
        let count = bucket.stream.cached_info().state.messages;
        let take = move |entry: Entry| {
            let value = (entry.operation == Operation::Put).then_some(entry.value);
            let row = Row {
                revision: entry.revision,
                value,
            };
            let mut rows = rows.write().unwrap_or_else(PoisonError::into_inner);
            rows.set(&entry.key, row);
            drop(rows);
            tell.send_replace(entry.revision);
        };
        if count > 0 {
            while let Some(entry) = entries.next().await {
                let entry = entry.map_err(|error| failed(&error))?;
                let whole = entry.seen_current || entry.delta == 0;
                take(entry);
                if whole {
                    break;
                }
            }
        }
        tokio::spawn(async move {
            while let Some(entry) = entries.next().await {
                match entry {
                    Ok(entry) => take(entry),
                    Err(error) => tracing::warn!(%error, "watching tenants and settings"),
                }
            }
        });
        Ok(view)
    }

    fn see<T>(&self, look: impl FnOnce(&Rows) -> T) -> T {
        look(&self.rows.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes after a revision, as [`Rows::since`].
    pub(crate) fn since(&self, revision: u64) -> Option<Vec<(String, Row)>> {
        self.see(|rows| rows.since(revision))
    }

    /// A receiver that is notified of changes from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.newest.clone()
    }

    /// Waits until the view has these settings of a tenant; at most a second.
    pub(crate) async fn knows(&self, tenant: &Tenant, settings: Option<&TenantSettings>) {
        let mut changes = self.changes();
        let known = async {
            while self.tenant(tenant).as_ref().map(|row| &row.settings) != settings {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // After the timeout a later reader sees the change.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), known).await;
    }

    /// Waits until the view has a newer revision of a tenant; at most a second.
    pub(crate) async fn passes(&self, row: &TenantRow) {
        let mut changes = self.changes();
        let passed = async {
            while self.tenant(&row.name).map(|it| it.revision) == Some(row.revision) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        // After the timeout the next write fails on its revision.
        let _ = tokio::time::timeout(std::time::Duration::from_secs(1), passed).await;
    }

    /// At most `limit` tenants after a name, in order.
    pub(crate) fn tenants(
        &self,
        after: &str,
        limit: usize,
        sees: impl Fn(&Tenant) -> bool,
    ) -> Vec<TenantRow> {
        self.see(|rows| {
            let from = format!("tenant.{after}");
            let behind = rows
                .rows
                .range(from.clone()..)
                .filter(|(key, _)| **key != from);
            let named = behind.map_while(|(key, row)| Some((key.strip_prefix("tenant.")?, row)));
            let tenants = named.filter_map(|(name, row)| tenant_row(name, row));
            tenants.filter(|row| sees(&row.name)).take(limit).collect()
        })
    }

    /// The revision at which a tenant was removed; 0 if it never existed.
    pub(crate) fn gone(&self, tenant: &Tenant) -> u64 {
        self.see(|rows| {
            let row = rows.rows.get(&format!("tenant.{tenant}"));
            row.map_or(0, |row| row.revision)
        })
    }

    /// Returns one tenant.
    pub(crate) fn tenant(&self, tenant: &Tenant) -> Option<TenantRow> {
        self.see(|rows| {
            let row = rows.rows.get(&format!("tenant.{tenant}"))?;
            tenant_row(tenant.as_str(), row)
        })
    }
}

fn tenant_row(name: &str, row: &Row) -> Option<TenantRow> {
    Some(TenantRow {
        name: name.parse().ok()?,
        settings: serde_json::from_slice(row.value.as_ref()?).ok()?,
        revision: row.revision,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(revision: u64, value: Option<&'static str>) -> Row {
        Row {
            revision,
            value: value.map(|text| Bytes::from_static(text.as_bytes())),
        }
    }

    #[test]
    fn whoever_comes_back_is_told_what_changed_and_no_more() {
        let mut rows = Rows::default();
        rows.set("tenant.a", row(1, Some("1")));
        rows.set("tenant.b", row(2, Some("2")));
        rows.set("tenant.a", row(3, None));
        // A late, older revision changes nothing.
        rows.set("tenant.a", row(1, Some("1")));
        let keys = |since| {
            rows.since(since).map(|rows| {
                rows.into_iter()
                    .map(|(key, row)| (key, row.revision))
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!(
            keys(0),
            Some(vec![("tenant.b".into(), 2), ("tenant.a".into(), 3)])
        );
        assert_eq!(keys(2), Some(vec![("tenant.a".into(), 3)]));
        assert_eq!(keys(3), Some(vec![]));
        assert_eq!(keys(4), None, "of another bucket");
    }

    #[test]
    fn what_went_long_ago_is_forgotten_and_who_knew_it_begins_anew() {
        let mut rows = Rows::default();
        for number in 1..=GONE as u64 + 5 {
            rows.set(&format!("tenant.t{number}"), row(number, None));
        }
        assert_eq!(rows.rows.len(), GONE);
        assert_eq!(rows.since(3), None);
        assert!(rows.since(6).is_some() && rows.since(0).is_some());
    }
}
