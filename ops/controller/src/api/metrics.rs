//! The metrics of this controller and of the cluster, in the Prometheus text format.

use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, header};
use telemetry::METRICS_TYPE;

use crate::access::Role;
use crate::cluster::Shared;
use crate::http::extract::Who;

/// Returns the metrics of this controller and of the cluster in the Prometheus text format. A
/// tenant-admin gets those of its tenant.
#[utoipa::path(get, path = "/metrics", tag = "cluster",
    extensions(("x-operation" = json!("cluster.read"))),
    responses((status = 200, description = "the page", content((String = "text/plain")))))]
pub(crate) async fn metrics(
    State(cluster): State<Shared>,
    Who(identity): Who,
) -> ([(HeaderName, HeaderValue); 1], String) {
    cluster.measure().await;
    let page = match (identity.role, &identity.tenant) {
        (Role::TenantAdmin, Some(tenant)) => cluster.telemetry.exposition_of(tenant),
        (Role::TenantAdmin, None) => None,
        _ => cluster.telemetry.exposition(),
    };
    let kind = HeaderValue::from_static(METRICS_TYPE);
    ([(header::CONTENT_TYPE, kind)], page.unwrap_or_default())
}
