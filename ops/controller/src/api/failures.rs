//! Sessions that failed.

use axum::Json;
use axum::extract::State;
use bus_schemas::Tenant;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::identity::asked_tenant;
use crate::access::{Identity, Operation, Scope};
use crate::cluster::Shared;
use crate::failures::FailureModel;
use crate::http::extract::{QueryParams, Who};
use crate::http::paging::limit;
use crate::problem::Problem;

/// Selection of failures.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct FailureQuery {
    /// Only this tenant.
    tenant: Option<String>,
    /// Maximum number of items, 1 to 1,000; the default is 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
}

/// Failures of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FailuresModel {
    /// The failures, the newest first.
    items: Vec<FailureModel>,
}

/// Returns true if the caller may see the sessions of a failure's tenant.
pub(crate) fn sees(who: &Identity, fault: &FailureModel) -> bool {
    match who.scope(Operation::SessionsRead) {
        Scope::All => true,
        Scope::None => false,
        Scope::Own => {
            let own = who.tenant.as_ref().map(Tenant::as_str);
            own == Some(fault.tenant.as_str())
        }
    }
}

/// Lists sessions that failed, the newest first. At least 1,000 are kept, as far back as the record
/// goes. For a kernel's fault it tells the kernel, the line, the thread and the allocation that it
/// missed.
#[utoipa::path(get, path = "/api/v1/failures", tag = "sessions", params(FailureQuery),
    extensions(("x-operation" = json!("sessions.read"))),
    responses((status = 200, body = FailuresModel)))]
pub(crate) async fn failures(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(asked): QueryParams<FailureQuery>,
) -> Result<Json<FailuresModel>, Problem> {
    let tenant = asked_tenant(&who.0, Operation::SessionsRead, asked.tenant.as_deref())?;
    let limit = limit(asked.limit)?;
    let follower = cluster.order.begin(&cluster.administrator).await;
    let (rows, _) = follower.failures().from(0);
    let rows = rows.iter().rev().filter(|row| sees(&who.0, row));
    let rows = rows.filter(|row| tenant.as_ref().is_none_or(|it| it.as_str() == row.tenant));
    Ok(Json(FailuresModel {
        items: rows
            .take(limit)
            .map(|row| FailureModel::clone(row))
            .collect(),
    }))
}
