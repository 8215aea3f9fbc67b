//! The cluster as a whole: its leader, its stores, its lost workers, and the hold on grants.

use axum::Json;
use axum::extract::State;
use bus_schemas::{LostWorker, Status};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Identity, Operation, Scope};
use crate::cluster::Shared;
use crate::http::extract::{JsonBody, Who};
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
    /// Lost workers with no other worker on their devices since, for an hour at most; empty for a
    /// login that may not read workers.
    lost: Vec<LostWorkerModel>,
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

/// A lost worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct LostWorkerModel {
    /// Its incarnation: 16 hexadecimal digits.
    id: String,
    /// The number of its device; null if the leader does not know it.
    gpu: Option<u32>,
    /// The description of the device; null if the leader does not know it.
    device: Option<String>,
    /// Nanoseconds since it was declared lost.
    lost_for_ns: u64,
}

impl From<&LostWorker> for LostWorkerModel {
    fn from(worker: &LostWorker) -> Self {
        Self {
            id: worker.incarnation.to_string(),
            gpu: worker.gpu,
            device: Some(worker.device.clone()).filter(|device| !device.is_empty()),
            lost_for_ns: worker.lost_for_ns,
        }
    }
}

/// The lost workers, for a login that may read workers.
fn lost(workers: &[LostWorker], who: &Identity) -> Vec<LostWorkerModel> {
    match who.scope(Operation::WorkersRead) {
        Scope::All => workers.iter().map(LostWorkerModel::from).collect(),
        Scope::Own | Scope::None => Vec::new(),
    }
}

impl ClusterModel {
    /// The model of a status, for a login.
    pub(crate) fn of(cluster: &crate::cluster::Cluster, status: &Status, who: &Identity) -> Self {
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
            lost: lost(&status.lost, who),
            evidence_key: cluster.evidence_key.clone(),
        }
    }
}

/// Shows the cluster.
#[utoipa::path(get, path = "/api/v1/cluster", tag = "cluster",
    extensions(("x-operation" = json!("cluster.read"))),
    responses((status = 200, body = ClusterModel)))]
pub(crate) async fn cluster(
    State(cluster): State<Shared>,
    who: Who,
) -> Result<Json<ClusterModel>, Problem> {
    let moment = cluster.moment().await?;
    Ok(Json(ClusterModel::of(&cluster, &moment.status, &who.0)))
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
    who: Who,
    JsonBody(hold): JsonBody<HoldModel>,
) -> Result<Json<ClusterModel>, Problem> {
    shared.administrator.hold(hold.held).await?;
    shared.changed().await;
    cluster(State(shared), who).await
}

#[cfg(test)]
mod tests {
    use bus_schemas::Incarnation;

    use super::*;
    use crate::access::{Role, identity};

    #[test]
    fn lost_workers_are_told_to_logins_that_may_read_workers() {
        let missed = |gpu, device: &str| LostWorker {
            incarnation: Incarnation(0xa1),
            gpu,
            device: device.into(),
            lost_for_ns: 5,
        };
        let workers = [missed(Some(1), "cpu"), missed(None, "")];
        let told = serde_json::to_value(lost(&workers, &identity(Role::Viewer, None)));
        let id = "00000000000000a1";
        assert_eq!(
            told.expect("it is written"),
            serde_json::json!([
                { "id": id, "gpu": 1, "device": "cpu", "lost_for_ns": 5 },
                { "id": id, "gpu": null, "device": null, "lost_for_ns": 5 },
            ])
        );
        let admin = identity(Role::TenantAdmin, Some("chat"));
        assert_eq!(lost(&workers, &admin), []);
    }
}
