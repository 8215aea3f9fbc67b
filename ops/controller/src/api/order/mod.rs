//! The launch order: its positions, its verification against the workers, and its files.

pub(crate) mod file;
mod window;

use admin::calendar::now_ms;
use admin::record::{Format, of_cluster};
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use serde::{Deserialize, Serialize};
use telemetry::Verified;
use utoipa::{IntoParams, ToSchema};

use super::identity::asked_tenant;
use crate::access::Operation;
use crate::cluster::Shared;
use crate::http::extract::{QueryParams, Who};
use crate::http::paging::limit;
use crate::position::{At, Position};
use crate::problem::Problem;
pub(crate) use window::Only;
use window::Window;

/// Selection of positions.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OrderQuery {
    /// The first positions after this one (`EPOCH.POSITION`).
    #[param(example = "3.1742")]
    after: Option<String>,
    /// The last positions before this one.
    before: Option<String>,
    /// Maximum number of positions, 1 to 1,000; the default is 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only this tenant.
    tenant: Option<String>,
    /// Only this device.
    gpu: Option<u32>,
}

/// Positions of the order, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct OrderModel {
    /// The positions with a recorded end.
    items: Vec<Position>,
    /// The oldest position of the record; null if the record is empty.
    oldest: Option<String>,
    /// The newest position of the record.
    newest: Option<String>,
}

/// Filter by tenant and device, restricted to what the caller may see.
pub(crate) fn only(who: &Who, tenant: Option<&str>, gpu: Option<u32>) -> Result<Only, Problem> {
    let tenant = asked_tenant(&who.0, Operation::OrderRead, tenant)?;
    Ok(Only { tenant, gpu })
}

fn place(name: &str, text: Option<&String>) -> Result<Option<At>, Problem> {
    let place = text.map(|text| text.parse::<At>()).transpose();
    place.map_err(|why| Problem::malformed(format!("query: {name}: {why}")))
}

/// Lists positions of the order: the newest ones, or those around any recorded position.
#[utoipa::path(get, path = "/api/v1/order", tag = "order", params(OrderQuery),
    extensions(("x-operation" = json!("order.read"))),
    responses((status = 200, body = OrderModel)))]
pub(crate) async fn order(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(asked): QueryParams<OrderQuery>,
) -> Result<Json<OrderModel>, Problem> {
    let window = Window {
        after: place("after", asked.after.as_ref())?,
        before: place("before", asked.before.as_ref())?,
        limit: limit(asked.limit)?,
        only: only(&who, asked.tenant.as_deref(), asked.gpu)?,
    };
    let follower = cluster.order.begin(&cluster.administrator).await;
    let newest = follower.all();
    let items = match window.of_newest(&newest) {
        Some(items) => items,
        None => {
            let _turn = cluster.replay(&who.0).await?;
            window.of_record(&cluster.administrator).await?
        }
    };
    let place = |at: Option<At>| at.map(|at| at.to_string());
    let items = items.into_iter().map(|position| position.seen_by(&who.0));
    Ok(Json(OrderModel {
        items: items.collect(),
        oldest: place(newest.oldest),
        newest: place(newest.rows.iter().map(|told| told.at).max()),
    }))
}

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct VerifiedModel {
    /// True if no disagreement was found.
    ok: bool,
    /// The order's digest.
    digest: String,
    /// Positions recomputed or adopted.
    positions: u64,
    /// Positions compared with a worker's chain or with the record's own statement of it.
    compared: u64,
    /// Positions taken from workers because their inputs were lost with a leader.
    adopted: u64,
    /// Accepted positions that no source describes.
    skipped: u64,
    /// Positions that are missing from the record, by the record's own account.
    unrecorded: u64,
    /// The disagreements.
    disagreements: Vec<String>,
}

/// Recomputes the order from the record and compares it with the workers' chains.
#[utoipa::path(post, path = "/api/v1/order/verify", tag = "order",
    extensions(("x-operation" = json!("order.verify"))),
    responses((status = 200, body = VerifiedModel)))]
pub(crate) async fn verify(
    State(cluster): State<Shared>,
    who: Who,
) -> Result<Json<VerifiedModel>, Problem> {
    let _turn = cluster.replay(&who.0).await?;
    let record = of_cluster(&cluster.administrator).await?;
    let check = tokio::task::spawn_blocking(move || record.verify()).await;
    let check = check.map_err(|error| Problem::internal(error.to_string()))?;
    cluster.telemetry.meters().controller().verified(Verified {
        same: check.first.is_none(),
        at_ms: now_ms(),
    });
    let disagreements = check.first.iter().map(|first| {
        let (gpu, position, why) = (first.gpu, first.position, &first.why);
        format!("gpu {gpu} position {position}: {why}")
    });
    Ok(Json(VerifiedModel {
        ok: check.first.is_none(),
        digest: check.digest.clone(),
        positions: check.positions,
        compared: check.compared,
        adopted: check.adopted,
        skipped: check.skipped,
        unrecorded: check.gap_positions,
        disagreements: disagreements.collect(),
    }))
}

/// The format of an export.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportQuery {
    /// `record` (can be replayed without a cluster), `csv` or `jsonl`; the default is `record`.
    #[param(example = "record")]
    format: Option<String>,
}

/// Returns the order as a file, as `warploom order export` writes it.
#[utoipa::path(get, path = "/api/v1/order/export", tag = "order", params(ExportQuery),
    extensions(("x-operation" = json!("order.export"))),
    responses((status = 200, description = "the file", content(
        (String = "text/csv"), (String = "application/jsonl"), ("application/octet-stream")))))]
pub(crate) async fn export(
    State(cluster): State<Shared>,
    who: Who,
    QueryParams(asked): QueryParams<ExportQuery>,
) -> Result<([(HeaderName, HeaderValue); 2], Bytes), Problem> {
    let (format, kind, name) = match asked.format.as_deref().unwrap_or("record") {
        "record" => (Format::Record, "application/octet-stream", "order.record"),
        "csv" => (Format::Csv, "text/csv", "order.csv"),
        "jsonl" => (Format::Jsonl, "application/jsonl", "order.jsonl"),
        other => {
            let why = format!("query: format: {other:?} is none of record, csv, jsonl");
            return Err(Problem::malformed(why));
        }
    };
    let _turn = cluster.replay(&who.0).await?;
    let record = of_cluster(&cluster.administrator).await?;
    let written = tokio::task::spawn_blocking(move || file::write(record, format)).await;
    let written = written.map_err(|error| Problem::internal(error.to_string()))??;
    let disposition = format!("attachment; filename=\"{name}\"");
    let disposition = HeaderValue::from_str(&disposition);
    let disposition = disposition.unwrap_or(HeaderValue::from_static("attachment"));
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_DISPOSITION, disposition),
    ];
    Ok((headers, written.into()))
}
