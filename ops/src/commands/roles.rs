//! `warploom leader` and `warploom worker`: one role in this process, until it is told to stop.

use std::future::Future;
use std::time::Duration;

use actors::telemetry::{LogFormat, Role, Telemetry, TelemetrySettings, start_logs};
use anyhow::{Context, Result, anyhow, bail};
use bus_schemas::Tenant;
use gpu_worker::WorkerSettings;
use scheduler_leader::{Config, LeaderSettings};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{LeaderArgs, WorkerArgs};
use crate::commands::credentials;
use crate::exit::Usage;
use crate::settings::Settings;

/// How long a role waits for its broker before it gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Completes at SIGINT or SIGTERM.
///
/// # Errors
/// When signals cannot be listened to.
pub fn stop_signal() -> Result<impl Future<Output = ()> + Send + 'static> {
    let mut terminate = signal(SignalKind::terminate()).context("listening to SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listening to SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// A role that a local cluster started ends, drained, when the cluster's process dies.
///
/// # Errors
/// When the kernel does not know parent-death signals, or the parent is gone already.
pub fn follow_parent() -> Result<()> {
    let Some(parent) = std::env::var_os("WARPLOOM_PARENT") else {
        return Ok(());
    };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if now.as_deref().map(std::ffi::OsStr::new) != Some(&parent) {
        anyhow::bail!("the process that started this role is gone");
    }
    Ok(())
}

/// Sends logs to stderr as the settings say.
///
/// # Errors
/// [`Usage`] when the filter or the format is none.
pub fn logs(settings: &Settings) -> Result<()> {
    let format: LogFormat = settings
        .text("log.format")
        .parse()
        .map_err(|error| Usage(format!("log.format: {error}")))?;
    start_logs(settings.text("log.filter"), format)
        .map_err(|error| Usage(format!("log.filter: {error}")).into())
}

/// Telemetry as the settings say; off unless an endpoint is set.
///
/// # Errors
/// When the endpoint is none.
pub fn telemetry(role: Role, settings: &Settings) -> Result<Telemetry> {
    let cluster = settings.text("cluster.name");
    let endpoint = settings.text("telemetry.otlp");
    let chosen = TelemetrySettings::from_environment(role, cluster, endpoint);
    Telemetry::start(&chosen).map_err(|error| anyhow!("E-CONFIG-VALUE: telemetry.otlp: {error}"))
}

/// Runs a leader candidate.
///
/// # Errors
/// When it cannot start, or an actor dies.
pub fn leader(args: &LeaderArgs, settings: &Settings) -> Result<()> {
    follow_parent()?;
    logs(settings)?;
    let credentials = credentials(settings)?;
    let cluster: Tenant = credentials.cluster.parse().context("the cluster's name")?;
    let mut leader = LeaderSettings::new(&credentials.url, cluster);
    let disconnects = credentials.disconnect_subject();
    let login = |login: broker::Login| (login.user, login.password);
    leader.login = credentials.cluster_user.map(login);
    leader.events = credentials
        .system_user
        .map(|user| (login(user), disconnects));
    leader.id = args.id;
    leader.config = Some(protocol(settings, leader.cluster.clone())?);
    leader.telemetry = telemetry(Role::Leader, settings)?;
    scheduler_leader::run(leader, stop_signal)
}

/// The leader's protocol as the settings say.
fn protocol(settings: &Settings, cluster: Tenant) -> Result<Config> {
    let nanos = |key: &str| anyhow::Ok(settings.duration(key)?.as_nanos() as u64);
    Ok(Config {
        connection_lost: nanos("leader.connection_lost")?,
        expiry: nanos("leader.expiry")?,
        ..Config::new(cluster)
    })
}

/// Runs the worker of one device.
///
/// # Errors
/// When it cannot start, its device dies, or a leader declares it lost.
pub fn worker(args: &WorkerArgs, settings: &Settings) -> Result<()> {
    follow_parent()?;
    logs(settings)?;
    let credentials = credentials(settings)?;
    let cluster: Tenant = credentials.cluster.parse().context("the cluster's name")?;
    let gpu = args.gpu.map_or_else(|| settings.number("worker.gpu"), Ok)?;
    let mut worker = WorkerSettings::new(&credentials.url, cluster, gpu);
    worker.login = credentials
        .cluster_user
        .map(|login| (login.user, login.password));
    let device = args
        .device
        .as_deref()
        .unwrap_or_else(|| settings.text("worker.device"));
    worker.device = device
        .parse()
        .map_err(|error| Usage(format!("worker.device: {error}")))?;
    let group = settings.text("worker.group").parse();
    let group = group.map_err(|error| Usage(format!("worker.group: {error}")))?;
    worker.group = Some(args.group.clone().unwrap_or(group));
    let exclusive = settings.text("worker.exclusive").parse::<bool>();
    let exclusive = exclusive.map_err(|error| Usage(format!("worker.exclusive: {error}")))?;
    worker.exclusive = args.exclusive || exclusive;
    worker.capacity = settings.bytes("worker.capacity")?;
    worker.reserve = settings.bytes("worker.reserve")?;
    let share = args.share.as_deref();
    worker.share = share
        .unwrap_or_else(|| settings.text("worker.share"))
        .parse()
        .map_err(|error| Usage(format!("worker.share: {error}")))?;
    worker.metering = settings.duration("worker.metering")?;
    if worker.metering.is_zero() {
        bail!(Usage(
            "E-CONFIG-VALUE: worker.metering must be more than 0: 1s is usual".into()
        ));
    }
    worker.threads = settings.number("worker.threads")?;
    worker.watchdog = settings.duration("worker.watchdog")?;
    let engine = args.engine.as_deref();
    worker.engine = engine
        .unwrap_or_else(|| settings.text("worker.engine"))
        .parse()
        .map_err(|error| Usage(format!("worker.engine: {error}")))?;
    worker.patience = Some(PATIENCE);
    worker.evidence = args.evidence.clone();
    worker.telemetry = telemetry(Role::Worker, settings)?;
    gpu_worker::run(worker, gpu_worker::asked_to_end())
}
