//! The record in the cluster's stream.

use std::time::{Duration, Instant};

use anyhow::Result;
use bus_schemas::{GpuTail, Status};

use super::messages::blocks_of;
use super::{Block, Record};
use crate::administrator::Administrator;

/// The cluster's record so far, with the ends of the workers' chains. The record includes
/// everything that the workers had accepted when they were asked. If leaders keep changing, the
/// ends are left out.
///
/// # Errors
/// If there is no stream, or if it stalls.
pub async fn of_cluster(administrator: &Administrator) -> Result<Record> {
    let asked = Instant::now();
    let mut seen = administrator.status(administrator.glance()).await.ok();
    let mut status = seen.clone();
    while let (Some(first), Some(now)) = (&seen, &status) {
        if now.epoch == first.epoch && now.recorded >= first.input {
            break;
        }
        if asked.elapsed() > administrator.patience() {
            seen = None;
            break;
        }
        if now.epoch != first.epoch {
            // Another leader, or another term of the same one: it may have handed over less.
            seen.clone_from(&status);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        status = administrator.status(administrator.patience()).await.ok();
    }
    Ok(Record {
        cluster: administrator.subjects().cluster().to_string(),
        blocks: stream_blocks(administrator).await?,
        // Without an answer, it is unknown if the chains are recorded.
        ends: ends(status.and(seen).as_ref()),
        marks: Vec::new(),
    })
}

/// The ends of the workers' chains, as the leader heard them.
fn ends(status: Option<&Status>) -> Vec<(bus_schemas::Incarnation, GpuTail)> {
    let workers = status.into_iter().flat_map(|status| &status.workers);
    let live = workers.filter(|worker| !worker.lost && worker.accepted > 0);
    live.map(|worker| {
        let tail = GpuTail {
            gpu: worker.gpu,
            position: worker.accepted,
            chain: worker.chain,
        };
        (worker.incarnation, tail)
    })
    .collect()
}

/// All blocks of the record stream.
///
/// # Errors
/// If there is no stream, if it stalls, or if a message in it is no block.
pub async fn stream_blocks(administrator: &Administrator) -> Result<Vec<Block>> {
    blocks_of(administrator, None).await
}
