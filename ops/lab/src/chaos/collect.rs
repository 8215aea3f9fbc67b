//! The remains of a run: the replayed record, and the evidence of all roles and programs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use admin::evidence::{Evidence, Started, read_lines};
use anyhow::{Context, Result};

use super::strikes::Strikes;
use serde::Deserialize;

use crate::demo::ReplaySummary;
use warploom_cli::local::LocalCluster;

/// Maximum duration of a replay.
const REPLAY: Duration = Duration::from_secs(300);

/// Drains the cluster. A failure becomes a complaint.
pub(super) async fn drain(strikes: &mut Strikes, complaints: &mut Vec<String>) {
    let drained = strikes.cluster.drain_unless(std::future::pending()).await;
    complaints.extend(drained.err().map(|error| format!("{error:#}")));
}

/// Replays the record in a fresh process, and gathers the evidence. A replay without a result becomes a
/// complaint.
///
/// `submitted` are the logs of programs that this run does not restart.
pub(super) async fn collect(
    strikes: &mut Strikes,
    submitted: &[PathBuf],
    complaints: &mut Vec<String>,
) -> Result<(Option<ReplaySummary>, Evidence)> {
    let cluster = &strikes.cluster;
    let dir = cluster.options().state_dir.clone();
    let order = dir.join("order.jsonl");
    let arguments = [
        "--json".to_owned(),
        format!("--order={}", order.display()),
        "--set=command.deadline=15s".to_owned(),
    ];
    let mut role = cluster.role("replay", "replay", &arguments)?;
    let stdout = role.take_stdout().context("the replay's output")?;
    let said = tokio::task::spawn_blocking(|| std::io::read_to_string(stdout)).await??;
    let ended = role.wait(REPLAY)?;
    let replayed: Option<ReplaySummary> = serde_json::from_str(&said).ok();
    if !ended.success() || replayed.is_none() {
        let why = std::fs::read_to_string(cluster.log("replay")).unwrap_or_default();
        complaints.push(format!("the replay failed: {}", why.trim()));
    }
    let mut evidence = Evidence {
        kills: strikes.kills.clone(),
        faults: strikes.faults.clone(),
        ..Evidence::default()
    };
    if order.exists() {
        evidence.order = read_lines(&order)?;
    }
    if let Some(replayed) = &replayed {
        evidence.digest.clone_from(&replayed.digest);
        evidence.workers.clone_from(&replayed.workers);
    }
    let all = evidence.kills.len();
    evidence.kills.iter_mut().for_each(|kill| kill.of = all);
    let mut last: BTreeMap<u32, String> = BTreeMap::new();
    for log in strikes.cluster.started_logs() {
        // A worker that was killed at its start has no log.
        if log.exists() {
            let mut lines: Vec<Started> = read_lines(&log)?;
            // Logs come in the order of the workers' starts.
            last.extend(
                lines
                    .iter()
                    .map(|line| (line.gpu, line.incarnation.clone())),
            );
            evidence.started.append(&mut lines);
        }
    }
    // A worker with a successor on its device did not leave in good order: no worker is asked to leave
    // before the end.
    for worker in &mut evidence.workers {
        worker.dead = last.get(&worker.gpu) != Some(&worker.incarnation);
    }
    for program in &strikes.programs {
        if program.log().exists() {
            evidence.submitted.append(&mut read_lines(program.log())?);
        }
        evidence.failures.append(&mut program.heard().failures);
    }
    for log in submitted.iter().filter(|log| log.exists()) {
        evidence.submitted.append(&mut read_lines(log)?);
    }
    evidence.sort();
    Ok((replayed, evidence))
}

/// Swap-outs of a run.
#[derive(Debug, Clone, Copy, Deserialize)]
pub(super) struct Swaps {
    /// Sessions.
    #[serde(rename = "swap_outs")]
    pub(super) outs: f64,
    /// Bytes of these sessions.
    #[serde(rename = "swap_out_bytes")]
    pub(super) out_bytes: f64,
}

/// Swap-outs as reported by `warploom usage`. For a killed worker its last moments are missing.
///
/// # Errors
/// If `warploom usage` does not report them.
pub(super) async fn swaps(cluster: &LocalCluster) -> Result<Swaps> {
    #[derive(Deserialize)]
    struct Below {
        total: Swaps,
    }
    let mut role = cluster.role("usage", "usage", &["--json".to_owned()])?;
    let stdout = role.take_stdout().context("the output of usage")?;
    let said = tokio::task::spawn_blocking(|| std::io::read_to_string(stdout)).await??;
    role.wait(REPLAY)?;
    let last = said.lines().last().context("usage said nothing")?;
    let below: Below = serde_json::from_str(last)?;
    Ok(below.total)
}
