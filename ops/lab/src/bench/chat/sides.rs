//! Both sides of the comparison, and a block of requests of one of them.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde::{Deserialize, Serialize};
use workloads::{Gpu, SplitMix64, Workload};

/// The two tenants, which also name their workloads and processes.
pub(in crate::bench) const CHAT: &str = "chat";
pub(in crate::bench) const TRAIN: &str = "train";

/// Requests in a block.
pub(super) const BLOCK: usize = 100;
/// Blocks alone, and as many beside the other, in one repetition.
pub(super) const BLOCKS: usize = 4;
/// Warm-up requests, which are not counted.
pub(super) const WARM_UP: usize = 200;
/// Time for `train` to get to work, or to finish.
pub(super) const SETTLE: Duration = Duration::from_millis(100);

/// A block of requests.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Block {
    /// Latencies, microseconds.
    pub(super) us: Vec<f64>,
    /// Requests with results that differ from the reference's.
    pub(super) wrong: usize,
}

/// Serves `count` requests with a pause before each.
pub(super) fn block<G: Gpu>(
    workload: &mut dyn Workload<G>,
    gpu: &mut G,
    pauses: &mut SplitMix64,
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
        // A pause is at most about as long as a request: an outlier must not cause long pauses.
        longest = took.min(Duration::from_millis(10));
        block.wrong += usize::from(!workload.verify().verified);
    }
    Ok(block)
}

/// Both sides of a comparison in one repetition.
#[derive(Default)]
pub(super) struct Sides {
    pub(super) alone: Vec<f64>,
    pub(super) beside: Vec<f64>,
    pub(super) wrong: usize,
}

impl Sides {
    pub(super) fn add(&mut self, beside: bool, block: Block) {
        self.wrong += block.wrong;
        match beside {
            true => self.beside.extend(block.us),
            false => self.alone.extend(block.us),
        }
    }

    /// The 99th percentiles alone and beside the other, in milliseconds.
    pub(super) fn p99(mut self) -> [f64; 2] {
        [&mut self.alone, &mut self.beside].map(|us| {
            us.sort_by(f64::total_cmp);
            us[((us.len() - 1) as f64 * 0.99) as usize] / 1e3
        })
    }
}
