//! The latency of the tenant `chat` beside the tenant `train` on the same CPU device. Measured over the
//! bus, each in a process of its own, and in one process, on one device without Warploom's order.
//!
//! Blocks of requests alternate: `train` waits, `train` works. So both sides see the same machine at the
//! same time. Between two requests `chat` pauses for a random time, about as long as a request takes. So
//! the device has time for the other tenant, and a request may arrive at any moment of its work.

pub(super) mod over_bus;
mod shared;
mod sides;

use admin::settings::Settings;
use anyhow::{Result, ensure};

use sides::{BLOCK, BLOCKS, Sides};
pub(super) use sides::{CHAT, TRAIN};

use super::metric::{Goal, Measurement, Spec, metrics};

metrics! {
    OVER_BUS = "chat_p99_ratio", "ratio", Goal::AtMost(1.3),
        "p99 of chat's requests beside train / alone, through the cluster, one CPU worker, no standing grants";
    IN_PROCESS = "chat_device_p99_ratio", "ratio", Goal::AtMost(1.1),
        "the same two on one CPU device in process, without bus and leader";
}

/// Measures the wanted metrics.
pub(super) async fn chat(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    if wanted(OVER_BUS.name) {
        tell(metric(
            &OVER_BUS,
            over_bus::over_bus(reps, settings).await?,
        )?);
    }
    if wanted(IN_PROCESS.name) {
        let measured = tokio::task::spawn_blocking(move || shared::in_process(reps));
        tell(metric(&IN_PROCESS, measured.await??)?);
    }
    Ok(())
}

fn metric(spec: &Spec, repetitions: Vec<Sides>) -> Result<Measurement> {
    let wrong: usize = repetitions.iter().map(|sides| sides.wrong).sum();
    ensure!(wrong == 0, "{wrong} of chat's answers were wrong");
    let p99: Vec<_> = repetitions.into_iter().map(Sides::p99).collect();
    let ratios: Vec<f64> = p99.iter().map(|[alone, beside]| beside / alone).collect();
    let (alone, beside): (Vec<f64>, Vec<f64>) = p99.into_iter().map(|[a, b]| (a, b)).unzip();
    Ok(Measurement::new(spec, &ratios)
        .against("p99 alone, ms", &alone)
        .with("p99_beside_ms", super::median(&beside))
        .with("requests", ratios.len() * BLOCKS * BLOCK * 2)
        .with("standing", false))
}
