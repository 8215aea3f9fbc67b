//! Groups of workers. A group exists as long as a worker or a tenant names it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::workers::WorkerModel;
use crate::cluster::Shared;
use crate::http::extract::QueryParams;
use crate::http::paging::{Page, Paged};
use crate::problem::Problem;

/// A group of workers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct GroupModel {
    /// Its name.
    name: String,
    /// True if its workers take only tenants bound to the group, one at a time.
    exclusive: bool,
    /// Its workers, by id.
    workers: Vec<String>,
    /// The tenants bound to it.
    tenants: Vec<String>,
    /// Bytes that sessions may hold on its workers in all.
    capacity: u64,
    /// Free bytes of the capacity.
    free: u64,
}

/// Lists groups of workers.
#[utoipa::path(get, path = "/api/v1/groups", tag = "workers", params(Page),
    extensions(("x-operation" = json!("workers.read"))),
    responses((status = 200, body = Paged<GroupModel>)))]
pub(crate) async fn groups(
    State(cluster): State<Shared>,
    QueryParams(page): QueryParams<Page>,
) -> Result<Json<Paged<GroupModel>>, Problem> {
    let workers = WorkerModel::all(&cluster.moment().await?);
    let mut groups: BTreeMap<String, GroupModel> = BTreeMap::new();
    for worker in workers {
        let Some(name) = worker.group else {
            continue;
        };
        let group = groups.entry(name).or_default();
        group.exclusive |= worker.exclusive;
        group.workers.push(worker.id);
        group.capacity += worker.capacity.unwrap_or(0);
        group.free += worker.free.unwrap_or(0);
    }
    for tenant in cluster.view.tenants("", usize::MAX, |_| true) {
        for name in tenant.settings.groups.names() {
            let group = groups.entry(name.to_owned()).or_default();
            group.tenants.push(tenant.name.to_string());
        }
    }
    let named = groups
        .into_iter()
        .map(|(name, group)| GroupModel { name, ..group });
    page.cut(named, |group| group.name.clone()).map(Json)
}
