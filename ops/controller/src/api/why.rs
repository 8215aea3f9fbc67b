//! Waits of launches and idle times of devices, from the record, as `warploom why` shows them. The
//! names of tenants that the caller may not see are removed.

use admin::why::{DeviceDayRow, WaitSummary, Within};
use axum::Json;
use axum::extract::State;
use bus_schemas::{SessionId, Tenant};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::identity::visible;
use crate::access::Identity;
use crate::cluster::{Cluster, Shared};
use crate::explained::{Explained, TimesModel};
use crate::feed::Found;
use crate::http::extract::{PathParams, QueryParams, Who, bounds};
use crate::position::{At, Position};
use crate::problem::Problem;
use crate::waits::{self, WaitModel};

/// The time that is explained.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct WhyQuery {
    /// Start of the time to explain: 2026-11-21, 2026-11-21T08:00Z, 15m or 24h ago. The default is the
    /// beginning of the record.
    #[param(example = "15m")]
    since: Option<String>,
    /// End of that time, in the same notation. The default is now.
    until: Option<String>,
}

impl WhyQuery {
    /// The stretch of time; `None` stands for all of the record.
    fn within(&self) -> Result<Option<Within>, Problem> {
        let bounds = bounds(self.since.as_deref(), self.until.as_deref())?;
        Within::between(bounds).map_err(|why| Problem::malformed(format!("query: {why}")))
    }
}

/// Waits summed over many positions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct WaitSummaryModel {
    /// Positions that ran and have recorded times.
    positions: u64,
    /// Positions that ran and have no recorded times.
    untimed: u64,
    /// Kernels among the ops of both.
    kernels: u64,
    /// Measured device nanoseconds of both.
    ran_ns: u64,
    /// Total time waited, nanoseconds.
    waited_ns: u64,
    /// Median wait. Beyond 4,096 positions this and the next percentile are rounded up, by at most
    /// one part in 2,048.
    waited_p50_ns: u64,
    /// The 99th percentile of the wait.
    waited_p99_ns: u64,
    /// The longest wait.
    waited_max_ns: u64,
    /// The causes, the longest first; together they are `waited_ns`.
    waits: Vec<WaitModel>,
}

impl WaitSummaryModel {
    /// The summary for a caller who may see it, without hidden names.
    fn seen_by(summary: &WaitSummary, who: &Identity) -> Self {
        Self {
            positions: summary.positions,
            untimed: summary.untimed,
            kernels: summary.kernels,
            ran_ns: summary.ran_ns,
            waited_ns: summary.waited_ns,
            waited_p50_ns: summary.waited_p50_ns,
            waited_p99_ns: summary.waited_p99_ns,
            waited_max_ns: summary.waited_max_ns,
            waits: waits::seen_by(waits::of_rows(&summary.waits), who),
        }
    }
}

/// Waits of a tenant's launches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct TenantWaitsModel {
    /// The tenant.
    tenant: String,
    /// The waits.
    #[serde(flatten)]
    waited: WaitSummaryModel,
}

/// Explains the waits of a tenant's launches, as far back as the record goes, or of those that waited or ran
/// in a stretch of time.
#[utoipa::path(get, path = "/api/v1/tenants/{tenant}/why", tag = "why",
    params(("tenant" = String, Path, description = "its name"), WhyQuery),
    extensions(("x-operation" = json!("tenants.read"))),
    responses((status = 200, body = TenantWaitsModel)))]
pub(crate) async fn why_tenant(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(name): PathParams<String>,
    QueryParams(asked): QueryParams<WhyQuery>,
) -> Result<Json<TenantWaitsModel>, Problem> {
    let missing = || Problem::missing(format_args!("tenant {name:?}"));
    let tenant: Tenant = name.parse().map_err(|_| missing())?;
    visible(&who.0, &tenant).map_err(|_| missing())?;
    let reading = cluster.explain(&who.0, None, asked.within()?).await?;
    let summary = reading.tenants.get(&tenant).cloned();
    // The record still tells of a removed tenant; an existing tenant may have run nothing yet.
    let there = cluster.view.tenant(&tenant).map(|_| WaitSummary::default());
    let summary = summary.or(there).ok_or_else(missing)?;
    Ok(Json(TenantWaitsModel {
        tenant: tenant.to_string(),
        waited: WaitSummaryModel::seen_by(&summary, &who.0),
    }))
}

/// Waits of a session's launches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct SessionWaitsModel {
    /// The session.
    session: String,
    /// Its tenant.
    tenant: String,
    /// Reason for its current wait, as `waits` of `GET /api/v1/sessions`. Null if the leader no
    /// longer knows the session, or does not answer.
    waits_for: Option<String>,
    /// The waits.
    #[serde(flatten)]
    waited: WaitSummaryModel,
}

/// Explains the waits of a session's launches, as far back as the record goes, or of those that waited or ran
/// in a stretch of time; also after its end.
#[utoipa::path(get, path = "/api/v1/sessions/{session}/why", tag = "why",
    params(("session" = String, Path, description = "its id"), WhyQuery),
    extensions(("x-operation" = json!("sessions.read"))),
    responses((status = 200, body = SessionWaitsModel)))]
pub(crate) async fn why_session(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(id): PathParams<String>,
    QueryParams(asked): QueryParams<WhyQuery>,
) -> Result<Json<SessionWaitsModel>, Problem> {
    let missing = || Problem::missing(format_args!("session {id:?}"));
    let session: SessionId = id.parse().map_err(|_| missing())?;
    let within = asked.within()?;
    let reading = cluster.explain(&who.0, Some(session), within).await?;
    let recorded = reading.sessions.get(&session).cloned();
    let told = cluster.administrator.session(session).await;
    let told = match &recorded {
        Some(_) => told.unwrap_or(None),
        None => told?,
    };
    let now = told.map(|row| (row.tenant, row.waits_for.name().to_owned()));
    let (tenant, summary) = recorded
        .or_else(|| Some((now.as_ref()?.0.clone(), WaitSummary::default())))
        .ok_or_else(missing)?;
    visible(&who.0, &tenant).map_err(|_| missing())?;
    Ok(Json(SessionWaitsModel {
        session: session.to_string(),
        tenant: tenant.to_string(),
        waits_for: now.map(|(_, waits_for)| waits_for),
        waited: WaitSummaryModel::seen_by(&summary, &who.0),
    }))
}

/// Idle times of a device, by day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct DeviceDaysModel {
    /// The device.
    gpu: u32,
    /// Its days (UTC), the oldest first.
    days: Vec<DeviceDayModel>,
}

/// A device on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct DeviceDayModel {
    /// The day.
    #[schema(example = "2026-11-26")]
    day: String,
    /// Nanoseconds in which work ran.
    busy_ns: u64,
    /// Nanoseconds in which the device had a worker but ran nothing.
    idle_ns: u64,
    /// The causes of idle time, the longest first; together they are `idle_ns`.
    idle: Vec<WaitModel>,
}

/// Explains the idle time of a device, by day: from the record, and for 400 days from its truncated
/// part. Of a stretch of time it explains that time, and whole days of the truncated part.
#[utoipa::path(get, path = "/api/v1/devices/{gpu}/why", tag = "why",
    params(("gpu" = String, Path, description = "its number"), WhyQuery),
    extensions(("x-operation" = json!("workers.read"))),
    responses((status = 200, body = DeviceDaysModel)))]
pub(crate) async fn why_device(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(number): PathParams<String>,
    QueryParams(asked): QueryParams<WhyQuery>,
) -> Result<Json<DeviceDaysModel>, Problem> {
    let missing = || Problem::missing(format_args!("device {number:?}"));
    let gpu: u32 = number.parse().map_err(|_| missing())?;
    let reading = cluster.explain(&who.0, None, asked.within()?).await?;
    let day = |day: &DeviceDayRow| DeviceDayModel {
        day: day.day.clone(),
        busy_ns: day.busy_ns,
        idle_ns: day.idle_ns,
        idle: waits::seen_by(waits::of_rows(&day.idle), &who.0),
    };
    let days = reading.days.iter().filter(|day| day.gpu == gpu);
    let days: Vec<_> = days.map(day).collect();
    if days.is_empty() && !has_worker(&cluster, gpu).await {
        return Err(missing());
    }
    Ok(Json(DeviceDaysModel { gpu, days }))
}

/// True if the device belongs to the cluster although the record does not mention it yet.
async fn has_worker(cluster: &Cluster, gpu: u32) -> bool {
    let moment = cluster.moment().await;
    moment.is_ok_and(|moment| moment.status.workers.iter().any(|it| it.gpu == gpu))
}

/// A position with its times and all of its waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ExplainedModel {
    /// The position.
    #[serde(flatten)]
    position: Position,
    /// Its times; null if they are not recorded.
    times: Option<TimesModel>,
}

/// Explains the wait of a position of the order, and shows its times.
#[utoipa::path(get, path = "/api/v1/order/{position}/why", tag = "why",
    params(("position" = String, Path, description = "its place, `EPOCH.POSITION`")),
    extensions(("x-operation" = json!("order.read"))),
    responses((status = 200, body = ExplainedModel)))]
pub(crate) async fn why_position(
    State(cluster): State<Shared>,
    who: Who,
    PathParams(place): PathParams<String>,
) -> Result<Json<ExplainedModel>, Problem> {
    let missing = || Problem::missing(format_args!("position {place:?} that has ended"));
    let at: At = place.parse().map_err(|_| missing())?;
    let explained = explained(&cluster, &who.0, at).await?.ok_or_else(missing)?;
    let tenant: Tenant = explained.position.tenant.parse().map_err(|_| missing())?;
    visible(&who.0, &tenant).map_err(|_| missing())?;
    let Explained { position, times } = explained.seen_by(&who.0);
    Ok(Json(ExplainedModel { position, times }))
}

/// Finds a position: among the newest ones, around the last lookup, or in the record.
async fn explained(
    cluster: &Cluster,
    who: &Identity,
    at: At,
) -> Result<Option<Explained>, Problem> {
    let follower = cluster.order.begin(&cluster.administrator).await;
    match follower.find(at) {
        Found::None => return Ok(None),
        Found::Kept(told) => {
            if let Some(explained) = told.explained() {
                return Ok(Some(explained));
            }
        }
        Found::Dropped => {}
    }
    if let Some(explained) = cluster.around.find(at) {
        return Ok(Some(explained));
    }
    let _turn = cluster.replay(who).await?;
    cluster.around.look(&cluster.administrator, at).await
}
