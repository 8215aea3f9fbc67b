//! The cost of the controller, and the latency of its answers and events.

mod browser;
mod goals;
mod page;

use std::time::{Duration, Instant};

use admin::settings::Settings;
use anyhow::{Context, Result};
use bus_schemas::TenantSettings;
use client_agent::{Client, Function, Session, Settings as Login};
use test_cluster::{Processes, TestCluster};
use workloads::kernels::EMPTY;

use super::bench_cluster::{cpu_cluster_of, ordered_by_leader};
use super::memory::resident_kib;
use super::metric::{Measurement, Spec};
use super::pager::processor_ns;
pub(super) use browser::Browser;
use goals::{LAG, LIST, RSS, WATCH};
pub(super) use page::page;

/// All metrics of this benchmark.
pub(super) fn metrics() -> &'static [Spec] {
    goals::METRICS
}

const TENANT: &str = "bench";
/// Listed tenants, including the working one.
const TENANTS: usize = 1_000;
/// Lists in a repetition.
const LISTS: usize = 200;
/// Positions awaited in a repetition, and the pause between two.
const SYNCS: u64 = 100;
const PAUSE: Duration = Duration::from_millis(10);
/// Simultaneous watchers.
const WATCHERS: usize = 100;
/// Launches in a repetition, and launches between two syncs.
const LAUNCHES: usize = 400_000;
const BURST: usize = 200;
/// Time for the after-effects of a start to settle.
const SETTLE: Duration = Duration::from_secs(1);

/// A cluster with a program in it.
struct Stage {
    cluster: TestCluster<Processes>,
    session: Session,
    empty: Function,
    _client: Client,
}

impl Stage {
    async fn start(settings: &Settings) -> Result<Self> {
        let tenants = [(TENANT, TenantSettings::default())];
        // Each burst gets positions of its own, instead of one position that is open at its end.
        let cluster = cpu_cluster_of(settings, tenants, |options| {
            options.order = Some(ordered_by_leader());
        });
        let cluster = cluster.await?;
        let credentials = cluster.broker.credentials();
        let (user, password) = cluster.tenant_login(TENANT);
        let login = Login::new(&credentials.url, &credentials.cluster, TENANT);
        let client = Client::connect(login.with_login(&user, &password))?;
        let session = client.open()?;
        let empty = session.load(EMPTY.bytes())?.function("empty")?;
        session.sync()?;
        Ok(Self {
            cluster,
            session,
            empty,
            _client: client,
        })
    }

    fn launch(&self, launches: usize) -> Result<()> {
        for _ in 0..launches {
            self.session
                .launch(&self.empty, [1; 3], [32, 1, 1], 0, &[])?;
        }
        Ok(self.session.sync()?)
    }

    /// Starts another controller, and a browser that is logged in there.
    async fn controller(&mut self) -> Result<Browser> {
        let controller = self.cluster.start_controller().await?;
        Browser::log_in(&controller.said.url, &controller.said.link).await
    }

    /// Stops all controllers.
    fn alone(&mut self) -> Result<()> {
        for mut controller in self.cluster.controllers.drain(..) {
            controller.role.kill()?;
        }
        Ok(())
    }

    /// Processor time of leader, worker and broker per launch, in nanoseconds.
    fn launch_ns(&self) -> Result<f64> {
        let leader = self.cluster.leaders.first().context("a leader")?.1.pid();
        let worker = self.cluster.workers.first().context("a worker")?.pid();
        let pids = [leader, worker, self.cluster.broker.pid()];
        let spent = || -> Result<u64> {
            let each = pids.iter().map(|pid| processor_ns(*pid, None));
            each.sum()
        };
        let before = spent()?;
        for _ in 0..LAUNCHES / BURST {
            self.launch(BURST)?;
        }
        Ok((spent()? - before) as f64 / LAUNCHES as f64)
    }
}

/// The 99th percentile of the values.
fn p99(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = (values.len() * 99).div_ceil(100).saturating_sub(1);
    values.get(at).copied().unwrap_or_default()
}

/// Measures the wanted metrics on a real cluster.
pub(super) async fn control(
    reps: usize,
    settings: &Settings,
    wanted: impl Fn(&str) -> bool,
    mut tell: impl FnMut(Measurement),
) -> Result<()> {
    if [&LIST, &LAG, &WATCH, &RSS]
        .iter()
        .all(|it| !wanted(it.name))
    {
        return Ok(());
    }
    let mut stage = Stage::start(settings).await?;
    if wanted(WATCH.name) {
        tell(watched(&mut stage, reps).await?);
    }
    if wanted(RSS.name) {
        tell(idle(&mut stage, reps).await?);
    }
    if wanted(LAG.name) {
        tell(lag(&mut stage, reps).await?);
    }
    if wanted(LIST.name) {
        tell(lists(&mut stage, reps).await?);
    }
    Ok(())
}

async fn watched(stage: &mut Stage, reps: usize) -> Result<Measurement> {
    let (mut ratios, mut alone) = (Vec::new(), Vec::new());
    // Once for the profile and the buffers.
    stage.launch_ns()?;
    for rep in 1..=reps {
        eprintln!("launches with {WATCHERS} watchers and without: repetition {rep} of {reps}");
        let base = stage.launch_ns()?;
        let browser = stage.controller().await?;
        let watchers = browser.watch_beside(WATCHERS)?;
        tokio::time::sleep(SETTLE).await;
        ratios.push(stage.launch_ns()? / base);
        alone.push(base);
        let heard = watchers.stop()?;
        anyhow::ensure!(
            heard.iter().all(|heard| *heard > 0),
            "a watcher heard nothing"
        );
        stage.alone()?;
    }
    let metric = Measurement::new(&WATCH, &ratios).against("no controller, ns", &alone);
    Ok(metric.with("launches", LAUNCHES).with("watchers", WATCHERS))
}

async fn idle(stage: &mut Stage, reps: usize) -> Result<Measurement> {
    let mut values = Vec::new();
    for _ in 0..reps {
        stage.controller().await?;
        tokio::time::sleep(SETTLE).await;
        let controller = stage.cluster.controllers.first().context("a controller")?;
        values.push(resident_kib(controller.role.pid())? / 1024.0);
        stage.alone()?;
    }
    Ok(Measurement::new(&RSS, &values))
}

async fn lag(stage: &mut Stage, reps: usize) -> Result<Measurement> {
    let browser = stage.controller().await?;
    let heard = browser.watch().await?;
    // The last op of the newest event: each turn from here on is a launch and a sync.
    stage.launch(1)?;
    tokio::time::sleep(SETTLE).await;
    let mut op = heard.last_op();
    let mut values = Vec::new();
    for rep in 1..=reps {
        eprintln!("events behind syncs: repetition {rep} of {reps}");
        let mut lags = Vec::new();
        for _ in 0..SYNCS {
            stage.launch(1)?;
            let returned = Instant::now();
            op += 2;
            let came = heard.came(op).await?;
            lags.push(came.saturating_duration_since(returned).as_secs_f64() * 1e3);
            tokio::time::sleep(PAUSE).await;
        }
        values.push(p99(lags));
    }
    heard.stop();
    stage.alone()?;
    Ok(Measurement::new(&LAG, &values).with("positions", SYNCS * reps as u64))
}

async fn lists(stage: &mut Stage, reps: usize) -> Result<Measurement> {
    let administrator = stage.cluster.administrator().await?;
    for number in 1..TENANTS {
        let tenant = format!("t{number}").parse().context("a name")?;
        let settings = TenantSettings::default();
        administrator.set_tenant(&tenant, &settings).await?;
    }
    let browser = stage.controller().await?;
    let path = "/api/v1/tenants?limit=1000";
    let mut values = Vec::new();
    for rep in 1..=reps {
        eprintln!("lists of {TENANTS} tenants: repetition {rep} of {reps}");
        let mut took = Vec::new();
        for _ in 0..LISTS {
            let asked = Instant::now();
            let list = browser.get(path).await?;
            took.push(asked.elapsed().as_secs_f64() * 1e3);
            anyhow::ensure!(
                list.matches("\"name\":").count() == TENANTS,
                "not all are listed"
            );
        }
        values.push(p99(took));
    }
    stage.alone()?;
    Ok(Measurement::new(&LIST, &values).with("lists", LISTS * reps))
}
