//! The cost of the pager: a worker's processor time for launches and allocations, and the time of a
//! program's calls.

use std::time::Instant;

use admin::settings::Settings;
use anyhow::{Context, Result};
use client_agent::{Client, Session, Settings as Login};
use test_cluster::{Processes, TestCluster};
use workloads::kernels::EMPTY;

use super::bench_cluster::cpu_cluster_of;
use super::metric::{Goal, Measurement, metrics};
use bus_schemas::TenantSettings;

metrics! {
    PAGER = "pager_overhead", "ratio", Goal::AtMost(1.01),
        "processor time of the device's thread for a launch, where memory may be overcommitted and all fits / where it may not";
    CLIENT = "alloc_client_ns", "ns", Goal::AtMost(500.0),
        "an allocation or a free in the program's thread, of memory that its session may hold";
    WORKER = "alloc_worker_us", "us", Goal::AtMost(5.0),
        "processor time of the whole worker for an allocation or a free that swaps nothing out";
}

const TENANT: &str = "pager";
/// Launches in a repetition, and launches between two syncs. The device's thread polls for a while before
/// it sleeps; with this many launches that time hardly counts.
const LAUNCHES: usize = 1_000_000;
const LAUNCHED: usize = 20_000;
/// Allocate-and-free pairs in a repetition, and pairs between two syncs.
const PAIRS: usize = 20_000;
const BURST: usize = 500;

/// Processor time of a process in nanoseconds: of its threads with this name, or of all.
pub(super) fn processor_ns(pid: u32, thread: Option<&str>) -> Result<u64> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.with_context(|| format!("process {pid}"))?;
    let mut sum = 0;
    for task in tasks.filter_map(Result::ok) {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if thread.is_none_or(|thread| read("comm").trim() == thread) {
            let spent = read("schedstat");
            let spent = spent
                .split_whitespace()
                .next()
                .and_then(|it| it.parse::<u64>().ok());
            sum += spent.context("the host says what threads have run (schedstat)")?;
        }
    }
    Ok(sum)
}

/// A cluster with a program in it.
struct Stage {
    session: Session,
    _client: Client,
    worker: u32,
    _cluster: TestCluster<Processes>,
}

impl Stage {
    async fn start(settings: &Settings, overcommit: &'static str) -> Result<Self> {
        let tenants = [(TENANT, TenantSettings::default())];
        let cluster = cpu_cluster_of(settings, tenants, |options| {
            for (key, value) in [
                ("worker.capacity", "1GiB"),
                ("worker.overcommit", overcommit),
            ] {
                options.settings.push((key.into(), value.into()));
            }
        });
        let cluster = cluster.await?;
        let credentials = cluster.broker.credentials();
        let (user, password) = cluster.tenant_login(TENANT);
        let login = Login::new(&credentials.url, &credentials.cluster, TENANT);
        let client = Client::connect(login.with_login(&user, &password))?;
        Ok(Self {
            session: client.open()?,
            _client: client,
            worker: cluster.workers.first().context("a worker")?.pid(),
            _cluster: cluster,
        })
    }

    /// Processor time of the device's thread per launch, in nanoseconds.
    fn launch_ns(&self, launches: usize) -> Result<f64> {
        let empty = self.session.load(EMPTY.bytes())?.function("empty")?;
        let before = processor_ns(self.worker, Some("device"))?;
        for _ in 0..launches / LAUNCHED {
            for _ in 0..LAUNCHED {
                self.session.launch(&empty, [1; 3], [32, 1, 1], 0, &[])?;
            }
            self.session.sync()?;
        }
        let spent = processor_ns(self.worker, Some("device"))? - before;
        Ok(spent as f64 / launches as f64)
    }

    /// Cost of an allocation or a free: nanoseconds of the calling thread, and processor time of the
    /// worker.
    fn alloc_ns(&self, pairs: usize) -> Result<(f64, f64)> {
        let before = processor_ns(self.worker, None)?;
        let mut called = 0;
        for _ in 0..pairs / BURST {
            let began = Instant::now();
            for _ in 0..BURST {
                let at = self.session.alloc(4_096)?;
                self.session.free(at)?;
            }
            called += began.elapsed().as_nanos();
            self.session.sync()?;
        }
        let spent = processor_ns(self.worker, None)? - before;
        let calls = 2.0 * pairs as f64;
        Ok((called as f64 / calls, spent as f64 / calls))
    }
}

/// Measures the wanted metrics.
pub(super) async fn pager(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    if wanted(PAGER.name) {
        let (with, without) = (
            Stage::start(settings, "200").await?,
            Stage::start(settings, "100").await?,
        );
        let (mut ratios, mut alone) = (Vec::new(), Vec::new());
        // Once for the profile and the buffers.
        with.launch_ns(LAUNCHES / 10)?;
        without.launch_ns(LAUNCHES / 10)?;
        for rep in 1..=reps {
            eprintln!(
                "launches with and without a pager that may swap: repetition {rep} of {reps}"
            );
            let base = without.launch_ns(LAUNCHES)?;
            ratios.push(with.launch_ns(LAUNCHES)? / base);
            alone.push(base);
        }
        let metric = Measurement::new(&PAGER, &ratios).against("without, ns", &alone);
        tell(metric.with("launches", LAUNCHES));
    }
    if wanted(CLIENT.name) || wanted(WORKER.name) {
        let stage = Stage::start(settings, "100").await?;
        stage.alloc_ns(PAIRS / 10)?;
        let (mut client, mut worker) = (Vec::new(), Vec::new());
        for rep in 1..=reps {
            eprintln!("allocations and frees: repetition {rep} of {reps}");
            let (called, spent) = stage.alloc_ns(PAIRS)?;
            client.push(called);
            worker.push(spent / 1e3);
        }
        for (spec, values) in [(&CLIENT, client), (&WORKER, worker)] {
            if wanted(spec.name) {
                tell(Measurement::new(spec, &values).with("pairs", PAIRS));
            }
        }
    }
    Ok(())
}
