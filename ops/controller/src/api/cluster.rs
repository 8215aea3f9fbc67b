//! The cluster as a whole: its leader, its stores, and the hold on grants.

use axum::Json;
use axum::extract::State;
use bus_schemas::Status;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cluster::Shared;
use crate::http::extract::JsonBody;
use crate::problem::Problem;

/// The cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ClusterModel {
    /// Its name.
    name: String,
    /// The id of the leader, 16 hexadecimal digits.
    leader: String,
    /// The leader's epoch.
    epoch: u64,
    /// True if grants are held.
    held: bool,
    /// Number of the last input.
    input: u64,
    /// Number of the last recorded input.
    recorded: u64,
    /// The last global position, in this epoch.
    global: u64,
    /// The stores of the broker.
    stores: Vec<StoreModel>,
    /// The public key of signed evidence.
    evidence_key: Option<String>,
}

/// A store of the broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct StoreModel {
    /// Its name, or that of the storage that all stores share.
    name: String,
    /// Bytes used.
    bytes: u64,
    /// Maximum bytes; null if unknown.
    max_bytes: Option<u64>,
    /// The current fault; null without one.
    alarm: Option<String>,
}

impl ClusterModel {
    /// The model of a status.
    pub(crate) fn of(cluster: &crate::cluster::Cluster, status: &Status) -> Self {
        let stores = status.stores.iter().map(|store| StoreModel {
            name: store.name.clone(),
            bytes: store.bytes,
            max_bytes: Some(store.limit).filter(|limit| *limit > 0),
            alarm: Some(store.alarm.clone()).filter(|alarm| !alarm.is_empty()),
        });
        Self {
            name: cluster.administrator.subjects().cluster().to_string(),
            leader: status.leader.to_string(),
            epoch: status.epoch,
            held: status.held,
            input: status.input,
            recorded: status.recorded,
            global: status.global,
            stores: stores.collect(),
            evidence_key: cluster.evidence_key.clone(),
        }
    }
}

/// Shows the cluster.
#[utoipa::path(get, path = "/api/v1/cluster", tag = "cluster",
    extensions(("x-operation" = json!("cluster.read"))),
    responses((status = 200, body = ClusterModel)))]
pub(crate) async fn cluster(State(cluster): State<Shared>) -> Result<Json<ClusterModel>, Problem> {
    let moment = cluster.moment().await?;
    Ok(Json(ClusterModel::of(&cluster, &moment.status)))
}

/// The hold on grants.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldModel {
    /// True to hold grants, false to release them.
    held: bool,
}

/// Holds all grants back, or releases them.
#[utoipa::path(put, path = "/api/v1/order/hold", tag = "order", request_body = HoldModel,
    extensions(("x-operation" = json!("cluster.hold"))),
    responses((status = 200, body = ClusterModel)))]
pub(crate) async fn hold(
    State(shared): State<Shared>,
    JsonBody(hold): JsonBody<HoldModel>,
) -> Result<Json<ClusterModel>, Problem> {
    shared.administrator.hold(hold.held).await?;
    shared.changed().await;
    cluster(State(shared)).await
}
