//! Workers, and draining a worker.

use admin::DeviceMemory;
use axum::Json;
use axum::extract::State;
use bus_schemas::{Incarnation, PlaceStatus, Status, SwapStatus, WorkerStatus};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::cluster::{Moment, Shared};
use crate::http::extract::{JsonBody, PathParams, QueryParams};
use crate::http::paging::{Page, Paged};
use crate::problem::Problem;

/// A worker and its device.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct WorkerModel {
    /// Its incarnation: 16 hexadecimal digits.
    pub(crate) id: String,
    /// The number of its device.
    gpu: u32,
    /// The description of the device.
    device: String,
    /// `live`, `draining` (no new sessions) or `lost`.
    state: String,
    /// Its group.
    pub(crate) group: Option<String>,
    /// True if it takes only tenants bound to its group, one at a time.
    pub(crate) exclusive: bool,
    /// Bytes that sessions may hold in all.
    pub(crate) capacity: Option<u64>,
    /// Free bytes of the capacity.
    pub(crate) free: Option<u64>,
    /// The part of its time that was recently granted, 0 to 1.
    busy: Option<f64>,
    /// Sessions on it.
    sessions: u64,
    /// The last position granted.
    granted: u64,
    /// The last position accepted.
    accepted: u64,
    /// The chain at that position.
    chain: String,
    /// Charged work granted and not yet done, nanoseconds.
    outstanding_ns: u64,
    /// Its memory, as reported by the worker; null if it does not answer.
    memory: Option<DeviceMemoryModel>,
}

/// The memory use of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct DeviceMemoryModel {
    /// Bytes that sessions may hold in all.
    capacity: u64,
    /// Bytes that sessions have allocated.
    held: u64,
    /// Bytes that may still be allocated.
    free: u64,
    /// State of swapping; null if memory is not overcommitted.
    swap: Option<SwapModel>,
}

/// State of swapping on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct SwapModel {
    /// Maximum bytes that sessions may hold in all.
    limit: u64,
    /// The host's memory.
    memory: TierModel,
    /// The second tier: a file.
    file: TierModel,
    /// Moves out of the device.
    outs: MovesModel,
    /// Moves back to the device.
    ins: MovesModel,
    /// Nanoseconds for which sessions waited for their memory.
    waited_ns: u64,
    /// The current move.
    moving: MoveModel,
}

/// A tier of swap space.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TierModel {
    /// Bytes used.
    used: u64,
    /// Maximum bytes.
    max: u64,
}

/// Moves of sessions' memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct MovesModel {
    /// Number of moves.
    times: u64,
    /// Bytes moved.
    bytes: u64,
}

/// The current move.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct MoveModel {
    /// Bytes moved.
    done: u64,
    /// Bytes to move; 0 if nothing moves.
    of: u64,
}

impl From<&SwapStatus> for SwapModel {
    fn from(swap: &SwapStatus) -> Self {
        let tier = |(used, max): (u64, u64)| TierModel { used, max };
        let moves = |(times, bytes): (u64, u64)| MovesModel { times, bytes };
        Self {
            limit: swap.limit,
            memory: tier(swap.memory),
            file: tier(swap.file),
            outs: moves(swap.outs),
            ins: moves(swap.ins),
            waited_ns: swap.waited_ns,
            moving: MoveModel {
                done: swap.moving.0,
                of: swap.moving.1,
            },
        }
    }
}

impl WorkerModel {
    fn of(worker: &WorkerStatus, place: Option<&PlaceStatus>, memory: &[DeviceMemory]) -> Self {
        let mut memory = memory.iter();
        let memory = memory.find(|device| device.incarnation == worker.incarnation);
        let memory = memory.and_then(|device| device.said.as_ref());
        Self {
            id: worker.incarnation.to_string(),
            gpu: worker.gpu,
            device: worker.device.clone(),
            state: match (worker.lost, worker.draining) {
                (true, _) => "lost",
                (false, true) => "draining",
                (false, false) => "live",
            }
            .into(),
            group: place.map(|place| place.group.to_string()),
            exclusive: place.is_some_and(|place| place.exclusive),
            capacity: place.map(|place| place.capacity),
            free: place.map(|place| place.free),
            busy: place.map(|place| f64::from(place.busy) / 100.0),
            sessions: worker.sessions,
            granted: worker.granted,
            accepted: worker.accepted,
            chain: worker.chain.to_string(),
            outstanding_ns: worker.outstanding_ns,
            memory: memory.map(|said| DeviceMemoryModel {
                capacity: said.capacity,
                held: said.held,
                free: said.free,
                swap: said.swap.as_ref().map(SwapModel::from),
            }),
        }
    }

    /// All workers of a moment, sorted by id.
    pub(crate) fn all(moment: &Moment) -> Vec<Self> {
        let Status {
            workers, places, ..
        } = &*moment.status;
        let workers = workers.iter().enumerate();
        let rows =
            workers.map(|(index, worker)| Self::of(worker, places.get(index), &moment.memory));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        rows
    }
}

/// Lists workers.
#[utoipa::path(get, path = "/api/v1/workers", tag = "workers", params(Page),
    extensions(("x-operation" = json!("workers.read"))),
    responses((status = 200, body = Paged<WorkerModel>)))]
pub(crate) async fn workers(
    State(cluster): State<Shared>,
    QueryParams(page): QueryParams<Page>,
) -> Result<Json<Paged<WorkerModel>>, Problem> {
    let rows = WorkerModel::all(&cluster.moment().await?);
    page.cut(rows, |worker| worker.id.clone()).map(Json)
}

/// Shows a worker.
#[utoipa::path(get, path = "/api/v1/workers/{worker}", tag = "workers",
    params(("worker" = String, Path, description = "its id")),
    extensions(("x-operation" = json!("workers.read"))),
    responses((status = 200, body = WorkerModel)))]
pub(crate) async fn worker(
    State(cluster): State<Shared>,
    PathParams(worker): PathParams<String>,
) -> Result<Json<WorkerModel>, Problem> {
    let rows = WorkerModel::all(&cluster.moment().await?);
    let found = rows.into_iter().find(|row| row.id == worker);
    let found = found.ok_or_else(|| Problem::missing(format_args!("worker {worker:?}")))?;
    Ok(Json(found))
}

/// The request to drain a worker.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DrainModel {
    /// Undoes a drain: the worker gets new sessions again.
    #[serde(default)]
    undo: bool,
}

/// Drains a worker: it gets no new sessions, and leaves when its own have ended. Can also undo
/// this.
#[utoipa::path(post, path = "/api/v1/workers/{worker}/drain", tag = "workers",
    params(("worker" = String, Path, description = "its id")), request_body = DrainModel,
    extensions(("x-operation" = json!("workers.drain"))),
    responses((status = 200, body = WorkerModel)))]
pub(crate) async fn drain(
    State(cluster): State<Shared>,
    PathParams(worker): PathParams<String>,
    JsonBody(drain): JsonBody<DrainModel>,
) -> Result<Json<WorkerModel>, Problem> {
    let missing = || Problem::missing(format_args!("worker {worker:?}"));
    let id: Incarnation = worker.parse().map_err(|_| missing())?;
    let rows = WorkerModel::all(&cluster.moment().await?);
    let known = rows.iter().find(|row| row.id == worker);
    if known.ok_or_else(missing)?.state == "lost" {
        return Err(Problem::conflict("this worker is lost"));
    }
    let status = cluster.administrator.drain(id, !drain.undo).await?;
    cluster.changed().await;
    let moment = Moment {
        status: std::sync::Arc::new(status),
        memory: cluster.moment().await?.memory,
    };
    let mut rows = WorkerModel::all(&moment).into_iter();
    rows.find(|row| row.id == worker)
        .map(Json)
        .ok_or_else(|| Problem::conflict("the worker has left meanwhile"))
}
