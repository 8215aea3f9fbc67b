//! The metrics that have goals.

use admin::completion::Candidate;
use anyhow::Result;
use sim_compare::compare::{active, alone_overhead, jain, newcomer_quanta, share_error};
use sim_compare::{Model, Policy, SimulationError};

use super::args::CompareArgs;
use super::runs::{Comparison, Sum, simulated, sum};
use crate::bench::{Goal, Measurement, Spec};

const P99_MEAN: Spec = Spec {
    name: "hp_p99_ratio_mean",
    unit: "ratio",
    goal: Goal::AtMost(1.05),
    what: "p99 of the urgent program, shared over alone, mean over pairs",
};
const P99_MAX: Spec = Spec {
    name: "hp_p99_ratio_max",
    unit: "ratio",
    goal: Goal::AtMost(1.10),
    what: "the same of the worst pair",
};
const THROUGHPUT: Spec = Spec {
    name: "system_throughput",
    unit: "ratio",
    goal: Goal::AtLeast(1.45),
    what: "work of both programs, each over what it does alone, mean over pairs",
};
const FREE: Spec = Spec {
    name: "free_throughput_ratio",
    unit: "ratio",
    goal: Goal::AtLeast(0.97),
    what: "the same without a more urgent program, over that of free concurrency",
};
const SHARE: Spec = Spec {
    name: "share_error",
    unit: "ratio",
    goal: Goal::AtMost(0.01),
    what: "of the device's time, the most that 75/25 shares are off in any second",
};
const JAIN: Spec = Spec {
    name: "jain_100",
    unit: "index",
    goal: Goal::AtLeast(0.999),
    what: "Jain's index of a hundred equal tenants",
};
const NEWCOMER: Spec = Spec {
    name: "newcomer_quanta",
    unit: "quanta",
    goal: Goal::AtMost(3.0),
    what: "until a newcomer gets its share",
};
const OVERHEAD: Spec = Spec {
    name: "alone_overhead",
    unit: "ratio",
    goal: Goal::AtMost(0.02),
    what: "by what a program alone is slower than without Warploom, the worst model",
};
const ACTIVE: Spec = Spec {
    name: "active_8",
    unit: "ratio",
    goal: Goal::AtLeast(0.95),
    what: "device active with 8 tenants that are each active 30 % of the time",
};

/// A figure of the order itself, from models and a seed.
type Figure = fn(&[Model], u64) -> Result<f64, SimulationError>;
const FIGURES: [(Spec, Figure); 4] = [
    (SHARE, share_error),
    (JAIN, jain),
    (NEWCOMER, newcomer_quanta),
    (ACTIVE, active),
];

/// Names of all metrics, each with its description.
pub(crate) fn names() -> Vec<Candidate> {
    let pairs = [P99_MEAN, P99_MAX, THROUGHPUT, FREE, OVERHEAD];
    let figures = FIGURES.map(|(spec, _)| spec);
    let all = pairs.into_iter().chain(figures);
    all.map(|spec| Candidate::new(spec.name, spec.what))
        .collect()
}

/// Number of simulations that [`metrics`] reports to its callback.
pub(super) fn steps(models: &[Model], args: &CompareArgs, wanted: &impl Fn(&str) -> bool) -> u64 {
    let figures = FIGURES.iter().filter(|(spec, _)| wanted(spec.name)).count();
    let alone = if wanted(OVERHEAD.name) {
        models.len()
    } else {
        0
    };
    args.reps * (figures + alone) as u64
}

/// All wanted metrics.
pub(super) fn metrics(
    comparison: &Comparison,
    models: &[Model],
    args: &CompareArgs,
    wanted: &impl Fn(&str) -> bool,
    tell: &mut impl FnMut(),
) -> Result<Vec<Measurement>> {
    let ours: Vec<Sum> = comparison
        .serial
        .iter()
        .filter_map(|runs| sum(runs, Policy::Ours))
        .collect();
    let of = |part: fn(&Sum) -> f64| ours.iter().map(part).collect::<Vec<f64>>();
    let mut found = vec![
        Measurement::new(&P99_MEAN, &of(|sum| sum.p99_mean)),
        Measurement::new(&P99_MAX, &of(|sum| sum.p99_max)),
        Measurement::new(&THROUGHPUT, &of(|sum| sum.urgent + sum.effort)),
        Measurement::new(&FREE, &comparison.free),
    ];
    let pairs = comparison.serial.first().map_or(0, Vec::len);
    found = found
        .into_iter()
        .map(|metric| metric.with("pairs", pairs).with("requests", args.requests))
        .collect();
    found.retain(|metric| wanted(metric.metric));
    let seeds = || (0..args.reps).map(|rep| args.seed.wrapping_add(rep));
    for (spec, figure) in FIGURES.iter().filter(|(spec, _)| wanted(spec.name)) {
        let mut values = Vec::new();
        for seed in seeds() {
            values.push(simulated(spec.name, figure(models, seed))?);
            tell();
        }
        found.push(Measurement::new(spec, &values));
    }
    if wanted(OVERHEAD.name) {
        found.push(overhead(models, seeds(), tell)?);
    }
    let with_seed = |metric: Measurement| metric.with("seed", args.seed).with("device", "serial");
    Ok(found.into_iter().map(with_seed).collect())
}

/// The worst model's overhead, and each model's.
fn overhead(
    models: &[Model],
    seeds: impl Iterator<Item = u64>,
    tell: &mut impl FnMut(),
) -> Result<Measurement> {
    let mut worst = Vec::new();
    let mut each = vec![Vec::new(); models.len()];
    for seed in seeds {
        for (model, values) in models.iter().zip(&mut each) {
            values.push(simulated(&model.name, alone_overhead(model, seed))?);
            tell();
        }
        let last = each.iter().filter_map(|values| values.last().copied());
        worst.push(last.fold(f64::MIN, f64::max));
    }
    let metric = Measurement::new(&OVERHEAD, &worst);
    let with =
        |metric: Measurement, (model, values): (&Model, &Vec<f64>)| match crate::bench::median(
            values,
        ) {
            Some(value) => metric.with(&model.name, (value * 1e4).round() / 1e4),
            None => metric,
        };
    Ok(models.iter().zip(&each).fold(metric, with))
}
