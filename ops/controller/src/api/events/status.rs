//! Events for the cluster's status, once a second, and for sessions that failed.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::stream::{Source, StreamSlot, Woken, respond};
use crate::access::{Operation, Scope};
use crate::api::cluster::ClusterModel;
use crate::api::failures::sees;
use crate::api::tenants::{Figures, TenantModel};
use crate::api::workers::WorkerModel;
use crate::cluster::Shared;
use crate::http::extract::Who;
use crate::problem::Problem;

/// Maximum number of failures of the first list.
const LISTED: usize = 200;
/// Interval between two events.
const PERIOD: Duration = Duration::from_secs(1);

struct Statuses {
    slot: StreamSlot,
    cluster: Shared,
    pause: Duration,
    /// Number of the next failure to send; `None` before the list of those that are kept.
    next_failure: Option<u64>,
}

#[derive(Serialize)]
struct StatusModel {
    cluster: ClusterModel,
    workers: Vec<WorkerModel>,
    tenants: Vec<TenantModel>,
}

impl Source for Statuses {
    fn slot(&mut self) -> &mut StreamSlot {
        &mut self.slot
    }

    async fn next(&mut self) -> Option<Bytes> {
        if let Some(greeting) = self.slot.greeting() {
            return Some(greeting);
        }
        let pause = std::mem::replace(&mut self.pause, PERIOD);
        let due = async {
            tokio::time::sleep(pause).await;
            true
        };
        match self.slot.wait(due).await {
            Woken::End => None,
            Woken::News | Woken::Silence => Some(match self.status().await {
                Ok(status) => (self.failures() + &event("status", &status)).into(),
                Err(problem) => event("problem", &problem).into(),
            }),
        }
    }
}

/// The text of an event.
fn event(name: &str, data: &impl Serialize) -> String {
    // Serializing numbers and short texts to JSON cannot fail.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

impl Statuses {
    /// Events of the failures: first one with a list of those that are kept, then one for each new
    /// one. None until the record has been read.
    fn failures(&mut self) -> String {
        let order = &self.cluster.order;
        let Some(failures) = order.failures(&self.cluster.administrator) else {
            return String::new();
        };
        let (mut rows, next) = failures.from(self.next_failure.unwrap_or(0));
        let is_first = self.next_failure.replace(next).is_none();
        rows.retain(|row| sees(self.slot.identity(), row));
        if !is_first {
            return rows.iter().map(|row| event("failure", &**row)).collect();
        }
        let newest = rows.len().saturating_sub(LISTED);
        let listed: Vec<_> = rows.iter().skip(newest).map(|row| &**row).collect();
        event("failures", &listed)
    }

    async fn status(&self) -> Result<StatusModel, Problem> {
        let moment = self.cluster.moment().await?;
        let figures = Figures::of(&moment);
        let view = &self.cluster.view;
        let rows = view.tenants("", usize::MAX, |tenant| self.slot.identity().sees(tenant));
        let workers = match self.slot.identity().scope(Operation::WorkersRead) {
            Scope::All => WorkerModel::all(&moment),
            _ => Vec::new(),
        };
        Ok(StatusModel {
            cluster: ClusterModel::of(&self.cluster, &moment.status, self.slot.identity()),
            workers,
            tenants: rows.iter().map(|row| figures.model(row)).collect(),
        })
    }
}

/// Streams the cluster, workers and tenants once a second: `event: status`, without an id; `event:
/// problem` if no leader answers. Before a status, once the record has been read, comes `event:
/// failures`: the newest 200 sessions that failed, as items of `GET /api/v1/failures`, the oldest
/// first. From then on `event: failure` tells each further one.
#[utoipa::path(get, path = "/api/v1/events/status", tag = "events",
    extensions(("x-operation" = json!("events.read"))),
    responses((status = 200, description = "events", body = String, content_type = "text/event-stream")))]
pub(crate) async fn status_events(
    State(cluster): State<Shared>,
    who: Who,
) -> Result<Response, Problem> {
    let slot = StreamSlot::take(&cluster, who.0)?;
    Ok(respond(Statuses {
        slot,
        cluster,
        pause: Duration::ZERO,
        next_failure: None,
    }))
}
