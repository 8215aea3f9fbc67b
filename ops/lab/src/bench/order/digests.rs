//! Repeats the same backlogged work on clusters of fresh processes, and checks that the order is always the
//! same.
//!
//! Every run holds grants back. It opens its sessions one after the other in the same order, so that they
//! land on the same workers. Then it queues all ops of all tenants. Once every worker has every op and the
//! leader has every intent, one recorded input releases the grants. Sources of variation are off. Learning
//! and settling are off and the profile is pinned, because both follow measurements. There are no caps and
//! no targets, because those follow ticks. Sessions are closed one after the other once all is done.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use admin::Administrator;
use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use bus_schemas::{ClusterSettings, GpuTail, TenantSettings};
use serde_json::Value;

use super::backlog::{Backlog, OPS, SESSIONS, profile};
use crate::bench::bench_cluster::cluster_of;
use crate::bench::{Goal, Measurement, metrics};
use test_cluster::{Processes, TestCluster};
use warploom_cli::local::LocalCluster;

metrics! {
    DIGESTS = "distinct_digests_50", "digests", Goal::AtMost(1.0),
        "different launch orders of 50 runs of the same backlogged work, 4 tenants on 2 workers, every process fresh; each run's record must replay to its order";
}

/// Number of runs, unless more repetitions are requested.
const RUNS: usize = 50;
const WORKERS: usize = 2;
/// Tenants: name, priority, weight.
const TENANTS: [(&str, u8, u32); 4] = [
    ("amber", 0, 1),
    ("blue", 2, 1),
    ("coral", 2, 3),
    ("dune", 4, 1),
];
/// Time within which the leader has to hear that all is done, once the clients say so.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a run.
struct Run {
    /// Digest over the workers' chains.
    accepted: String,
    /// Digest of the record, replayed by a process of its own.
    replayed: String,
    positions: u64,
}

/// Runs all, and counts the distinct orders.
pub(super) async fn digests(reps: usize, settings: &Settings) -> Result<Measurement> {
    let runs = reps.max(RUNS);
    let mut digests: BTreeMap<String, usize> = BTreeMap::new();
    let (mut strays, mut positions) = (0, 0);
    let began = Instant::now();
    for number in 1..=runs {
        let run = run(settings)
            .await
            .with_context(|| format!("run {number}"))?;
        eprintln!(
            "digests: run {number} of {runs}, {} s: {}",
            began.elapsed().as_secs(),
            run.accepted
        );
        positions = run.positions;
        if run.replayed != run.accepted {
            eprintln!("digests: its record replays to {}", run.replayed);
            strays += 1;
        }
        *digests.entry(run.accepted).or_default() += 1;
    }
    // A record that replays to another order counts as an order of its own.
    let distinct = digests.len() + strays;
    let ops = TENANTS.len() as u64 * SESSIONS as u64 * OPS;
    let commonest = digests.iter().max_by_key(|(_, times)| **times);
    let mut metric = Measurement::new(&DIGESTS, &[distinct as f64])
        .with("runs", runs)
        .with("ops", ops)
        .with("positions", positions)
        .with("tenants", TENANTS.len())
        .with("sessions", TENANTS.len() * SESSIONS)
        .with("workers", WORKERS)
        .with("records_that_lead_elsewhere", strays)
        .with("learn_settle_caps_targets", "off")
        .with(
            "seconds_per_run",
            began.elapsed().as_secs_f64() / runs as f64,
        );
    if let Some((digest, times)) = commonest {
        metric = metric.with("digest", digest.as_str()).with("times", *times);
    }
    Ok(metric)
}

async fn cluster(settings: &Settings) -> Result<TestCluster<Processes>> {
    let tenants = TENANTS.map(|(name, priority, weight)| {
        let settings = TenantSettings {
            priority,
            weight,
            ..TenantSettings::default()
        };
        (name, settings)
    });
    let started = cluster_of(settings, tenants, |options| {
        options.workers = WORKERS;
        options.order = Some(ClusterSettings {
            learn: false,
            settle: false,
            standing: false,
            ..ClusterSettings::default()
        });
        options.profile = profile();
    });
    started.await
}

/// Runs once, on a cluster of its own.
async fn run(settings: &Settings) -> Result<Run> {
    let cluster = cluster(settings).await?;
    let administrator = cluster.administrator().await?;
    let tenants = TENANTS
        .iter()
        .map(|(name, ..)| Backlog::start(&cluster, name));
    let mut tenants: Vec<Backlog> = tenants.collect::<Result<_>>()?;
    administrator.hold(true).await?;
    for _ in 0..SESSIONS {
        tenants
            .iter_mut()
            .try_for_each(|tenant| tenant.does("open"))?;
    }
    tenants
        .iter_mut()
        .try_for_each(|tenant| tenant.tell("submit"))?;
    tenants.iter().try_for_each(Backlog::done)?;
    let status = administrator.status(TIMEOUT).await?;
    let queued: u64 = status.tenants.iter().map(|tenant| tenant.queued).sum();
    let all = TENANTS.len() as u64 * SESSIONS as u64 * OPS;
    if !status.held || queued != all {
        bail!("{queued} of {all} ops are queued, held: {}", status.held);
    }
    administrator.hold(false).await?;
    tenants
        .iter_mut()
        .try_for_each(|tenant| tenant.does("finish"))?;
    for _ in 0..SESSIONS {
        tenants
            .iter_mut()
            .try_for_each(|tenant| tenant.does("close"))?;
    }
    let (accepted, positions) = accepted(&administrator).await?;
    Ok(Run {
        accepted,
        positions,
        replayed: replayed(&cluster)?,
    })
}

/// The digest over the workers' chains, and the length of those, once all grants are accepted and done.
async fn accepted(administrator: &Administrator) -> Result<(String, u64)> {
    let asked = Instant::now();
    loop {
        let status = administrator.status(TIMEOUT).await?;
        let over = status.workers.len() == WORKERS
            && status.tenants.iter().all(|tenant| tenant.sessions == 0)
            && status
                .workers
                .iter()
                .all(|worker| worker.accepted == worker.granted && worker.outstanding_ns == 0);
        if over {
            let tails = status.workers.iter().map(|worker| GpuTail {
                gpu: worker.gpu,
                position: worker.accepted,
                chain: worker.chain,
            });
            let tails: Vec<_> = tails.collect();
            let positions = tails.iter().map(|tail| tail.position).sum();
            return Ok((bus_schemas::digest(&tails).to_string(), positions));
        }
        if asked.elapsed() > TIMEOUT {
            bail!("the workers have not accepted all: {:?}", status.workers);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The digest of the record, from a fresh process that also compares it with the workers' chains.
fn replayed(cluster: &LocalCluster) -> Result<String> {
    let mut role = cluster.role("order verify", "verify", &["--json".into()])?;
    let stdout = role.take_stdout().context("its output")?;
    let said = std::io::read_to_string(stdout)?;
    let ended = role.wait(TIMEOUT)?;
    let check: Value = serde_json::from_str(&said)
        .with_context(|| format!("the verification ended with {ended} and said {said:?}"))?;
    let first = &check["first"];
    match check["digest"].as_str() {
        Some(digest) if first.is_null() => Ok(digest.to_owned()),
        _ => Ok(format!("nothing that agrees: {first}")),
    }
}
