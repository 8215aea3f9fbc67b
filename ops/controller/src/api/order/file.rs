//! Order files: export, and comparison with the cluster's order.

use admin::record::{
    Difference, Format, PositionRow, Record, difference, is_record, of_cluster, read, read_listing,
    rows, write_listing,
};
use anyhow::{Context as _, Result};
use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use crate::cluster::Shared;
use crate::http::extract::{BODY, Who, in_time};
use crate::position::Position;
use crate::problem::Problem;

/// Maximum size of a file to compare, in bytes.
const FILE: usize = 64 << 20;

/// Encodes a record as a file of this format.
pub(super) fn write(mut record: Record, format: Format) -> Result<Vec<u8>> {
    let replayed = record.replay_whole()?;
    if format == Format::Record {
        // Marks count from a worker's first position.
        if replayed.anchor.is_none() {
            record.set_marks(&replayed.positions);
        }
        return admin::record::write(&record);
    }
    let mut bytes = Vec::new();
    write_listing(&rows(&replayed), format, &mut bytes)?;
    Ok(bytes)
}

/// The comparison of two orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Compared {
    /// True if the orders are equal.
    same: bool,
    /// Each worker's part.
    gpus: Vec<ComparedGpu>,
    /// The first difference.
    first: Option<Parting>,
}

/// One worker's part of two orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ComparedGpu {
    /// The device.
    gpu: u32,
    /// The worker's number among the device's, from 1.
    worker: u64,
    /// Positions in the cluster's order.
    own: u64,
    /// Positions in the file's order.
    other: u64,
    /// Number of leading positions that are equal.
    same: u64,
}

/// The first difference of two orders.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Parting {
    /// The device.
    gpu: u32,
    /// The position.
    position: u64,
    /// The position in the cluster's order.
    own: Option<Position>,
    /// The position in the file.
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

/// Compares the cluster's order with an exported one: a record, CSV or JSON lines.
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
    // The body is read only after a slot is taken, for a file is large. The read has a time limit,
    // for the slot is the only one.
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
