//! `warploom leader` and `warploom worker`: one role in this process, until it is told to stop.

use std::fmt::Display;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::str::FromStr;

use admin::block_on;
use admin::completion;
use admin::credentials::credentials;
use admin::errors::{ErrorCode, UsageError};
use admin::process::{follow_parent, has_parent, stop_signal};
use admin::settings::Settings;
use admin::telemetry::{end_logs, logs, metrics, telemetry};
use anyhow::{Context, Result, bail};
use bus_schemas::Tenant;
use clap::Args;
use gpu_worker::{
    DeclaredLost, DeviceLost, DeviceSettings, NumberTaken, SwapSettings, WorkerSettings,
};
use scheduler_leader::{Events, LeaderSettings};
use telemetry::Role;

use crate::commands::worker_number::{Wanted, choose, taken};
use crate::host_memory;

/// `warploom leader`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom leader --set broker.credentials=credentials.toml
  warploom leader --set broker.url=nats://bus:4222 --set cluster.name=lab")]
pub struct LeaderArgs {
    /// Its id, 16 hexadecimal digits (default: random)
    #[arg(long, value_name = "ID")]
    pub id: Option<bus_schemas::LeaderId>,
}

/// `warploom worker`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  warploom worker --gpu 0 --set broker.credentials=credentials.toml
  warploom worker --gpu 1 --device cpu --set worker.capacity=8GiB
  warploom worker --gpu 2 --group batch --exclusive
  warploom worker list
  warploom worker drain 1

Tenants go to all groups that are not exclusive, or to those they are bound to: `warploom tenant set
NAME --group batch`. An exclusive worker takes bound tenants only, one at a time."
)]
pub struct WorkerArgs {
    /// Manages running workers instead
    #[command(subcommand)]
    pub command: Option<crate::commands::worker::WorkerCommand>,
    /// Number of its device in the cluster [default: the setting worker.gpu, 0]
    #[arg(long)]
    pub gpu: Option<u32>,
    /// auto (a GPU where there is one), cpu or cuda [default: the setting worker.device, auto]
    #[arg(long, add = completion::values_of("worker.device"))]
    pub device: Option<String>,
    /// native or interpreter: the engine that runs kernels on the CPU device [default: the setting
    /// worker.engine, native]
    #[arg(long, add = completion::values_of("worker.engine"))]
    pub engine: Option<String>,
    /// all, tenant or off: the sessions on a CPU device that share the storage of equal bytes
    /// [default: the setting worker.share, tenant]
    #[arg(long, add = completion::values_of("worker.share"))]
    pub share: Option<String>,
    /// Group that the worker is in [default: the setting worker.group, default]
    #[arg(long, value_name = "NAME", add = completion::groups())]
    pub group: Option<bus_schemas::Tenant>,
    /// Takes only tenants that are bound to its group, one at a time
    #[arg(long)]
    pub exclusive: bool,
    /// Appends a line to this file for each position that ended
    #[arg(long, value_name = "FILE")]
    pub evidence: Option<PathBuf>,
}

/// Runs a leader candidate.
///
/// # Errors
/// If it cannot start, or an actor dies.
pub fn leader(args: &LeaderArgs, settings: &Settings) -> Result<()> {
    follow_parent()?;
    logs(Role::Leader, settings)?;
    let credentials = credentials(settings)?;
    let cluster: Tenant = credentials.cluster.parse().context("the cluster's name")?;
    let mut leader = LeaderSettings::new(&credentials.url, cluster);
    let disconnects = credentials.disconnect_subject();
    let login = |login: broker::Login| (login.user, login.password);
    let users = credentials.users()?;
    leader.bus.login = credentials.cluster_user.map(login);
    leader.bus.patience = Some(settings.duration("role.deadline")?);
    leader.events = credentials.system_user.map(|user| Events {
        login: login(user),
        subject: disconnects,
        users,
    });
    leader.id = args.id;
    let nanos = |key: &str| anyhow::Ok(settings.duration(key)?.as_nanos() as u64);
    leader.config.connection_lost = nanos("leader.connection_lost")?;
    leader.config.expiry = nanos("leader.expiry")?;
    leader.telemetry = telemetry(Role::Leader, settings)?;
    let _metrics = metrics("leader.metrics", settings, &leader.telemetry)?;
    scheduler_leader::run(leader, stop_signal)
}

/// Maximum percentage by which memory may be overcommitted.
const MOST_OVERCOMMIT: u32 = 10_000;
/// Maximum number of threads of a CPU device.
const MOST_THREADS: usize = 4_096;

/// Runs the worker of one device.
///
/// # Errors
/// If it cannot start. A supervised worker also fails when its device is lost or a leader declares
/// it lost.
pub fn worker(args: &WorkerArgs, settings: &Settings) -> Result<()> {
    follow_parent()?;
    logs(Role::Worker, settings)?;
    let credentials = credentials(settings)?;
    let cluster: Tenant = credentials.cluster.parse().context("the cluster's name")?;
    let wanted = wanted(args, settings)?;
    let gpu = match has_parent() {
        // A parent gives each of its workers its own number.
        true => wanted.number(),
        false => block_on(choose(wanted, &credentials))?,
    };
    let mut worker = WorkerSettings::new(&credentials.url, cluster, gpu);
    let login = |login: broker::Login| (login.user, login.password);
    worker.bus.login = credentials.cluster_user.map(login);
    worker.bus.patience = Some(settings.duration("role.deadline")?);
    let group = args.group.clone();
    worker.group = Some(group.map_or_else(|| chosen(None, settings, "worker.group"), Ok)?);
    worker.exclusive = args.exclusive || chosen(None, settings, "worker.exclusive")?;
    worker.share = chosen(args.share.as_deref(), settings, "worker.share")?;
    worker.metering = settings.duration("worker.metering")?;
    if worker.metering.is_zero() {
        bail!(ErrorCode::ConfigValue.usage("worker.metering must be more than 0: 1s is usual"));
    }
    let chunk_memory = settings.bytes("worker.chunk_memory")?;
    worker.chunk_memory = chunk_memory.unwrap_or_else(host_memory::for_copies);
    worker.chunk_idle = settings.duration("worker.chunk_idle")?;
    worker.overcommit = settings.number("worker.overcommit")?;
    if !(100..=MOST_OVERCOMMIT).contains(&worker.overcommit) {
        bail!(ErrorCode::ConfigValue.usage(format!(
            "worker.overcommit is 100 to {MOST_OVERCOMMIT} percent, not {}",
            worker.overcommit
        )));
    }
    worker.swap_idle = settings.duration("worker.swap_idle")?;
    worker.compile.seconds = settings.number("worker.compile_seconds")?;
    if let Some(bytes) = settings.bytes("worker.compile_bytes")? {
        worker.compile.bytes = bytes;
    }
    worker.evidence = args.evidence.clone();
    worker.telemetry = telemetry(Role::Worker, settings)?;
    let _metrics = metrics("worker.metrics", settings, &worker.telemetry)?;
    let threads = settings.number("worker.threads")?;
    if threads > MOST_THREADS {
        bail!(ErrorCode::ConfigValue.usage(format!(
            "worker.threads is {MOST_THREADS} at most, not {threads}"
        )));
    }
    let device = DeviceSettings {
        choice: chosen(args.device.as_deref(), settings, "worker.device")?,
        capacity: settings.bytes("worker.capacity")?,
        reserve: settings.bytes("worker.reserve")?,
        threads,
        watchdog: settings.duration("worker.watchdog")?,
        engine: chosen(args.engine.as_deref(), settings, "worker.engine")?,
        model: chosen(None, settings, "worker.model")?,
        swap: SwapSettings {
            overcommit: worker.overcommit,
            memory: settings.bytes("worker.swap_memory")?,
            file: settings.bytes("worker.swap_file")?.unwrap_or(0),
            dir: settings.given("worker.swap_dir").map(PathBuf::from),
        },
    };
    let ended = gpu_worker::run(worker, device, gpu_worker::asked_to_end());
    match ended {
        Err(error) if error.is::<NumberTaken>() && wanted.is_given() => Err(taken(gpu, None)),
        // A supervising parent restarts it itself.
        Err(error) if is_over(&error) && !has_parent() => {
            tracing::warn!(%error, "this worker joins again as another");
            Err(begin_anew().context(error))
        }
        ended => ended,
    }
}

/// The number of its device that was asked for.
fn wanted(args: &WorkerArgs, settings: &Settings) -> Result<Wanted> {
    let asked = args.gpu.map_or_else(|| settings.number("worker.gpu"), Ok)?;
    let given = has_parent() || args.gpu.is_some() || settings.is_set("worker.gpu");
    Ok(match given {
        true => Wanted::Given(asked),
        false => Wanted::Usual(asked),
    })
}

/// True if this worker has ended and another may take its place.
fn is_over(error: &anyhow::Error) -> bool {
    error.is::<DeclaredLost>() || error.is::<DeviceLost>() || error.is::<NumberTaken>()
}

/// The value of a flag, or else of the setting that it overrides.
fn chosen<T: FromStr>(flag: Option<&str>, settings: &Settings, key: &str) -> Result<T>
where
    T::Err: Display,
{
    let text = flag.unwrap_or_else(|| settings.text(key));
    Ok(text
        .parse()
        .map_err(|error| UsageError(format!("{key}: {error}")))?)
}

/// Restarts this program in the same process, so that it joins as another worker. This follows a
/// declared loss, because the worker stalled or was cut off, or a GPU that lost its context.
/// Returns the reason if the restart failed.
fn begin_anew() -> anyhow::Error {
    let this = match std::env::current_exe() {
        Ok(this) => this,
        Err(error) => return error.into(),
    };
    // The process goes on, but its threads do not.
    end_logs();
    let mut command = std::process::Command::new(this);
    command.args(std::env::args_os().skip(1)).exec().into()
}
