//! All simulations of a comparison.

use admin::errors::ErrorCode;
use anyhow::Result;
use sim_compare::compare::{
    Alone, Pair, Shared, Terms, alone, at_published_rates, share, share_freely,
};
use sim_compare::{DeviceKind, Policy, SimulationError};

use super::args::CompareArgs;

/// One pair in one repetition.
pub(super) struct PairRuns {
    /// The pair's name.
    pub name: String,
    /// Each program alone.
    pub alone: Alone,
    /// Both together, under [`Policy::ALL`] in order.
    pub shared: Vec<Shared>,
}

/// All simulation results.
pub(super) struct Comparison {
    /// On the serial device, by repetition.
    pub serial: Vec<Vec<PairRuns>>,
    /// Throughput of ours over free concurrency without a more urgent program, by repetition, the mean over
    /// pairs.
    pub free: Vec<f64>,
    /// On the overlapping device.
    pub overlapping: Vec<PairRuns>,
    /// On the serial device at the published rates, if there are any.
    pub published: Vec<PairRuns>,
}

/// Number of simulations that [`Comparison::run`] reports to its callback.
pub(super) fn steps(pairs: &[Pair], args: &CompareArgs) -> u64 {
    let published = pairs.iter().filter_map(at_published_rates).count() as u64;
    let each = Policy::ALL.len() as u64 + 1;
    let pairs = pairs.len() as u64;
    args.reps * pairs * (each + 2) + each * (pairs + published)
}

impl Comparison {
    /// Runs all simulations.
    pub(super) fn run(pairs: &[Pair], args: &CompareArgs, tell: &mut impl FnMut()) -> Result<Self> {
        let (mut serial, mut free) = (Vec::new(), Vec::new());
        let terms = |device, rep| Terms {
            device,
            requests: args.requests,
            seed: args.seed.wrapping_add(rep),
        };
        for rep in 0..args.reps {
            let runs = all(pairs, &terms(DeviceKind::Serial, rep), tell)?;
            let mut sum = 0.0;
            for pair in &runs {
                let mut throughput = |policy| -> Result<f64> {
                    let shared = share_freely(&pair.alone, policy);
                    tell();
                    Ok(simulated(&pair.name, shared)?.throughput())
                };
                sum += throughput(Policy::Ours)? / throughput(Policy::Mps)?;
            }
            free.push(sum / runs.len() as f64);
            serial.push(runs);
        }
        let rated: Vec<Pair> = pairs.iter().filter_map(at_published_rates).collect();
        Ok(Self {
            serial,
            free,
            overlapping: all(pairs, &terms(DeviceKind::Overlapping, 0), tell)?,
            published: all(&rated, &terms(DeviceKind::Serial, 0), tell)?,
        })
    }
}

/// Adds the code and the pair, model or metric to a simulation's error.
pub(super) fn simulated<T>(what: &str, done: Result<T, SimulationError>) -> Result<T> {
    done.map_err(|error| {
        let error = ErrorCode::Simulation.failed(format_args!("{what}: {error}"));
        anyhow::Error::new(error)
    })
}

fn all(pairs: &[Pair], terms: &Terms, tell: &mut impl FnMut()) -> Result<Vec<PairRuns>> {
    let mut runs = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let name = pair.name();
        let alone = simulated(&name, alone(pair, terms))?;
        tell();
        let mut shared = Vec::new();
        for policy in Policy::ALL {
            shared.push(simulated(&name, share(&alone, policy))?);
            tell();
        }
        runs.push(PairRuns {
            name,
            alone,
            shared,
        });
    }
    Ok(runs)
}

/// Results of a policy, summed up over its pairs.
pub(super) struct Sum {
    /// Mean over the pairs of the 99th percentile, shared over alone.
    pub p99_mean: f64,
    /// The maximum over the pairs.
    pub p99_max: f64,
    /// Mean of the urgent program's work, shared over alone.
    pub urgent: f64,
    /// Mean of the other program's work.
    pub effort: f64,
    /// Mean of the device's active part.
    pub active: f64,
}

/// Sums up a policy's results; `None` without pairs.
pub(super) fn sum(runs: &[PairRuns], policy: Policy) -> Option<Sum> {
    let of = |pair: &PairRuns| {
        let shared = pair.shared.iter().find(|shared| shared.policy == policy);
        shared.cloned()
    };
    let shared: Vec<Shared> = runs.iter().filter_map(of).collect();
    if shared.is_empty() {
        return None;
    }
    let mean =
        |part: fn(&Shared) -> f64| shared.iter().map(part).sum::<f64>() / shared.len() as f64;
    Some(Sum {
        p99_mean: mean(|shared| shared.p99_ratio),
        p99_max: shared
            .iter()
            .map(|shared| shared.p99_ratio)
            .fold(0.0, f64::max),
        urgent: mean(|shared| shared.urgent),
        effort: mean(|shared| shared.effort),
        active: mean(|shared| shared.active),
    })
}
