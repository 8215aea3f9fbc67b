//! Sessions: their resources, their waits, and their end.

use admin::{SessionFilter, SessionRow};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use bus_schemas::SessionId;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::identity::{asked_tenant, visible};
use crate::access::Operation;
use crate::cluster::{Cluster, Shared};
use crate::http::extract::{PathParams, QueryParams, Who};
use crate::http::paging::{Page, Paged};
use crate::problem::Problem;

/// A session.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(crate) struct SessionModel {
    /// Its id: 16 hexadecimal digits.
    id: String,
    /// Its tenant.
    tenant: String,
    /// Its number among all sessions that the tenant ever had, from 1.
    ordinal: u64,
    /// Its worker.
    worker: String,
    /// The device of the worker.
    gpu: u32,
    /// Ops queued at the leader and not yet granted.
    queued: u64,
    /// Charged nanoseconds granted and not yet done.
    outstanding_ns: u64,
    /// The reason why its next work is not granted; docs/reference/waits.md lists the values.
    waits: String,
    /// Bytes held. This and the following fields are null if the worker does not report them.
    held: Option<u64>,
    /// The part of the last second in which one of its launches ran, 0 to 1.
    busy: Option<f64>,
    /// Location of its memory: `resident`, `leaving`, `out` or `coming`.
    place: Option<String>,
    /// True if its memory must stay on the device.
    pinned: Option<bool>,
    /// The client process, as reported by the client.
    process: Option<ProcessModel>,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ProcessModel {
    /// Its host.
    host: String,
    /// Its process id there.
    pid: u32,
    /// Its program.
    name: String,
}

impl From<SessionRow> for SessionModel {
    fn from(row: SessionRow) -> Self {
        Self {
            id: row.id.to_string(),
            tenant: row.tenant.to_string(),
            ordinal: row.ordinal,
            worker: row.incarnation.to_string(),
            gpu: row.gpu,
            queued: row.queued,
            outstanding_ns: row.outstanding_ns,
            waits: row.waits_for.name().into(),
            held: row.held,
            busy: row.busy_ppm.map(|ppm| f64::from(ppm) / 1e6),
            place: row.place.map(str::to_owned),
            pinned: row.pinned,
            process: row.process.map(|process| ProcessModel {
                host: process.host,
                pid: process.pid,
                name: process.name,
            }),
        }
    }
}

/// Selection of sessions.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionQuery {
    /// Only this tenant.
    tenant: Option<String>,
    /// Only this worker.
    worker: Option<String>,
    /// Only this device.
    gpu: Option<u32>,
    /// Maximum number of items, 1 to 1,000; the default is 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// The `next` of the previous page.
    after: Option<String>,
}

/// Lists sessions.
#[utoipa::path(get, path = "/api/v1/sessions", tag = "sessions", params(SessionQuery),
    extensions(("x-operation" = json!("sessions.read"))),
    responses((status = 200, body = Paged<SessionModel>)))]
pub(crate) async fn sessions(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(asked): QueryParams<SessionQuery>,
) -> Result<Json<Paged<SessionModel>>, Problem> {
    let tenant = asked_tenant(&who.0, Operation::SessionsRead, asked.tenant.as_deref())?;
    let worker = asked.worker.as_deref().map(str::parse).transpose();
    let worker = worker.map_err(|_| Problem::malformed("query: worker is no worker's id"))?;
    let filter = SessionFilter {
        tenant,
        gpu: asked.gpu,
        worker,
    };
    let rows = cluster.administrator.sessions(&filter).await?;
    let page = Page {
        limit: asked.limit,
        after: asked.after,
    };
    let rows = rows.into_iter().map(SessionModel::from);
    page.cut(rows, |session| session.id.clone()).map(Json)
}

/// A session that exists and that the caller may see.
async fn known(cluster: &Cluster, who: &Who, id: &str) -> Result<SessionRow, Problem> {
    let missing = || Problem::missing(format_args!("session {id:?}"));
    let session: SessionId = id.parse().map_err(|_| missing())?;
    let row = cluster.administrator.session(session).await?;
    let row = row.ok_or_else(missing)?;
    visible(&who.0, &row.tenant).map_err(|_| missing())?;
    Ok(row)
}

/// Shows a session.
#[utoipa::path(get, path = "/api/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "its id")),
    extensions(("x-operation" = json!("sessions.read"))),
    responses((status = 200, body = SessionModel)))]
pub(crate) async fn session(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(id): PathParams<String>,
) -> Result<Json<SessionModel>, Problem> {
    let row = known(&cluster, &who, &id).await?;
    Ok(Json(row.into()))
}

/// Ends a session: its running work ends, its queued work does not run, and its program's next call
/// fails.
#[utoipa::path(delete, path = "/api/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "its id")),
    extensions(("x-operation" = json!("sessions.end"))),
    responses((status = 204, description = "it has ended")))]
pub(crate) async fn end_session(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(id): PathParams<String>,
) -> Result<StatusCode, Problem> {
    let row = known(&cluster, &who, &id).await?;
    cluster.administrator.end_session(row.id).await?;
    cluster.changed().await;
    Ok(StatusCode::NO_CONTENT)
}
