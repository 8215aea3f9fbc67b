//! Memory of idle roles and idle sessions, and the binary's size.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::bench_cluster::{Bench, TIMEOUT};
use super::goals;
use super::memory::resident_kib;
use super::metric::Measurement;
use warploom_cli::local::LocalCluster;

/// Sessions opened.
const SESSIONS: usize = 1_000;
/// Time in which memory from the start is given back.
const SETTLE: Duration = Duration::from_secs(1);

/// Size of this program's own binary, if it is a release build.
pub(super) fn binary() -> Result<Measurement> {
    if cfg!(debug_assertions) {
        return Ok(Measurement::missing(
            &goals::BINARY,
            "this is not a release build",
        ));
    }
    let own = std::env::current_exe().context("finding this program's own binary")?;
    let bytes = own
        .metadata()
        .context("reading this program's own binary")?
        .len();
    Ok(Measurement::new(&goals::BINARY, &[bytes as f64 / 1e6]))
}

/// Memory of idle roles, and the growth by 1,000 idle sessions, with a fresh cluster for each repetition.
pub(super) async fn resident(bench: &Bench<'_>, with_sessions: bool) -> Result<Vec<Measurement>> {
    let (mut leaders, mut workers, mut sessions) = (vec![], vec![], vec![]);
    let mut parts = vec![vec![]; PROCESSES.len()];
    for rep in 1..=bench.reps {
        eprintln!("footprint: repetition {rep} of {}", bench.reps);
        let cluster = bench.cluster(1).await?;
        tokio::time::sleep(SETTLE).await;
        let [_, leader, worker] = resident_roles(&cluster)?;
        leaders.push(leader / 1024.0);
        workers.push(worker / 1024.0);
        if with_sessions {
            let grown = open_sessions(&cluster).await?;
            sessions.push(grown.iter().sum());
            parts
                .iter_mut()
                .zip(grown)
                .for_each(|(part, grown)| part.push(grown));
        }
    }
    let mut metrics = vec![
        Measurement::new(&goals::LEADER_RSS, &leaders),
        Measurement::new(&goals::WORKER_RSS, &workers),
    ];
    if with_sessions {
        let mut metric = Measurement::new(&goals::SESSION, &sessions).with("sessions", SESSIONS);
        for (process, values) in PROCESSES.iter().zip(&parts) {
            metric = metric.with(&format!("{process}_kib"), super::metric::median(values));
        }
        metrics.push(metric);
    }
    Ok(metrics)
}

const PROCESSES: [&str; 4] = ["broker", "leader", "worker", "client"];

fn resident_roles(cluster: &LocalCluster) -> Result<[f64; 3]> {
    let leader = cluster.leaders.first().context("a leader")?.1.pid();
    let worker = cluster.workers.first().context("a worker")?.pid();
    let pids = [cluster.broker.pid(), leader, worker].map(resident_kib);
    let [broker, leader, worker] = pids;
    Ok([broker?, leader?, worker?])
}

/// Growth of each process by one more session, in KiB.
async fn open_sessions(cluster: &LocalCluster) -> Result<[f64; 4]> {
    let mut client = cluster.role(
        "bench .sessions",
        "sessions",
        &[format!("--reps={SESSIONS}")],
    )?;
    let said = BufReader::new(client.take_stdout().context("the client's output")?);
    let mut said = said.lines();
    let mut seen = Vec::new();
    // The process says "ready" with its first session open. After a line from us it says "open" with the
    // rest.
    for expected in ["ready", "open"] {
        let read = tokio::task::spawn_blocking(move || (said.next(), said));
        let Ok(read) = tokio::time::timeout(TIMEOUT, read).await else {
            client.kill()?;
            bail!("the client that opens sessions is not {expected} after {TIMEOUT:?}");
        };
        let (line, rest) = read?;
        said = rest;
        if line.transpose()?.as_deref() != Some(expected) {
            let log = std::fs::read_to_string(cluster.log("sessions")).unwrap_or_default();
            bail!("the client that opens sessions is not {expected}: {log}");
        }
        tokio::time::sleep(SETTLE).await;
        let [broker, leader, worker] = resident_roles(cluster)?;
        seen.push([broker, leader, worker, resident_kib(client.pid())?]);
        if expected == "ready" {
            client.say("go")?;
        }
    }
    Ok(std::array::from_fn(|process| {
        (seen[1][process] - seen[0][process]) / SESSIONS as f64
    }))
}
