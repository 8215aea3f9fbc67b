//! The settings of the cluster's scheduler.

use std::collections::BTreeMap;

use admin::cluster_settings;
use admin::cluster_settings::{CLUSTER_SETTINGS, Chosen, ClusterSetting};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use bus_schemas::ClusterSettings;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use crate::cluster::{Cluster, Shared};
use crate::http::etag;
use crate::http::extract::{JsonBody, QueryParams};
use crate::problem::Problem;

/// A setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct SettingModel {
    /// Its name.
    key: String,
    /// Its value in readable form.
    value: String,
    /// Its default.
    default: String,
    /// `default`, or `set`.
    source: String,
    /// Its description.
    help: String,
}

/// All settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct SettingsModel {
    /// The settings.
    items: Vec<SettingModel>,
    /// The revision, as in the ETag.
    revision: u64,
}

/// A setting with its values before and after a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ChangeModel {
    /// The setting.
    pub(crate) key: String,
    /// The old value.
    pub(crate) before: String,
    /// The new value.
    pub(crate) after: String,
}

/// Changes of settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ChangesModel {
    /// The settings that differ.
    pub(crate) changes: Vec<ChangeModel>,
    /// True if the changes were made.
    pub(crate) applied: bool,
}

/// Changes to make, all of them or none.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SettingsChangeModel {
    /// The value for each setting in readable form; null restores the default.
    changes: BTreeMap<String, Option<String>>,
}

/// The choice of a dry run.
#[derive(Debug, Clone, Copy, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct DryRun {
    /// Reports what would change, and changes nothing.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// The value of every setting in readable form.
fn shown(settings: &ClusterSettings) -> Result<BTreeMap<&'static str, String>, Problem> {
    let values = serde_json::to_value(settings);
    let values = values.map_err(|error| Problem::internal(error.to_string()))?;
    let shown = CLUSTER_SETTINGS.iter();
    Ok(shown
        .map(|setting| (setting.key, setting.show(&values[setting.field])))
        .collect())
}

fn model(chosen: &Chosen) -> Result<SettingsModel, Problem> {
    let (now, usual) = (
        shown(&chosen.settings()?)?,
        shown(&ClusterSettings::default())?,
    );
    let items = CLUSTER_SETTINGS.iter().map(|setting| SettingModel {
        key: setting.key.into(),
        value: now[setting.key].clone(),
        default: usual[setting.key].clone(),
        source: match chosen.values.contains_key(setting.field) {
            true => "set",
            false => "default",
        }
        .into(),
        help: setting.help.into(),
    });
    Ok(SettingsModel {
        items: items.collect(),
        revision: chosen.revision,
    })
}

/// Lists settings.
#[utoipa::path(get, path = "/api/v1/settings", tag = "settings",
    extensions(("x-operation" = json!("settings.read"))),
    responses((status = 200, body = SettingsModel)))]
pub(crate) async fn settings(
    State(cluster): State<Shared>,
) -> Result<([(header::HeaderName, HeaderValue); 1], Json<SettingsModel>), Problem> {
    let chosen = cluster.administrator.chosen().await?;
    let tag = [(header::ETAG, etag::of_revision(chosen.revision))];
    Ok((tag, Json(model(&chosen)?)))
}

/// Parses changes in readable form.
fn read(
    sent: SettingsChangeModel,
) -> Result<Vec<(&'static ClusterSetting, Option<Value>)>, Problem> {
    let changes = sent.changes.into_iter().map(|(key, text)| {
        let setting = ClusterSetting::named(&key)?;
        let value = text.map(|text| setting.parse(&text)).transpose()?;
        Ok((setting, value))
    });
    Ok(changes.collect::<anyhow::Result<_>>()?)
}

/// Changes settings, or reports what would change.
#[utoipa::path(patch, path = "/api/v1/settings", tag = "settings", params(DryRun),
    request_body = SettingsChangeModel,
    extensions(("x-operation" = json!("settings.write"))),
    responses((status = 200, body = ChangesModel)))]
pub(crate) async fn change_settings(
    State(cluster): State<Shared>,
    QueryParams(DryRun { dry_run }): QueryParams<DryRun>,
    headers: HeaderMap,
    JsonBody(sent): JsonBody<SettingsChangeModel>,
) -> Result<Json<ChangesModel>, Problem> {
    let changes = read(sent)?;
    for _ in 0..etag::TRIES {
        let chosen = cluster.administrator.chosen().await?;
        etag::matches(&headers, chosen.revision)?;
        if let Some(made) = change(&cluster, chosen, &changes, dry_run).await? {
            return Ok(Json(made));
        }
        if headers.contains_key(header::IF_MATCH) {
            return Err(Problem::changed());
        }
    }
    Err(Problem::contended())
}

/// Changes settings, or reports the changes of a dry run. Returns `None` if the settings were
/// changed concurrently.
async fn change(
    cluster: &Cluster,
    mut chosen: Chosen,
    changes: &[(&'static ClusterSetting, Option<Value>)],
    dry_run: bool,
) -> Result<Option<ChangesModel>, Problem> {
    let before = shown(&chosen.settings()?)?;
    let (revision, values) = (chosen.revision, chosen.values.clone());
    let after = shown(&chosen.change(changes)?)?;
    let differ = before.into_iter().zip(after);
    let differ = differ.filter(|((_, before), (_, after))| before != after);
    let differ = differ.map(|((key, before), (_, after))| ChangeModel {
        key: key.into(),
        before,
        after,
    });
    let differ: Vec<_> = differ.collect();
    if dry_run {
        return Ok(Some(ChangesModel {
            changes: differ,
            applied: false,
        }));
    }
    let was = Chosen {
        values,
        revision,
        at_ms: 0,
    };
    let made = cluster.administrator.replace_cluster(was, changes).await?;
    if made.is_none() {
        return Ok(None);
    }
    cluster_settings::applied(&cluster.administrator).await?;
    cluster.changed().await;
    Ok(Some(ChangesModel {
        changes: differ,
        applied: true,
    }))
}
