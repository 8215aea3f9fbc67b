//! What the tenant `chat` notices of the tenant `train` on the same CPU device: over the bus, each
//! in a process of its own, and in process, both on one device without Warploom's order.
//!
//! Blocks of requests alternate: `train` waits, `train` works. So both sides see the same machine
//! at the same time. `chat` pauses between two requests for about as long as one takes, at random,
//! so that the device has time for the other, and a request comes at any moment of its work.

pub(super) mod party;
mod shared;

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};
use workloads::{Gpu, Random, Workload};

use super::metric::{Goal, Metric, Spec};
use warploom_cli::settings::Settings;

const OVER_BUS: Spec = Spec {
    name: "chat_p99_ratio",
    unit: "ratio",
    goal: Goal::AtMost(1.3),
    what: "p99 of chat's requests beside train / alone, through the cluster, one CPU worker, no standing grants",
};
const IN_PROCESS: Spec = Spec {
    name: "chat_device_p99_ratio",
    unit: "ratio",
    goal: Goal::AtMost(1.1),
    what: "the same two on one CPU device in process, without bus and leader",
};

/// The two tenants: their workloads, their parties.
pub(super) const CHAT: &str = "chat";
pub(super) const TRAIN: &str = "train";

/// Everything that is measured.
pub(super) const METRICS: &[Spec] = &[OVER_BUS, IN_PROCESS];

/// Requests of a block.
const BLOCK: usize = 100;
/// Blocks alone, and as many beside, of one repetition.
const BLOCKS: usize = 4;
/// Requests before, which are not counted.
const WARM_UP: usize = 200;
/// Time for `train` to be at work, or to be done.
const SETTLE: Duration = Duration::from_millis(100);

/// A block of requests.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Block {
    /// Latencies, microseconds.
    us: Vec<f64>,
    /// Requests whose results were not the reference's.
    wrong: usize,
}

/// Serves `count` requests with a pause before each.
fn block<G: Gpu>(
    workload: &mut dyn Workload<G>,
    gpu: &mut G,
    pauses: &mut Random,
    count: usize,
) -> Result<Block> {
    let mut block = Block::default();
    let mut longest = Duration::ZERO;
    for _ in 0..count {
        std::thread::sleep(longest.mul_f64(f64::from(pauses.below(1_000)) / 500.0));
        let began = Instant::now();
        workload.run(gpu).map_err(|error| anyhow!("{error}"))?;
        let took = began.elapsed();
        block.us.push(took.as_nanos() as f64 / 1e3);
        // About what one takes: an outlier does not make for long pauses.
        longest = took.min(Duration::from_millis(10));
        block.wrong += usize::from(!workload.verify().verified);
    }
    Ok(block)
}

/// Both sides of a comparison, of one repetition.
#[derive(Default)]
struct Sides {
    alone: Vec<f64>,
    beside: Vec<f64>,
    wrong: usize,
}

impl Sides {
    fn add(&mut self, beside: bool, block: Block) {
        self.wrong += block.wrong;
        match beside {
            true => self.beside.extend(block.us),
            false => self.alone.extend(block.us),
        }
    }

    /// The 99th percentiles alone and beside, milliseconds.
    fn p99(mut self) -> [f64; 2] {
        [&mut self.alone, &mut self.beside].map(|us| {
            us.sort_by(f64::total_cmp);
            us[((us.len() - 1) as f64 * 0.99) as usize] / 1e3
        })
    }
}

/// Measures what is wanted.
pub(super) async fn chat(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Metric),
) -> Result<()> {
    if wanted(OVER_BUS.name) {
        tell(metric(&OVER_BUS, party::over_bus(reps, settings).await?)?);
    }
    if wanted(IN_PROCESS.name) {
        let measured = tokio::task::spawn_blocking(move || shared::in_process(reps));
        tell(metric(&IN_PROCESS, measured.await??)?);
    }
    Ok(())
}

fn metric(spec: &Spec, repetitions: Vec<Sides>) -> Result<Metric> {
    let wrong: usize = repetitions.iter().map(|sides| sides.wrong).sum();
    ensure!(wrong == 0, "{wrong} of chat's answers were wrong");
    let p99: Vec<_> = repetitions.into_iter().map(Sides::p99).collect();
    let ratios: Vec<f64> = p99.iter().map(|[alone, beside]| beside / alone).collect();
    let (alone, beside): (Vec<f64>, Vec<f64>) = p99.into_iter().map(|[a, b]| (a, b)).unzip();
    Ok(Metric::new(spec, &ratios)
        .against("p99 alone, ms", &alone)
        .with("p99_beside_ms", super::median(&beside))
        .with("requests", ratios.len() * BLOCKS * BLOCK * 2)
        .with("standing", false))
}
