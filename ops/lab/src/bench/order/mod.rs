//! `warploom bench order`: the leader's order. Each group of metrics has a file.

pub(super) mod backlog;
mod digests;
mod grants;
pub(super) mod own;
mod scale;
mod uncontended;

use admin::settings::Settings;
use anyhow::Result;

use super::bench_cluster::Bench;
use super::metric::{Measurement, Spec};

/// All metrics of the order.
pub(super) fn metrics() -> impl Iterator<Item = &'static Spec> {
    let grants = grants::METRICS.iter().map(|(spec, _)| spec);
    let others = [digests::METRICS, uncontended::METRICS, own::METRICS];
    let others = others.into_iter().flatten();
    grants.chain(others).chain(scale::METRICS)
}

/// Measures the wanted metrics of the order by itself, in this process.
pub(super) fn cores(reps: usize, wanted: impl Fn(&str) -> bool, mut tell: impl FnMut(Measurement)) {
    grants::grants(reps, &wanted, &mut tell);
    scale::scale(reps, &wanted, &mut tell);
}

/// Measures the wanted metrics of clusters.
///
/// # Errors
/// If a measured cluster does not start.
pub(super) async fn clusters(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    if wanted(digests::DIGESTS.name) {
        tell(digests::digests(reps, settings).await?);
    }
    if wanted(uncontended::RATIO.name) {
        tell(uncontended::uncontended(&Bench { reps, settings }).await?);
    }
    if wanted(own::OWN.name) {
        tell(own::own(&Bench { reps, settings }).await?);
    }
    Ok(())
}
