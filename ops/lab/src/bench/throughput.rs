//! Launches per second, end to end.

use anyhow::Result;
use bus_schemas::{Batch, Launch, Op, WIRE_VERSION, encode, write_descriptor};
use serde::Deserialize;

use super::baseline::Baselines;
use super::bench_cluster::{Bench, play};
use super::bench_process::{BATCH, Launched};
use super::goals;
use super::metric::Measurement;
use warploom_cli::local::LocalCluster;

/// Launches in one repetition.
const LAUNCHES: usize = 1_000_000;
/// Messages in one round of the baseline: they must fit the server's queue for a subscriber.
const ROUND: usize = 8_000;
const ROUNDS: usize = 5;

#[derive(Deserialize)]
struct Streamed {
    messages_per_s: f64,
}

/// Bytes of a batch of empty launches on the wire.
fn batch_bytes() -> usize {
    let launch = Launch {
        module: 0,
        function: 0,
        grid: [1; 3],
        block: [1; 3],
        shared: 0,
        attributes: bus_schemas::LaunchAttributes::default(),
    };
    let mut descriptors = Vec::new();
    for _ in 0..BATCH {
        write_descriptor(&Op::Launch(launch), 0, 0, &mut descriptors);
    }
    let batch = Batch {
        v: WIRE_VERSION,
        first: 1_000_000,
        count: BATCH as u32,
        results: 1,
        descriptors: &descriptors,
        blob: &[],
    };
    encode(&batch).len()
}

/// Measures empty kernels in batches of 64, beside a bare publisher and subscriber of such messages.
pub(super) async fn launches(
    bench: &Bench<'_>,
    cluster: &LocalCluster,
    baselines: Result<&Baselines, &str>,
) -> Result<Vec<Measurement>> {
    let (data, ack) = (
        "wl.v1.bench.s.bare.stream.data",
        "wl.v1.bench.s.bare.stream.ack",
    );
    let [bytes, round, rounds] = [batch_bytes(), ROUND, ROUNDS].map(|number| number.to_string());
    let subscriber = baselines.and_then(|baselines| {
        let subscriber = baselines.serve("stream", &["subscribe", data, ack, &round]);
        let subscriber = subscriber.map_err(|_| "the baseline's subscriber does not start")?;
        Ok((baselines, subscriber))
    });
    let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
    for rep in 1..=bench.reps {
        eprintln!("launches per second: repetition {rep} of {}", bench.reps);
        let us: Launched = play(cluster, "launch", LAUNCHES).await?;
        ours.push(us.launches_per_s);
        if let Ok((baselines, _)) = &subscriber {
            let arguments = ["publish", data, ack, &round, &bytes, &rounds];
            let bare: Streamed = baselines.run("stream", &arguments).await?;
            let bare = bare.messages_per_s * BATCH as f64;
            theirs.push(bare);
            ratios.push(us.launches_per_s / bare);
        }
    }
    let bare = "bare publisher and subscriber, launches/s";
    let absolute = Measurement::new(&goals::LAUNCHES, &ours)
        .against(bare, &theirs)
        .with("launches", LAUNCHES)
        .with("batch", BATCH);
    let ratio = match subscriber {
        Ok(_) => Measurement::new(&goals::LAUNCHES_RATIO, &ratios).against(bare, &theirs),
        Err(why) => Measurement::missing(&goals::LAUNCHES_RATIO, why),
    };
    Ok(vec![absolute, ratio.with("message_bytes", batch_bytes())])
}
