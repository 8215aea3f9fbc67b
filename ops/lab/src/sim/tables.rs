//! The tables of a comparison.

use std::fmt::Write;

use admin::table::headed;
use comfy_table::Table;
use sim_compare::compare::{PUBLISHED_RATES, published};
use sim_compare::{INTERFERENCE, Policy};

use super::args::CompareArgs;
use super::runs::{Comparison, PairRuns, sum};
use crate::bench::median;

/// Ratio above which a program never catches up.
const OVERLOADED: f64 = 20.0;

/// All tables, with a line above each.
pub(super) fn all(comparison: &Comparison, args: &CompareArgs) -> String {
    let mut text = String::new();
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        text,
        "Serial device, {} pairs, medians of {} repetitions of about {} requests, seed {}:",
        comparison.serial.first().map_or(0, Vec::len),
        args.reps,
        args.requests,
        args.seed
    );
    let _ = writeln!(text, "{}\n", policies(&comparison.serial));
    let _ = writeln!(
        text,
        "The same, pair by pair (p99 shared / alone; work of both):"
    );
    let _ = writeln!(text, "{}\n", pairs(&comparison.serial));
    if !comparison.published.is_empty() {
        let rates = PUBLISHED_RATES.map(|(model, rate)| format!("{model} {rate}/s"));
        let _ = writeln!(
            text,
            "Others as published: serial device, requests at random at the published rates ({}). \
             A model of another that does over 20 % worse than published is a fault of the model:",
            rates.join(", ")
        );
        let _ = writeln!(text, "{}\n", others(&comparison.published));
    }
    let _ = writeln!(
        text,
        "Overlapping device, one repetition. Its rule: {INTERFERENCE}."
    );
    let overlapping = std::slice::from_ref(&comparison.overlapping);
    let _ = writeln!(text, "{}", policies(overlapping));
    text
}

fn ratio(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value > OVERLOADED => format!("> {OVERLOADED}"),
        Some(value) => format!("{value:.3}"),
    }
}

fn policies<R: AsRef<[PairRuns]>>(reps: &[R]) -> Table {
    let mut table = headed(
        "scheduler | p99 mean> | p99 worst> | throughput> | urgent> | other> | device active>",
    );
    for policy in Policy::ALL {
        let sums = reps.iter().filter_map(|runs| sum(runs.as_ref(), policy));
        let sums: Vec<_> = sums.collect();
        let of = |part: fn(&super::runs::Sum) -> f64| {
            ratio(median(&sums.iter().map(part).collect::<Vec<f64>>()))
        };
        table.add_row([
            policy.name().to_owned(),
            of(|sum| sum.p99_mean),
            of(|sum| sum.p99_max),
            of(|sum| sum.urgent + sum.effort),
            of(|sum| sum.urgent),
            of(|sum| sum.effort),
            of(|sum| sum.active),
        ]);
    }
    table
}

fn pairs(reps: &[Vec<PairRuns>]) -> Table {
    let names = Policy::ALL.map(|policy| format!("{}>", policy.name()));
    let mut table = headed(&format!("pair|{}", names.join("|")));
    for (index, pair) in reps.first().into_iter().flatten().enumerate() {
        let cell = |policy: usize| {
            let shared = || reps.iter().map(|rep| &rep[index].shared[policy]);
            let p99: Vec<f64> = shared().map(|shared| shared.p99_ratio).collect();
            let work: Vec<f64> = shared().map(|shared| shared.throughput()).collect();
            let work = median(&work).unwrap_or(0.0);
            format!("{}; {work:.2}", ratio(median(&p99)))
        };
        let cells = (0..Policy::ALL.len()).map(cell);
        table.add_row([pair.name.clone()].into_iter().chain(cells));
    }
    table
}

fn others(runs: &[PairRuns]) -> Table {
    let mut table = headed("scheduler | p99 mean> | published> | | source");
    for policy in Policy::ALL {
        let simulated = sum(runs, policy).map(|sum| sum.p99_mean);
        let known = published(policy);
        let range = known.map_or("-".to_owned(), |known| {
            if known.low == known.high {
                format!("{:.2}", known.low)
            } else {
                format!("{:.2} to {:.2}", known.low, known.high)
            }
        });
        let fair = match (known, simulated) {
            (Some(known), Some(simulated)) if known.is_missed(simulated) => "worse than published",
            (Some(_), Some(_)) => "fair",
            _ => "",
        };
        table.add_row([
            policy.name().to_owned(),
            ratio(simulated),
            range,
            fair.to_owned(),
            known.map_or("", |known| known.source).to_owned(),
        ]);
    }
    table
}
