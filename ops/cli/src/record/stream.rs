//! The record as the cluster's stream has it.

use std::time::{Duration, Instant};

use anyhow::Result;
use bus_schemas::{GpuTail, Status};

use super::messages::blocks_of;
use super::{Block, Record};
use crate::admin::Administrator;

/// The cluster's record so far, with where the workers say that their chains are. What they had
/// accepted when they were asked is recorded; where leaders change all the time, nothing is said of it.
///
/// # Errors
/// When there is no stream, or it stalls.
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
            // Another leader, or another term of the same: it may have handed over less.
            seen.clone_from(&status);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        status = administrator.status(administrator.patience()).await.ok();
    }
    Ok(Record {
        cluster: administrator.subjects().cluster().to_string(),
        blocks: stream_blocks(administrator).await?,
        // Without an answer nobody knows whether it is recorded.
        ends: ends(status.and(seen).as_ref()),
        marks: Vec::new(),
    })
}

/// Where the workers' chains are, as the leader heard.
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
/// When there is no stream, it stalls, or a message in it is no block.
pub async fn stream_blocks(administrator: &Administrator) -> Result<Vec<Block>> {
    blocks_of(administrator, None).await
}
