//! The settings that administrators have set: the entry of the state bucket, read and changed.

use anyhow::{Context, Result, bail};
use async_nats::jetstream::kv::Operation;
use bus_schemas::ClusterSettings;
use serde_json::{Map, Value};

use super::{ClusterSetting, REPLICAS, check};
use crate::administrator::Administrator;
use crate::errors::ErrorCode;

/// Attempts at a change that conflicts with other changes.
const ATTEMPTS: usize = 16;

/// The entry with the settings that were set.
#[derive(Debug, Default)]
pub struct Chosen {
    /// Values that were set, by field.
    pub values: Map<String, Value>,
    /// The entry's revision; 0 if there is no entry.
    pub revision: u64,
    /// Time at which it was written, milliseconds since 1970.
    pub at_ms: u64,
}

impl Chosen {
    /// The settings, with defaults for those that were not set.
    ///
    /// # Errors
    /// If the entry cannot be parsed.
    pub fn settings(&self) -> Result<ClusterSettings> {
        serde_json::from_value(Value::Object(self.values.clone()))
            .map(ClusterSettings::with_limits)
            .context(ErrorCode::ClusterSettings.failed("the settings' entry in the state bucket"))
    }
}

impl Chosen {
    /// Changes several settings at once, each to its new value or to its default. Returns the
    /// resulting settings.
    ///
    /// # Errors
    /// [`crate::errors::UsageError`] if the result is invalid.
    pub fn change(
        &mut self,
        changes: &[(&ClusterSetting, Option<Value>)],
    ) -> Result<ClusterSettings> {
        for (setting, value) in changes {
            match value {
                Some(value) => self.values.insert(setting.field.into(), value.clone()),
                None => self.values.remove(setting.field),
            };
        }
        let settings = self.settings()?;
        check(&settings)?;
        Ok(settings)
    }
}

impl Administrator {
    /// The settings that were set in this cluster.
    ///
    /// # Errors
    /// [`crate::errors::Unreachable`] without a broker.
    pub async fn chosen(&self) -> Result<Chosen> {
        let entry = self.entry("settings").await?;
        let Some(entry) = entry else {
            return Ok(Chosen::default());
        };
        let values = match entry.operation {
            Operation::Put => serde_json::from_slice(&entry.value).context(
                ErrorCode::ClusterSettings.failed("the settings' entry in the state bucket"),
            )?,
            Operation::Delete | Operation::Purge => Map::new(),
        };
        Ok(Chosen {
            values,
            revision: entry.revision,
            at_ms: u64::try_from(entry.created.unix_timestamp_nanos() / 1_000_000).unwrap_or(0),
        })
    }

    /// Changes several settings of the cluster at once, each to its new value or to its default.
    /// Concurrent changes of other settings are kept.
    ///
    /// # Errors
    /// [`crate::errors::UsageError`] if the result is invalid, `E-CLUSTER-REPLICAS` if the broker has too
    /// few servers, [`crate::errors::Unreachable`] without a broker.
    pub async fn change_cluster(
        &self,
        changes: &[(&ClusterSetting, Option<Value>)],
    ) -> Result<ClusterSettings> {
        for _ in 0..ATTEMPTS {
            let chosen = self.chosen().await?;
            if let Some(settings) = self.replace_cluster(chosen, changes).await? {
                return Ok(settings);
            }
        }
        bail!(
            ErrorCode::ClusterSettings
                .failed("others change the settings at the same time; try again")
        )
    }

    /// As [`Self::change_cluster`], for settings as they were read; `None` if they have changed
    /// since.
    ///
    /// # Errors
    /// As [`Self::change_cluster`].
    pub async fn replace_cluster(
        &self,
        mut chosen: Chosen,
        changes: &[(&ClusterSetting, Option<Value>)],
    ) -> Result<Option<ClusterSettings>> {
        let settings = chosen.change(changes)?;
        if changes.iter().any(|(setting, _)| setting.field == REPLICAS) {
            self.spread(settings.broker_replicas).await?;
        }
        let value = serde_json::to_vec(&chosen.values)?;
        let replaced = self.replace("settings", value, chosen.revision).await;
        let replaced = replaced.context("writing the settings")?;
        Ok(replaced.map(|_| settings))
    }
}
