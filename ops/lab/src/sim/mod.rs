//! `warploom sim`: compares schedulers, and runs the cluster with faults, in virtual time.

mod args;
mod faults;
mod metrics;
mod plots;
mod runs;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use admin::csv;
use admin::errors::{ErrorCode, UsageError};
use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use sim_compare::compare::{Pair, Terms, alone, pairs, timeline};
use sim_compare::{ComparedRun, DeviceKind, Model, SHAPES, generate};

pub use args::{CompareArgs, SimCommand, WorkloadsArgs};
pub use faults::FaultsArgs;
pub(crate) use metrics::names as metric_names;

use crate::bench::table as metric_table;
use runs::{Comparison, simulated};

/// Default directory for plots.
const PLOTS: &str = "target/sim-plots";

/// Runs `warploom sim`.
///
/// # Errors
/// For files that cannot be read or written, and for models that cannot be simulated.
pub fn sim(command: &SimCommand, json: bool) -> Result<()> {
    match command {
        SimCommand::Compare(args) => compare(args, json),
        SimCommand::Faults(args) => faults::faults(args, json),
        SimCommand::Workloads(args) => workloads(args, json),
    }
}

fn models(seed: u64) -> Vec<Model> {
    SHAPES.iter().map(|shape| generate(shape, seed)).collect()
}

fn workloads(args: &WorkloadsArgs, json: bool) -> Result<()> {
    for path in sim_compare::write_dir(&args.dir, &models(args.seed))? {
        if json {
            println!("{}", serde_json::json!({ "file": path }));
        } else {
            println!("{}", path.display());
        }
    }
    Ok(())
}

fn compare(args: &CompareArgs, json: bool) -> Result<()> {
    let models = match &args.workloads {
        Some(dir) => {
            sim_compare::read_dir(dir).map_err(|error| ErrorCode::WorkloadFile.failed(error))?
        }
        None => models(args.seed),
    };
    let chosen = chosen(&models, &args.pairs)?;
    if let Some(path) = &args.timeline {
        let first = &chosen[0];
        write_timeline(path, first, args)?;
        eprintln!(
            "{}: {} under {}",
            path.display(),
            first.name(),
            args.timeline_policy.name()
        );
    }
    let wanted = |metric: &str| args.only.as_ref().is_none_or(|only| metric.contains(only));
    let bar = bar(runs::steps(&chosen, args) + metrics::steps(&models, args, &wanted));
    let comparison = Comparison::run(&chosen, args, &mut || bar.inc(1))?;
    let found = metrics::metrics(&comparison, &models, args, &wanted, &mut || bar.inc(1))?;
    bar.finish_and_clear();
    let plots = match &args.plots {
        Some(dir) => Some(dir.clone()),
        None => (!json).then(|| PathBuf::from(PLOTS)),
    };
    if let Some(dir) = &plots {
        let written = plots::write(dir, &comparison)?;
        eprintln!("{written} plots in {}", dir.display());
    }
    if json {
        for metric in found {
            println!("{}", serde_json::to_string(&metric)?);
        }
        return Ok(());
    }
    println!("{}", tables::all(&comparison, args));
    println!("{}", metric_table(&found));
    Ok(())
}

/// The pairs with a name that contains one of these; all pairs if none is given.
fn chosen(models: &[Model], wanted: &[String]) -> Result<Vec<Pair>> {
    let mut all = pairs(models);
    all.retain(|pair| {
        let name = pair.name();
        wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str()))
    });
    if all.is_empty() {
        let mut why =
            "no pair of a model of role `latency` and one of role `throughput`".to_owned();
        if !wanted.is_empty() {
            let _ = write!(why, " has a name with {}", wanted.join(" or "));
        }
        return Err(UsageError(why).into());
    }
    Ok(all)
}

fn bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} simulations, {eta} left");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

fn write_timeline(path: &Path, pair: &Pair, args: &CompareArgs) -> Result<()> {
    let terms = Terms {
        device: DeviceKind::Serial,
        requests: args.requests,
        seed: args.seed,
    };
    let name = pair.name();
    let alone = simulated(&name, alone(pair, &terms))?;
    let outcome = simulated(&name, timeline(&alone, args.timeline_policy))?;
    write_rows(path, pair, &outcome)
        .with_context(|| ErrorCode::OutputFile.failed(format!("the timeline {}", path.display())))
}

fn write_rows(path: &Path, pair: &Pair, outcome: &ComparedRun) -> Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let head = ["tenant", "request", "kernel", "ready", "start", "end"];
    file.write_all(csv::line(head).as_bytes())?;
    for row in &outcome.rows {
        let tenant = [&pair.urgent.name, &pair.effort.name][row.tenant as usize];
        let numbers = [
            row.request,
            row.kernel.into(),
            row.ready,
            row.start,
            row.end,
        ];
        let numbers = numbers.map(|number| number.to_string());
        let cells = [tenant].into_iter().chain(&numbers);
        file.write_all(csv::line(cells).as_bytes())?;
    }
    Ok(file.flush()?)
}
