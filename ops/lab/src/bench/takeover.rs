//! The time without a leader after the leader's death, or after it was asked to hand over.

use std::time::{Duration, Instant};

use admin::Administrator;
use anyhow::{Context, Result, bail};
use bus_schemas::{Epoch, GrantBatch, decode};
use futures_util::StreamExt;
use rustix::process::Signal;

use super::bench_cluster::{Bench, ordered_by_leader};
use super::metric::{Measurement, Spec};
use warploom_cli::local::LocalCluster;

/// Number of leaders killed, unless more repetitions are requested.
const KILLS: usize = 10;
/// Number of candidates including the leader: as many as `up` starts.
const CANDIDATES: usize = 3;
/// Time for the replacement of a killed candidate to stand by.
const RECOVERY: Duration = Duration::from_millis(700);
/// Timeout of a takeover; a longer one is a failure.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Signals the leader ten times while a client launches and syncs without pause. The broker's notice of a
/// closed connection is either on or off.
pub(super) async fn takeover(
    bench: &Bench<'_>,
    spec: &Spec,
    signal: Signal,
    system_account: bool,
) -> Result<Measurement> {
    let adjusted = bench.adjusted(|options| {
        options.leaders = CANDIDATES;
        options.order = Some(ordered_by_leader());
        options.system_account = system_account;
    });
    let mut cluster = adjusted.await?;
    let administrator = cluster.administrator().await?;
    let mut load = cluster.role("bench .load", "load", &[])?;
    let everything = administrator.subjects().all();
    let orders = format!("{}s.w.*.order", everything.trim_end_matches('>'));
    let mut orders = administrator.client().subscribe(orders).await?;
    administrator.client().flush().await?;
    first_grant_above(0, &mut orders)
        .await
        .context("the load was granted nothing")?;
    let kills = bench.reps.max(KILLS);
    let mut times = Vec::new();
    for kill in 1..=kills {
        tokio::time::sleep(RECOVERY).await;
        eprintln!("{}: {kill} of {kills}", spec.name);
        times.push(end_leader(&mut cluster, signal, &administrator, &mut orders).await?);
        if !load.is_running() {
            let log = std::fs::read_to_string(cluster.log("load")).unwrap_or_default();
            bail!("the load did not survive its leader: {log}");
        }
    }
    load.kill()?;
    let metric = Measurement::new(spec, &times);
    Ok(metric.with("kills", kills).with("candidates", CANDIDATES))
}

/// Ends the leader and replaces it. Returns the milliseconds to the next epoch's first grant.
async fn end_leader(
    cluster: &mut LocalCluster,
    signal: Signal,
    administrator: &Administrator,
    orders: &mut async_nats::Subscriber,
) -> Result<f64> {
    let status = administrator.status(Duration::from_secs(5)).await?;
    let leader = cluster
        .leader(status.leader)
        .context("the leader is not ours")?;
    let killed = Instant::now();
    leader.signal(signal)?;
    first_grant_above(status.epoch, orders)
        .await
        .context("no successor grants anything")?;
    let took = killed.elapsed();
    let leader = cluster
        .leader(status.leader)
        .context("the leader is not ours")?;
    leader.wait(Duration::from_secs(5))?;
    cluster.leaders.retain(|(id, _)| *id != status.leader);
    cluster.start_leader()?;
    Ok(took.as_secs_f64() * 1e3)
}

async fn first_grant_above(epoch: Epoch, orders: &mut async_nats::Subscriber) -> Result<()> {
    let wait = async {
        while let Some(message) = orders.next().await {
            let batch = decode::<GrantBatch<'_>>(&message.payload).ok();
            if batch.is_some_and(|batch| batch.epoch > epoch && !batch.grants.is_empty()) {
                return Ok(());
            }
        }
        bail!("the connection closed")
    };
    tokio::time::timeout(TIMEOUT, wait)
        .await
        .context("waited in vain")?
}
