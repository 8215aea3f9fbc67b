//! The wait of an urgent launch for the device while a long kernel runs there. It begins when its intent
//! arrives at the leader (the start of its `queue` span), and ends when the device begins its slice (the
//! start of its `gpu …` span). Real processes, their traces, and one machine's clock.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use admin::settings::Settings;
use anyhow::Result;
use bus_schemas::TenantSettings;
use client_agent::Client;
use serde::{Deserialize, Serialize};
use workloads::kernels::EMPTY;

use super::bench_cluster::{TENANT, cpu_cluster_of, ordered_by_leader, play};
use super::metric::{Goal, Measurement, metrics};
use super::spans::Receiver;
use super::start::busy_process;
use test_cluster::{Processes, TestCluster};
use warploom_cli::local::LocalCluster;

metrics! {
    P50 = "preempt_start_us_p50", "us", Goal::AtMost(1_000.0),
        "p50 from an urgent launch's arrival at the leader to its start on the CPU device, while a long kernel runs there";
    P99 = "preempt_start_us_p99", "us", Goal::None,
        "the same, 99th percentile";
}

/// Urgent launches in one repetition.
const LAUNCHES: usize = 300;
/// Warm-up launches, which are not counted.
const WARMUP: usize = 50;
/// Time between two urgent launches; the long kernel goes on meanwhile.
const PAUSE: Duration = Duration::from_millis(3);
/// Tenant of the lowest priority that runs long kernels, and the name of its process.
pub(super) const LONG_PROCESS: &str = "long";
/// Time for the last long kernel to end.
const END: Duration = Duration::from_secs(30);

/// Rounds of a random generator in each thread: some seconds on two cores.
const LONG: &str = include_str!("long.ptx");
const BLOCKS: u32 = 64;
const THREADS: u32 = 256;
const ROUNDS: u32 = 100_000;

/// Output of the urgent process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Urgent {
    session: String,
}

/// Repeatedly launches an empty kernel, waits for it, and pauses.
pub(super) fn urgent(client: &Client, launches: usize) -> Result<Urgent> {
    let session = client.open()?;
    let empty = session.load(EMPTY.bytes())?.function("empty")?;
    for launch in 0..WARMUP + launches {
        session.launch(&empty, [1; 3], [32, 1, 1], 0, &[])?;
        session.sync()?;
        // The pause varies, so that it is in step with nothing.
        std::thread::sleep(PAUSE + Duration::from_micros(37 * (launch as u64 % 29)));
    }
    let id = session.id().to_string();
    session.close()?;
    Ok(Urgent { session: id })
}

/// Launches long kernels, two at a time, until killed. Reports when the first are under way.
pub(super) fn long(client: &Client) -> Result<()> {
    let session = client.open()?;
    let long = session.load(LONG.as_bytes())?.function("long")?;
    let data = session.alloc(u64::from(BLOCKS * THREADS) * 4)?;
    let mut params = data.to_le_bytes().to_vec();
    params.extend(ROUNDS.to_le_bytes());
    let launch = || session.launch(&long, [BLOCKS, 1, 1], [THREADS, 1, 1], 0, &params);
    session.sync()?;
    launch()?;
    session.flush();
    writeln!(std::io::stdout(), "ready")?;
    loop {
        launch()?;
        session.sync()?;
    }
}

async fn run(cluster: &LocalCluster, reps: usize, beside: &str) -> Result<Vec<String>> {
    let mut sessions = Vec::new();
    for rep in 1..=reps {
        eprintln!("urgent launches, {beside}: repetition {rep} of {reps}");
        let urgent: Urgent = play(cluster, "urgent", LAUNCHES).await?;
        sessions.push(urgent.session);
    }
    Ok(sessions)
}

/// Medians and 99th percentiles of the sessions, in microseconds.
fn quantiles(receiver: &Receiver, sessions: &[String]) -> Result<[Vec<f64>; 2]> {
    let (mut p50, mut p99) = (Vec::new(), Vec::new());
    for session in sessions {
        let mut arrived = BTreeMap::new();
        let mut waits = Vec::new();
        let spans = receiver.of(session)?;
        for span in spans.iter().filter(|span| span.name == "queue") {
            arrived.entry(&span.trace).or_insert(span.start);
        }
        for span in spans.iter().filter(|span| span.name.starts_with("gpu ")) {
            if let Some(arrived) = arrived.remove(&span.trace) {
                waits.push(span.start.saturating_sub(arrived) as f64 / 1e3);
            }
        }
        let mut counted = waits.split_off(WARMUP.min(waits.len()));
        anyhow::ensure!(
            counted.len() >= LAUNCHES / 2,
            "{} spans of {LAUNCHES} launches were received",
            counted.len()
        );
        counted.sort_by(f64::total_cmp);
        let at = |quantile: f64| counted[((counted.len() - 1) as f64 * quantile) as usize];
        p50.push(at(0.5));
        p99.push(at(0.99));
    }
    Ok([p50, p99])
}

/// Starts a cluster with a CPU worker for two tenants, of the highest and of the lowest priority. The
/// leader orders all their ops. `more` has further settings of all roles.
pub(super) async fn cluster(
    settings: &Settings,
    [urgent, other]: [&'static str; 2],
    more: impl IntoIterator<Item = (String, String)>,
) -> Result<TestCluster<Processes>> {
    let tenants = [(urgent, 0), (other, 4)].map(|(name, priority)| {
        let settings = TenantSettings {
            priority,
            ..TenantSettings::default()
        };
        (name, settings)
    });
    let started = cpu_cluster_of(settings, tenants, |options| {
        options.order = Some(ordered_by_leader());
        options.settings.extend(more);
    });
    started.await
}

/// Measures both metrics if one is wanted.
pub(super) async fn preempt(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    if !METRICS.iter().any(|spec| wanted(spec.name)) {
        return Ok(());
    }
    let receiver = Receiver::start()?;
    let traced = [("telemetry.otlp".into(), receiver.endpoint().into())];
    let mut cluster = cluster(settings, [TENANT, LONG_PROCESS], traced).await?;
    let alone = run(&cluster, reps, "alone").await?;
    // The spans of these roles themselves are not needed.
    let arguments = ["--set", "telemetry.otlp="].map(str::to_owned);
    let mut long = busy_process(&cluster, LONG_PROCESS, &arguments).await?;
    let beside = run(&cluster, reps, "beside a long kernel").await?;
    long.kill()?;
    // A role sends its remaining spans at its end; a worker first runs its remaining work.
    for role in cluster.workers.iter_mut() {
        role.stop(END)?;
    }
    cluster.drain()?;
    let (alone, beside) = (
        quantiles(&receiver, &alone)?,
        quantiles(&receiver, &beside)?,
    );
    for (index, spec) in METRICS.iter().enumerate() {
        let metric = Measurement::new(spec, &beside[index])
            .against("no long kernel, us", &alone[index])
            .with("launches", LAUNCHES);
        if wanted(spec.name) {
            tell(metric);
        }
    }
    Ok(())
}
