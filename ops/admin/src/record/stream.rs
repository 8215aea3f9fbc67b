//! The record in the cluster's stream.

use std::time::{Duration, Instant};

use anyhow::Result;
use bus_schemas::{GpuTail, Status};

use super::messages::{Uncut, blocks_of};
use super::{Block, Record};
use crate::administrator::Administrator;

/// The cluster's record so far, with the ends of the workers' chains. The record includes
/// everything that the workers had accepted when they were asked. The ends are left out if no leader
/// answers, or if leaders keep changing.
///
/// # Errors
/// If there is no stream, or if it stalls.
pub async fn of_cluster(administrator: &Administrator) -> Result<Record> {
    let recorded = recorded_status(administrator).await;
    Ok(Record {
        cluster: administrator.subjects().cluster().to_string(),
        blocks: stream_blocks(administrator).await?,
        ends: ends(recorded.as_ref()),
        marks: Vec::new(),
    })
}

/// Asks the leader until the record includes one of its answers, and returns that one. The answer
/// names all workers, unless one of them stays silent until the patience ends.
async fn recorded_status(administrator: &Administrator) -> Option<Status> {
    let asked = Instant::now();
    let mut first = administrator.status(administrator.glance()).await.ok()?;
    let mut answer = Some(first.clone());
    loop {
        let late = asked.elapsed() > administrator.patience();
        if let Some(now) = answer {
            // Another leader, or another term of the same one, may have taken over less.
            if now.epoch != first.epoch || (first.partial && !now.partial) {
                first.clone_from(&now);
            }
            if now.recorded >= first.input && (!first.partial || late) {
                return Some(first);
            }
        }
        if late {
            return None;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        answer = administrator.status(administrator.patience()).await.ok();
    }
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
    let mut uncut = Uncut::begin(administrator).await?;
    loop {
        let blocks = blocks_of(administrator, None).await?;
        if uncut.is_whole(administrator).await? {
            return Ok(blocks);
        }
    }
}
