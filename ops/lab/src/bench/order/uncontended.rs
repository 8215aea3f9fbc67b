//! A launch and its sync on a GPU without contention. With a standing grant they take two messages, as many
//! as a bare request with its reply.

use anyhow::Result;
use bus_schemas::{Batch, Launch, Op, WIRE_VERSION, encode, write_descriptor};

use crate::bench::baseline::Baselines;
use crate::bench::bench_cluster::{Bench, play};
use crate::bench::bench_process::Synced;
use crate::bench::latency::result_size;
use crate::bench::median;
use crate::bench::{Goal, Measurement, metrics};

metrics! {
    RATIO = "uncontended_sync_ratio", "ratio", Goal::AtMost(1.25),
        "p50 of a launch and its sync of a session alone on its GPU, with a standing grant / a bare NATS request and its reply of the same sizes";
}

/// Launches in one process.
const LAUNCHES: usize = 500;
/// Processes of each kind in one repetition, in turn. On few cores a process is up to a fifth faster or
/// slower for all its life, depending on the placement of its, the broker's and the worker's threads.
const TURNS: usize = 5;

/// Bytes of the two messages: batch and result.
fn sizes() -> [usize; 2] {
    let launch = Launch {
        module: 1,
        function: 1,
        grid: [1; 3],
        block: [32, 1, 1],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    };
    let mut descriptors = Vec::new();
    for op in [Op::Launch(launch), Op::Sync] {
        write_descriptor(&op, 0, 0, &mut descriptors);
    }
    let batch = encode(&Batch {
        v: WIRE_VERSION,
        first: 100_000,
        count: 2,
        results: 100_000,
        descriptors: &descriptors,
        blob: &[],
    });
    [batch.len(), result_size()]
}

/// Measures the latency, with its baseline in each repetition.
pub(super) async fn uncontended(bench: &Bench<'_>) -> Result<Measurement> {
    let cluster = bench.ordered(1, true).await?;
    let baselines = match Baselines::find(cluster.broker.credentials()) {
        Ok(baselines) => baselines,
        Err(why) => return Ok(Measurement::missing(&RATIO, &format!("{why:#}"))),
    };
    let [batch, result] = sizes().map(|bytes| bytes.to_string());
    let [request, reply] = ["request", "reply"].map(|what| format!("wl.v1.bench.s.bare.{what}"));
    let answers = ["hop", &request, &reply, &result];
    let _relay = baselines.serve("relay", &answers)?;
    let rounds = LAUNCHES.to_string();
    let asks = ["client", &request, &reply, &batch, &rounds];
    let (mut ratios, mut ours, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    for rep in 1..=bench.reps {
        eprintln!("uncontended launches: repetition {rep} of {}", bench.reps);
        let mut turns = (Vec::new(), Vec::new());
        for _ in 0..TURNS {
            let synced: Synced = play(&cluster, "sync", LAUNCHES).await?;
            let replied: Synced = baselines.run("relay", &asks).await?;
            turns.0.push(synced.p50_us);
            turns.1.push(replied.p50_us);
        }
        if let (Some(synced), Some(replied)) = (median(&turns.0), median(&turns.1)) {
            ratios.push(synced / replied);
            ours.push(synced);
            bare.push(replied);
        }
    }
    Ok(Measurement::new(&RATIO, &ratios)
        .against("a bare request and its reply, us", &bare)
        .with("sync_us", median(&ours))
        .with("standing", true)
        .with("launches", LAUNCHES * TURNS))
}
