//! Events for the cluster's status, once a second, and for sessions that failed.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;

use super::stream::{Source, StreamSlot, Woken, respond};
use crate::access::{Operation, Scope};
use crate::api::cluster::ClusterModel;
use crate::api::faults::sees;
use crate::api::tenants::{Figures, TenantModel};
use crate::api::workers::WorkerModel;
use crate::cluster::Shared;
use crate::http::extract::Who;
use crate::problem::Problem;

/// Interval between two events.
const PERIOD: Duration = Duration::from_secs(1);

struct Statuses {
    slot: StreamSlot,
    cluster: Shared,
    pause: Duration,
    /// Number of the next failure to send.
    next_fault: u64,
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
                Ok(status) => {
                    // Serializing numbers and short texts to JSON cannot fail.
                    let data = serde_json::to_string(&status).unwrap_or_default();
                    let faults = self.faults();
                    format!("{faults}event: status\ndata: {data}\n\n").into()
                }
                Err(problem) => {
                    let data = serde_json::to_string(&problem).unwrap_or_default();
                    format!("event: problem\ndata: {data}\n\n").into()
                }
            }),
        }
    }
}

impl Statuses {
    /// Events of the failures that were not sent yet.
    fn faults(&mut self) -> String {
        let faults = self.cluster.order.faults(&self.cluster.administrator);
        let (rows, next) = faults.from(self.next_fault);
        self.next_fault = next;
        let seen = rows.iter().filter(|row| sees(self.slot.identity(), row));
        seen.map(|row| {
            // Serializing numbers and short texts to JSON cannot fail.
            let data = serde_json::to_string(&**row).unwrap_or_default();
            format!("event: fault\ndata: {data}\n\n")
        })
        .collect()
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
            cluster: ClusterModel::of(&self.cluster, &moment.status),
            workers,
            tenants: rows.iter().map(|row| figures.model(row)).collect(),
        })
    }
}

/// Streams the cluster, workers and tenants once a second: `event: status`, without an id; `event:
/// problem` if no leader answers. Before a status comes `event: fault` for each session that has
/// failed, with an item of `GET /api/v1/faults` as data; at first for those that are kept.
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
        next_fault: 0,
    }))
}
