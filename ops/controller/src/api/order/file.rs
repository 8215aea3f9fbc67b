//! Files of orders: written, and compared with the cluster's own.

use anyhow::{Context as _, Result};
use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;
use warploom_cli::record::{
    Difference, Format, PositionRow, Record, difference, is_record, of_cluster, read, read_listing,
    rows, write_listing,
};

use crate::cluster::Shared;
use crate::http::extract::{BODY, Who, in_time};
use crate::position::Position;
use crate::problem::Problem;

/// Bytes of a file that is compared at most.
const FILE: usize = 64 << 20;

/// A record as a file of this format.
pub(super) fn write(mut record: Record, format: Format) -> Result<Vec<u8>> {
    let replayed = record.replay_whole()?;
    if format == Format::Record {
        // Marks are counted from a worker's first position on.
        if replayed.anchor.is_none() {
            record.set_marks(&replayed.positions);
        }
        return warploom_cli::record::write(&record);
    }
    let mut bytes = Vec::new();
    write_listing(&rows(&replayed), format, &mut bytes)?;
    Ok(bytes)
}

/// Two orders compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Compared {
    /// Whether they are the same.
    same: bool,
    /// Each worker's part.
    gpus: Vec<ComparedGpu>,
    /// The first place where they part.
    first: Option<Parting>,
}

/// One worker's part of two orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ComparedGpu {
    /// The device.
    gpu: u32,
    /// The worker's number among the device's, from 1.
    worker: u64,
    /// Positions of the cluster's order.
    own: u64,
    /// Positions of the file's.
    other: u64,
    /// Positions that are the same, from the first on.
    same: u64,
}

/// Where two orders part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Parting {
    /// The device.
    gpu: u32,
    /// The position.
    position: u64,
    /// What the cluster's order has there.
    own: Option<Position>,
    /// What the file has.
    other: Option<Position>,
}

impl From<Difference> for Compared {
    fn from(found: Difference) -> Self {
        let position = |row: Option<Box<PositionRow>>| row.map(|row| Position::of(*row, None));
        Self {
            same: found.first.is_none(),
            gpus: found
                .gpus
                .iter()
                .map(|gpu| ComparedGpu {
                    gpu: gpu.gpu,
                    worker: gpu.worker as u64,
                    own: gpu.left as u64,
                    other: gpu.right as u64,
                    same: gpu.same as u64,
                })
                .collect(),
            first: found.first.map(|apart| Parting {
                gpu: apart.gpu,
                position: apart.position,
                own: position(apart.left),
                other: position(apart.right),
            }),
        }
    }
}

/// Compares the cluster's order with one that was exported: a record, CSV or JSON lines.
#[utoipa::path(post, path = "/api/v1/order/compare", tag = "order",
    request_body(content_type = "application/octet-stream", description = "the file, 64 MiB at most"),
    extensions(("x-operation" = json!("order.verify"))),
    responses((status = 200, body = Compared)))]
pub(crate) async fn compare(
    State(cluster): State<Shared>,
    who: Who,
    body: Body,
) -> Result<Json<Compared>, Problem> {
    let _turn = cluster.replay(&who.0).await?;
    // Not before there is a place, for a file is large; and not for long, for the place is the only one.
    let file = in_time(to_bytes(body, FILE), BODY).await?;
    let file = file.map_err(|_| Problem::too_large("a file to compare is 64 MiB at most"))?;
    let record = of_cluster(&cluster.administrator).await?;
    let compared = tokio::task::spawn_blocking(move || -> Result<Difference, Problem> {
        let other = theirs(&file);
        let other = other.map_err(|error| Problem::invalid(format!("the file: {error:#}")))?;
        let own = rows(&record.replay()?);
        Ok(difference(&own, &other))
    });
    let compared = compared.await;
    let compared = compared.map_err(|error| Problem::internal(error.to_string()))??;
    Ok(Json(compared.into()))
}

fn theirs(file: &[u8]) -> Result<Vec<PositionRow>> {
    if is_record(file) {
        let record = read(file)?;
        return Ok(rows(&record.replay().context("its record")?));
    }
    read_listing(file)
}
