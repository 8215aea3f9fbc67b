//! `warploom bench bus`: whole processes over a real broker.

use admin::settings::Settings;
use anyhow::Result;
use rustix::process::Signal;

use super::baseline::Baselines;
use super::bench_cluster::Bench;
use super::goals::{
    BINARY, BROKER_START, BROKER_START_RATIO, ENQUEUE_ALLOCS, ENQUEUE_NS, HANDOVER, HEARTBEATS,
    LAUNCHES, LAUNCHES_RATIO, LEADER_RSS, SESSION, SYNC_RATIO, SYNC_US, TAKEOVER, WORKER_RSS,
};
use super::metric::{Measurement, Spec};
use super::{broker_start, footprint, latency, takeover, throughput};

/// Measures all wanted metrics.
pub(super) async fn bus(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    let bench = Bench { reps, settings };
    let any = |specs: &[Spec]| specs.iter().any(|spec| wanted(spec.name));
    let mut tell = |metrics: Vec<Measurement>| {
        metrics
            .into_iter()
            .filter(|metric| wanted(metric.metric))
            .for_each(&mut tell);
    };
    if any(&[BINARY]) {
        tell(vec![footprint::binary()?]);
    }
    if any(&[BROKER_START, BROKER_START_RATIO]) {
        tell(broker_start::broker_start(&bench)?);
    }
    if any(&[LEADER_RSS, WORKER_RSS, SESSION]) {
        tell(footprint::resident(&bench, any(&[SESSION])).await?);
    }
    if any(&[
        SYNC_US,
        SYNC_RATIO,
        ENQUEUE_NS,
        ENQUEUE_ALLOCS,
        LAUNCHES,
        LAUNCHES_RATIO,
    ]) {
        let cluster = bench.cluster(1).await?;
        let baselines = Baselines::find(cluster.broker.credentials());
        let baselines = baselines.map_err(|error| format!("{error:#}"));
        let baselines = baselines.as_ref().map_err(String::as_str);
        if any(&[SYNC_US, SYNC_RATIO]) {
            tell(latency::sync(&bench, &cluster, baselines).await?);
        }
        if any(&[ENQUEUE_NS, ENQUEUE_ALLOCS]) {
            tell(latency::enqueue(&bench, &cluster).await?);
        }
        if any(&[LAUNCHES, LAUNCHES_RATIO]) {
            tell(throughput::launches(&bench, &cluster, baselines).await?);
        }
    }
    for (spec, signal, system_account) in [
        (TAKEOVER, Signal::KILL, true),
        (HEARTBEATS, Signal::KILL, false),
        (HANDOVER, Signal::TERM, true),
    ] {
        if wanted(spec.name) {
            tell(vec![
                takeover::takeover(&bench, &spec, signal, system_account).await?,
            ]);
        }
    }
    Ok(())
}
