//! The cost of loading a module to its worker and to other tenants. The modules consist of conditional
//! branches, each to a random target. Growth is measured in this process; memory and the waits of another
//! tenant are measured in real processes.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use admin::settings::Settings;
use anyhow::{Context, Result};
use bus_schemas::TenantSettings;
use client_agent::Client;
use device_cpu::Program;
use serde::{Deserialize, Serialize};
use workloads::kernels::EMPTY;

use super::bench_cluster::{TENANT, cpu_cluster_of, play};
use super::memory::{forget_peak, peak_kib, resident_kib};
use super::metric::{Goal, Measurement, median, metrics};
use warploom_cli::local::LocalCluster;

metrics! {
    GROWTH = "compile_growth", "ratio", Goal::AtMost(3.0),
        "time for each branch to prepare a function of 100,000 branches to anywhere / of 1,000";
    RSS = "compile_rss_mib", "MiB", Goal::AtMost(512.0),
        "most that the worker's memory grows by while it prepares the function of 100,000";
    SYNC = "load_sync_ms", "ms", Goal::AtMost(100.0),
        "largest of 200 launches with a sync while an equal tenant loads such functions all the time";
}

/// Branches of a large and of a small function.
const LARGE: usize = 100_000;
const SMALL: usize = 1_000;
/// Small functions timed for each large one.
const SMALLS: usize = 30;
/// The loading tenant, equal to the measured one, and the processes.
pub(super) const LOADER: &str = "loader";
pub(super) const LOADED: &str = "loaded";
pub(super) const WAITER: &str = "waiter";
/// Launches with a sync, and the pause between two of them.
const ROUNDS: usize = 200;
const PAUSE: Duration = Duration::from_millis(20);
/// Time for a load to get under way.
const SETTLE: Duration = Duration::from_secs(1);

/// A module of conditional branches, each to a random target; `salt` makes it distinct.
fn branches(count: usize, salt: usize) -> String {
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n";
    let mut text = format!("// {salt}\n{head}.visible .entry k(.param .u64 p) {{\n");
    text.push_str(".reg .pred %p<4>; .reg .b32 %r<8>;\n");
    for at in 0..count {
        let to = (at as u64 + salt as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let (to, register) = (to as usize % count, at % 7);
        let _ = writeln!(
            text,
            "L{at}: setp.lt.u32 %p1, %r{register}, {at}; @%p1 bra L{to};"
        );
    }
    text + "ret; }\n"
}

/// Result of a load.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Loaded {
    /// Milliseconds until the module could be launched.
    load_ms: f64,
}

/// Loads one large module.
pub(super) fn loaded(client: &Client) -> Result<Loaded> {
    let session = client.open()?;
    let began = Instant::now();
    session.load(branches(LARGE, 0).as_bytes())?;
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    session.close()?;
    Ok(Loaded { load_ms })
}

/// Loads large modules, each a distinct one, until killed.
pub(super) fn loader(client: &Client) -> Result<()> {
    for salt in 1.. {
        let session = client.open()?;
        session.load(branches(LARGE, salt).as_bytes())?;
        session.close()?;
    }
    Ok(())
}

/// Waits of a tenant that loads a small module and launches an empty kernel.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Waited {
    /// Milliseconds of the longest launch with its sync, and of the median one.
    largest_ms: f64,
    p50_ms: f64,
    /// Milliseconds of loading a small module.
    load_ms: f64,
}

/// Loads a small module, then repeatedly launches an empty kernel and waits for it.
pub(super) fn waiter(client: &Client, rounds: usize) -> Result<Waited> {
    let session = client.open()?;
    let began = Instant::now();
    let empty = session.load(EMPTY.bytes())?.function("empty")?;
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    let round = || -> Result<f64> {
        let began = Instant::now();
        session.launch(&empty, [1; 3], [32, 1, 1], 0, &[])?;
        session.sync()?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    };
    for _ in 0..20 {
        round()?;
    }
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        times.push(round()?);
        std::thread::sleep(PAUSE);
    }
    session.close()?;
    Ok(Waited {
        largest_ms: times.iter().copied().fold(0.0, f64::max),
        p50_ms: median(&times).unwrap_or_default(),
        load_ms,
    })
}

/// Microseconds per branch.
fn prepare(count: usize, salt: usize) -> Result<f64> {
    let text = branches(count, salt);
    let began = Instant::now();
    let program = Program::build(&text).context("the module of branches")?;
    let each = began.elapsed().as_secs_f64() * 1e6 / count as f64;
    drop(program);
    Ok(each)
}

fn growth(reps: usize) -> Result<Measurement> {
    let (mut ratios, mut large, mut small) = (Vec::new(), Vec::new(), Vec::new());
    for rep in 1..=reps {
        eprintln!("preparing modules: repetition {rep} of {reps}");
        let few: Result<Vec<f64>> = (0..SMALLS).map(|salt| prepare(SMALL, salt)).collect();
        let few = median(&few?).context("a median")?;
        let many = prepare(LARGE, rep)?;
        ratios.push(many / few);
        large.push(many);
        small.push(few);
    }
    Ok(Measurement::new(&GROWTH, &ratios)
        .with("us_per_branch", median(&large))
        .with("us_per_branch_of_1000", median(&small)))
}

/// Peak growth of the worker's memory in MiB, and the duration of the load in ms.
async fn grown(cluster: &LocalCluster) -> Result<(f64, f64)> {
    let worker = cluster.workers.first().context("a worker")?.pid();
    let before = resident_kib(worker)?;
    forget_peak(worker)?;
    let loaded: Loaded = play(cluster, LOADED, 1).await?;
    Ok(((peak_kib(worker)? - before) / 1024.0, loaded.load_ms))
}

/// Measures all wanted metrics.
pub(super) async fn loading(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    if wanted(GROWTH.name) {
        tell(growth(reps)?);
    }
    let (rss, sync) = (wanted(RSS.name), wanted(SYNC.name));
    if !rss && !sync {
        return Ok(());
    }
    let (mut peaks, mut loads) = (Vec::new(), Vec::new());
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    let (mut small, mut p50) = (Vec::new(), Vec::new());
    for rep in 1..=reps {
        eprintln!("loading modules: repetition {rep} of {reps}");
        let tenants = [TENANT, LOADER].map(|name| (name, TenantSettings::default()));
        let cluster = cpu_cluster_of(settings, tenants, |_| ()).await?;
        // Every buffer has grown before the measurement.
        let waited: Waited = play(&cluster, WAITER, ROUNDS).await?;
        alone.push(waited.largest_ms);
        let (peak, load) = grown(&cluster).await?;
        peaks.push(peak);
        loads.push(load);
        if sync {
            let mut loader = cluster.role(&format!("bench .{LOADER}"), LOADER, &[])?;
            tokio::time::sleep(SETTLE).await;
            let waited: Waited = play(&cluster, WAITER, ROUNDS).await?;
            anyhow::ensure!(loader.is_running(), "no program loads modules any more");
            loader.kill()?;
            beside.push(waited.largest_ms);
            small.push(waited.load_ms);
            p50.push(waited.p50_ms);
        }
    }
    if rss {
        tell(Measurement::new(&RSS, &peaks).with("load_ms", median(&loads)));
    }
    if sync {
        let metric = Measurement::new(&SYNC, &beside)
            .against("no loads, ms", &alone)
            .with("p50_ms", median(&p50))
            .with("small_load_ms", median(&small));
        tell(metric);
    }
    Ok(())
}
