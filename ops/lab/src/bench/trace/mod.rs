//! `warploom bench trace`: the cost of traces to launches, the times in them, and the number of series that tenants and
//! kernels cause.

mod collector;
mod goals;
pub(super) mod names;
mod overhead;
mod processor;
pub(super) mod program;
mod received;
pub(super) mod sampled;
mod side;

use admin::settings::Settings;
use anyhow::Result;

use super::metric::{Measurement, Spec};
use goals::SERIES;

/// All metrics of this benchmark.
pub(super) fn metrics() -> &'static [Spec] {
    goals::METRICS
}

/// Measures the wanted metrics.
pub(super) async fn trace(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    overhead::overhead(reps, settings, &wanted, &mut tell).await?;
    if wanted(SERIES.name) {
        tell(names::series(settings).await?);
    }
    Ok(())
}
