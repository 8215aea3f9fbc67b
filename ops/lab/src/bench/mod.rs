//! The benchmarks. `bus` measures whole processes over a real broker beside bare programs over the same
//! broker. `client` measures the drop-in library, `control` the controller, and `memory` the cost of
//! swapping. `order` measures the leader's order, and `ptx` the CPU device's engine beside PoCL and native
//! loops. `trace` measures what traces cost. docs/evidence/benchmarks.md describes them.

mod args;
mod baseline;
mod bench_cluster;
mod bench_process;
mod bomb;
mod broker_start;
mod bus;
mod chat;
mod client;
mod control;
mod driver;
mod footprint;
mod goals;
mod images;
mod latency;
mod loading;
mod memory;
mod metric;
mod order;
mod pager;
mod preempt;
mod ptx;
mod spans;
mod start;
mod swapping;
mod takeover;
mod throughput;
mod token;
mod torch;
mod trace;
mod weights;

use anyhow::{Result, bail};
use comfy_table::Table;

pub use counting_allocator::CountingAllocator;
pub use metric::{Goal, Measurement, Spec};
pub(crate) use metric::{median, metrics, specs, table};

use admin::completion::Candidate;
use admin::errors::UsageError;
use admin::output;
use admin::process;
use admin::settings::Settings;
use admin::table::{fitted, headed};
pub use args::BenchArgs;

/// Lists the benchmarks, or runs one and prints its results: a table, or one JSON object a line as soon as
/// it is known. Progress goes to stderr.
///
/// # Errors
/// [`UsageError`] for an unknown name; if the measured cluster does not start.
pub async fn bench(args: &BenchArgs, settings: &Settings, json: bool) -> Result<()> {
    let Some(name) = args.name.as_deref() else {
        return output::line(fitted(&list()));
    };
    if let Some(served) = serve(name, args) {
        return served;
    }
    if let Some(process) = name.strip_prefix('.') {
        // On a thread of its own: a wait for an answer drives the client's connection, which a thread of a
        // runtime may not do.
        let played = || bench_process::play(process, args, settings);
        return std::thread::scope(|scope| scope.spawn(played).join())
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    }
    let mut metrics = Vec::new();
    let wanted = |metric: &str| {
        args.only
            .as_deref()
            .is_none_or(|only| metric.contains(only))
    };
    let mut told = Ok(());
    let mut tell = |metric: Measurement| {
        if json && let Ok(line) = serde_json::to_string(&metric) {
            told = output::line(line);
        }
        metrics.push(metric);
    };
    let reps = args.reps.max(1);
    // The work of this thread comes first. It leaves nothing behind and reacts to signals as any program
    // does, which is no longer so while it waits for clusters.
    match name {
        "bus" | "client" | "control" | "memory" | "trace" => {}
        "order" => order::cores(reps, wanted, &mut tell),
        "ptx" if ptx::metrics().any(|spec| wanted(spec.name)) => {
            ptx::ptx(reps, 1, wanted, &mut tell);
        }
        "ptx" => {}
        _ => bail!(UsageError(format!(
            "there is no benchmark {name:?}; `warploom bench` lists them"
        ))),
    }
    process::unless_stopped(clusters(name, reps, settings, wanted, tell)).await?;
    if metrics.is_empty() {
        bail!(UsageError(
            "no metric's name contains what --only says".into()
        ));
    }
    match json {
        true => told,
        false => output::line(fitted(&metric::table(&metrics))),
    }
}

/// Runs as a measured program that joins no cluster by our own client. `None` if the name is none of these.
fn serve(name: &str, args: &BenchArgs) -> Option<Result<()>> {
    Some(match name {
        ptx::pocl::PROCESS => ptx::pocl::serve(),
        client::PROCESS => client::serve(),
        images::PROCESS => images::serve(),
        torch::replay::PROCESS => torch::replay::serve(),
        trace::program::PROCESS => trace::program::serve(),
        trace::sampled::PROCESS => trace::sampled::become_tracer(args.reps),
        _ => return None,
    })
}

/// Runs the measurements on clusters, each of which ends with its measurement.
async fn clusters(
    name: &str,
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    match name {
        "bus" => bus::bus(reps, settings, wanted, tell).await,
        "client" => client::client(reps, settings, wanted, tell).await,
        "control" => {
            control::control(reps, settings, &wanted, &mut tell).await?;
            control::page(&wanted, &mut tell).await
        }
        "memory" => {
            weights::weights(reps, settings, &wanted, &mut tell).await?;
            pager::pager(reps, settings, &wanted, &mut tell).await?;
            swapping::swapping(reps, settings, wanted, tell).await
        }
        "order" => {
            order::clusters(reps, settings, &wanted, &mut tell).await?;
            chat::chat(reps, settings, wanted, tell).await
        }
        "trace" => trace::trace(reps, settings, wanted, tell).await,
        _ => {
            loading::loading(reps, settings, &wanted, &mut tell).await?;
            preempt::preempt(reps, settings, &wanted, &mut tell).await?;
            bomb::sync(reps, settings, wanted, tell).await
        }
    }
}

/// Every metric, with its benchmark.
fn metrics_of_all() -> impl Iterator<Item = (&'static str, &'static Spec)> {
    let bus = goals::METRICS.iter().map(|spec| ("bus", spec));
    let client = [client::METRICS, images::METRICS, torch::METRICS];
    let order = order::metrics().chain(chat::METRICS);
    let ptx = ptx::metrics().chain(
        [preempt::METRICS, loading::METRICS, bomb::METRICS]
            .into_iter()
            .flatten(),
    );
    bus.chain(client.into_iter().flatten().map(|spec| ("client", spec)))
        .chain(control::metrics().iter().map(|spec| ("control", spec)))
        .chain(weights::METRICS.iter().map(|spec| ("memory", spec)))
        .chain(pager::METRICS.iter().map(|spec| ("memory", spec)))
        .chain(swapping::METRICS.iter().map(|spec| ("memory", spec)))
        .chain(order.map(|spec| ("order", spec)))
        .chain(ptx.map(|spec| ("ptx", spec)))
        .chain(trace::metrics().iter().map(|spec| ("trace", spec)))
}

/// The benchmarks by name.
pub(crate) fn benchmarks() -> Vec<Candidate> {
    let all = metrics_of_all();
    all.map(|(benchmark, _)| Candidate::new(benchmark, ""))
        .collect()
}

/// The metrics by name.
pub(crate) fn metric_names() -> Vec<Candidate> {
    let all = metrics_of_all();
    all.map(|(_, spec)| Candidate::new(spec.name, spec.what))
        .collect()
}

fn list() -> Table {
    let mut table = headed("benchmark | metric | unit | what");
    for (benchmark, spec) in metrics_of_all() {
        table.add_row([benchmark, spec.name, spec.unit, spec.what]);
    }
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn metrics_have_one_name_each() {
        let names: Vec<_> = metrics_of_all().map(|(_, spec)| spec.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        assert!(list().to_string().contains("sync_launch_ratio"));
    }
}
