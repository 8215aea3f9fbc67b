//! The plots of a comparison.

use std::path::Path;

use admin::errors::ErrorCode;
use anyhow::{Context, Result};
use sim_compare::plot::{Mark, Plot, Scale, Series};
use sim_compare::{Nanos, Policy};

use super::runs::{Comparison, PairRuns};

/// Writes all plots. Returns their number.
pub(super) fn write(dir: &Path, comparison: &Comparison) -> Result<usize> {
    std::fs::create_dir_all(dir).with_context(|| ErrorCode::OutputFile.failed(dir.display()))?;
    let mut written = 0;
    let mut save = |name: String, plot: &Plot| {
        let path = dir.join(name);
        written += 1;
        std::fs::write(&path, plot.svg())
            .with_context(|| ErrorCode::OutputFile.failed(path.display()))
    };
    let Some(first) = comparison.serial.first() else {
        return Ok(0);
    };
    for pair in first {
        save(format!("latency-{}.svg", pair.name), &latencies(pair))?;
    }
    save("throughput-tail.svg".into(), &tails(first, "serial device"))?;
    let overlapping = tails(&comparison.overlapping, "overlapping device");
    save("throughput-tail-overlapping.svg".into(), &overlapping)?;
    Ok(written)
}

/// The distribution of a pair's urgent latencies.
fn latencies(pair: &PairRuns) -> Plot {
    let line = |name: &str, latencies: &[Nanos]| {
        let last = latencies.len().saturating_sub(1).max(1) as f64;
        let points = latencies.iter().enumerate();
        Series {
            name: name.to_owned(),
            points: points
                .map(|(index, ns)| (*ns as f64 / 1e6, index as f64 / last))
                .collect(),
            mark: Mark::Line,
        }
    };
    let shared = pair.shared.iter();
    let mut series: Vec<Series> = shared
        .map(|shared| line(shared.policy.name(), &shared.latencies))
        .collect();
    series.push(line("alone", &pair.alone.latencies));
    Plot {
        title: format!("{}: latency of the urgent program", pair.name),
        x_label: "milliseconds from arrival to answer".into(),
        y_label: "part of the requests".into(),
        x_scale: Scale::Logarithmic,
        series,
    }
}

/// Throughput against tail, one dot per pair.
fn tails(runs: &[PairRuns], device: &str) -> Plot {
    let dots = |policy: Policy| {
        let of = |pair: &PairRuns| {
            let shared = pair.shared.iter().find(|shared| shared.policy == policy)?;
            Some((shared.p99_ratio, shared.throughput()))
        };
        Series {
            name: policy.name().to_owned(),
            points: runs.iter().filter_map(of).collect(),
            mark: Mark::Dots,
        }
    };
    Plot {
        title: format!("Throughput against tail, a dot a pair, {device}"),
        x_label: "p99 of the urgent program, shared / alone".into(),
        y_label: "work of both, each / alone".into(),
        x_scale: Scale::Logarithmic,
        series: Policy::ALL.into_iter().map(dots).collect(),
    }
}
