//! `warploom leader` and `warploom worker`: one role in this process, until it is told to stop.

use std::future::Future;
use std::os::unix::process::CommandExt;

use actors::telemetry::{LogFormat, Role, Telemetry, TelemetrySettings, start_logs};
use anyhow::{Context, Result, anyhow, bail};
use bus_schemas::Tenant;
use gpu_worker::{DeclaredLost, WorkerSettings};
use scheduler_leader::{Config, LeaderSettings};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::{LeaderArgs, WorkerArgs};
use crate::commands::credentials;
use crate::exit::Usage;
use crate::settings::Settings;

/// Names the process of the cluster that a role belongs to.
const PARENT: &str = "WARPLOOM_PARENT";

fn has_parent() -> bool {
    std::env::var_os(PARENT).is_some()
}

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

/// Does some work, which is dropped with all that it has started when the process is told to stop.
///
/// # Errors
/// The work's, or E-STOPPED.
pub async fn unless_stopped<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let stop = stop_signal()?;
    tokio::select! {
        done = work => done,
        () = stop => bail!("E-STOPPED: told to stop before it was done"),
    }
}

/// A role that a local cluster started ends, drained, when the cluster's process dies.
///
/// # Errors
/// When the kernel does not know parent-death signals, or the parent is gone already.
pub fn follow_parent() -> Result<()> {
    let Some(parent) = std::env::var_os(PARENT) else {
        return Ok(());
    };
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))?;
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().to_string());
    if now.as_deref().map(std::ffi::OsStr::new) != Some(&parent) {
        anyhow::bail!("the process that started this role is gone");
    }
    // What it writes lies in the cluster's folder, and is its owner's only.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
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
    leader.patience = Some(settings.duration("role.deadline")?);
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
    worker.compile.seconds = settings.number("worker.compile_seconds")?;
    if let Some(bytes) = settings.bytes("worker.compile_bytes")? {
        worker.compile.bytes = bytes;
    }
    let engine = args.engine.as_deref();
    worker.engine = engine
        .unwrap_or_else(|| settings.text("worker.engine"))
        .parse()
        .map_err(|error| Usage(format!("worker.engine: {error}")))?;
    let model = settings.text("worker.model").parse();
    worker.model = model.map_err(|error| Usage(format!("worker.model: {error}")))?;
    worker.patience = Some(settings.duration("role.deadline")?);
    worker.evidence = args.evidence.clone();
    worker.telemetry = telemetry(Role::Worker, settings)?;
    let ended = gpu_worker::run(worker, gpu_worker::asked_to_end());
    match ended {
        // A parent that looks after it starts it again itself.
        Err(error) if error.is::<DeclaredLost>() && !has_parent() => {
            Err(begin_anew().context(error))
        }
        ended => ended,
    }
}

/// This program from its start, as the same process: a worker that was declared lost, because it
/// stood still or was cut off, joins as another one. Gives why that did not work.
fn begin_anew() -> anyhow::Error {
    tracing::warn!("a leader declared this worker lost; it joins again as another");
    let this = match std::env::current_exe() {
        Ok(this) => this,
        Err(error) => return error.into(),
    };
    let mut command = std::process::Command::new(this);
    command.args(std::env::args_os().skip(1)).exec().into()
}
