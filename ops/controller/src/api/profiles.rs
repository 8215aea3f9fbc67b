//! Versions of the profile, which estimates the cost of kernels.

use admin::profiles::ProfileVersion;
use admin::profiles::applied;
use axum::Json;
use axum::extract::State;
use bus_schemas::ProfileStatus;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cluster::Shared;
use crate::http::extract::JsonBody;
use crate::problem::Problem;

/// A version of the profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ProfileModel {
    /// The hash of its estimates.
    hash: String,
    /// Its number.
    version: u64,
    /// Number of kernels with an estimate.
    entries: u64,
    /// Time of publication, milliseconds since 1970; null if the leader has not reported it.
    created_ms: Option<u64>,
}

/// All stored versions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ProfilesModel {
    /// The version that the leader uses; null without a leader.
    in_force: Option<ProfileModel>,
    /// The hash of the pinned version.
    pinned: Option<String>,
    /// The stored versions, the oldest first.
    items: Vec<ProfileModel>,
}

/// The version to pin.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PinModel {
    /// Its hash, or a prefix of at least 8 digits; null resumes learning.
    hash: Option<String>,
}

impl From<&ProfileVersion> for ProfileModel {
    fn from(version: &ProfileVersion) -> Self {
        Self {
            hash: version.hash.to_string(),
            version: version.version,
            entries: version.entries.len() as u64,
            created_ms: Some(version.at_ms),
        }
    }
}

impl From<&ProfileStatus> for ProfileModel {
    fn from(status: &ProfileStatus) -> Self {
        Self {
            hash: status.hash.to_string(),
            version: status.version,
            entries: status.kernels,
            created_ms: None,
        }
    }
}

/// Lists the versions of the profile.
#[utoipa::path(get, path = "/api/v1/profiles", tag = "profiles",
    extensions(("x-operation" = json!("profiles.read"))),
    responses((status = 200, body = ProfilesModel)))]
pub(crate) async fn profiles(
    State(cluster): State<Shared>,
) -> Result<Json<ProfilesModel>, Problem> {
    let versions = cluster.administrator.profile_versions().await?;
    let pinned = cluster.administrator.pinned().await?;
    let moment = cluster.moment().await.ok();
    let in_force = moment.and_then(|moment| moment.status.profile.as_ref().map(Into::into));
    Ok(Json(ProfilesModel {
        in_force,
        pinned: pinned.map(|version| version.hash.to_string()),
        items: versions.iter().map(ProfileModel::from).collect(),
    }))
}

/// Pins a version, or resumes learning.
#[utoipa::path(put, path = "/api/v1/profiles/pinned", tag = "profiles", request_body = PinModel,
    extensions(("x-operation" = json!("profiles.write"))),
    responses((status = 200, body = ProfilesModel)))]
pub(crate) async fn pin(
    State(cluster): State<Shared>,
    JsonBody(pin): JsonBody<PinModel>,
) -> Result<Json<ProfilesModel>, Problem> {
    let administrator = &cluster.administrator;
    match pin.hash {
        Some(hash) => {
            let version = administrator.profile_version(Some(&hash)).await?;
            administrator.pin(&version).await?;
            let done = |status: &ProfileStatus| status.pinned && status.hash == version.hash;
            applied(administrator, done).await?;
        }
        None if administrator.pinned().await?.is_some() => {
            let learns = administrator.chosen().await?.settings()?.learn;
            administrator.unpin().await?;
            applied(administrator, |status| !status.pinned || !learns).await?;
        }
        None => {}
    }
    cluster.changed().await;
    profiles(State(cluster)).await
}
