//! `warploom run`: runs an unmodified program on a remote worker. `warploom env`: prints the
//! variables that it needs as shell exports.

use clap::Args;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use admin::completion;
use admin::credentials::{credentials, logged_in};
use admin::output;
use admin::process;
use admin::settings::Settings;
use admin::state_dir::state_dir;
use anyhow::{Context, Result};
use broker::Credentials;
use bus_schemas::subject::ToLeader;
use bus_schemas::{
    CloseReason, CloseRequest, SessionId, Tenant, TenantSettings, WIRE_VERSION, encode,
};

use crate::commands::made_tenant::prepare;
use crate::commands::smi::Connection;
use crate::drop_in::{self, EnvVariable, ProgramDevices};
use crate::exit::Unstarted;
use crate::local::{LocalCluster, LocalOptions, Scratch};
use admin::errors::{Unreachable, UsageError};

/// Time limit for the leader's list of devices. The program waits for it, and can do without.
const PATIENCE: Duration = Duration::from_secs(2);

/// `warploom run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom run -- python train.py
  warploom run --tenant research --priority 2 -- python train.py
  warploom run --devices 2 --stats -- ./simulation
  warploom run --cuda-runtime -- ./compiled_by_nvcc

The program finds a libcuda.so.1 that sends its kernels, as PTX, to a worker of the cluster; it
needs no GPU and no change. Where there is no cluster (`warploom up`, or broker.url), one is started
and ends with the program. The exit code is the program's, or 128 and the signal that ended it;
127 if there is no such program, 126 if it cannot be executed. -v prints what is set for the program.")]
pub struct RunArgs {
    /// The program's tenant; created if it does not exist and the credentials and the cluster allow
    /// it
    #[arg(long, default_value = "default", env = "WARPLOOM_TENANT", add = completion::tenants())]
    pub tenant: bus_schemas::Tenant,
    /// The tenant's priority from now on, 0 (highest) to 4
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub priority: Option<u8>,
    /// Virtual devices that the program sees, each on another worker
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub devices: u32,
    /// Gives the CUDA runtime inside the program the undocumented tables that it asks the driver
    /// for, as `client.runtime_tables = on` does; docs/howto/cuda-runtime.md explains them and
    /// NVIDIA's licence
    #[arg(long)]
    pub cuda_runtime: bool,
    /// Prints at the end how often the program waited for an answer, and which calls were not
    /// supported
    #[arg(long)]
    pub stats: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<PathBuf>,
}

/// `warploom env`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  eval \"$(warploom env --tenant research)\" && python train.py
  warploom env --json")]
pub struct EnvArgs {
    /// The tenant of the programs
    #[arg(long, default_value = "default", env = "WARPLOOM_TENANT", add = completion::tenants())]
    pub tenant: bus_schemas::Tenant,
    /// Virtual devices that the programs see, each on another worker
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub devices: u32,
    /// Gives the CUDA runtime inside the program the undocumented tables that it asks the driver
    /// for, as `client.runtime_tables = on` does; docs/howto/cuda-runtime.md explains them and
    /// NVIDIA's licence
    #[arg(long)]
    pub cuda_runtime: bool,
}

/// Runs the program, and ends its sessions after it has ended.
///
/// # Errors
/// If there is no cluster, or if the program cannot be started.
pub async fn run(args: &RunArgs, settings: &Settings, verbose: bool) -> Result<ExitCode> {
    let runs = state_dir(settings).join("run");
    broker::private_dir(&state_dir(settings))?;
    broker::private_dir(&runs)?;
    let scratch = Scratch::within(&runs)?;
    let prepared = async {
        let (cluster, mut credentials) = find_cluster(args, settings, &scratch).await?;
        prepare(&args.tenant, args.priority, settings, &mut credentials).await?;
        Ok((cluster, credentials))
    };
    let (mut cluster, credentials) = process::unless_stopped(prepared).await?;
    let tenant = args.tenant.clone();
    let own = scratch.path().join("credentials.toml");
    own_login(&credentials, &tenant)?.save(&own)?;
    let sessions = scratch.path().join("sessions");
    fs::write(&sessions, "").with_context(|| format!("writing {}", sessions.display()))?;
    let devices = devices_of(&credentials, &tenant, args.devices, settings).await;
    let mut variables = variables(settings, &own, &tenant, devices, &args.command)?;
    variables.push(runtime_tables(settings, args.cuda_runtime));
    if verbose {
        explain(&variables, cluster.as_ref());
    }
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(UsageError("no program to run".into()).into());
    };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).env(drop_in::SESSIONS, &sessions);
    if args.stats {
        command.env("WARPLOOM_STATS", "1");
    }
    for variable in &variables {
        command.env(variable.name, &variable.value);
    }
    let started = command.spawn();
    let mut child = started.map_err(|error| Unstarted {
        program: program.display().to_string(),
        error,
    })?;
    let attended = attend(&mut child);
    let status = match &mut cluster {
        Some(cluster) => cluster.tended(attended, |line| output::note(line)).await?,
        None => attended.await?,
    };
    let patience = settings.duration("command.deadline")?;
    end_sessions(&sessions, &credentials, &tenant, patience).await;
    drop(cluster);
    let code = status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok(ExitCode::from(code as u8))
}

/// Waits for the program. The terminal sends Ctrl-C to both processes, and the program handles it;
/// a termination signal is passed on.
async fn attend(child: &mut tokio::process::Child) -> Result<std::process::ExitStatus> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    loop {
        let signal = tokio::select! {
            status = child.wait() => return Ok(status?),
            _ = interrupt.recv() => continue,
            _ = terminate.recv() => rustix::process::Signal::TERM,
            _ = hangup.recv() => rustix::process::Signal::HUP,
        };
        let pid = child
            .id()
            .and_then(|pid| rustix::process::Pid::from_raw(pid as i32));
        if let Some(pid) = pid {
            // The process may have ended; the next iteration sees that.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// The configured cluster, or else one for the program's lifetime.
async fn find_cluster(
    args: &RunArgs,
    settings: &Settings,
    scratch: &Scratch,
) -> Result<(Option<LocalCluster>, Credentials)> {
    match credentials(settings) {
        Ok(credentials) => return Ok((None, credentials)),
        Err(error) if error.is::<Unreachable>() => {}
        Err(error) => return Err(error),
    }
    output::note(
        "no cluster is configured: starting one for this program (`warploom up` keeps one)",
    );
    let mut options = LocalOptions::new(scratch.path(), settings.text("cluster.name"))?;
    options.workers = args.devices as usize;
    options.configure(settings);
    options.tenants = vec![(args.tenant.clone(), TenantSettings::default())];
    let cluster = LocalCluster::start(options).await?;
    let credentials = Credentials::load(&cluster.credentials())?;
    Ok((Some(cluster), credentials))
}

/// Credentials with the tenant's login only.
fn own_login(credentials: &Credentials, tenant: &Tenant) -> Result<Credentials> {
    if credentials.tenants.is_empty() && credentials.cluster_user.is_none() {
        return Ok(credentials.clone());
    }
    credentials.for_tenant(tenant.as_str()).with_context(|| {
        UsageError(format!(
            "no login of tenant {tenant}; make it with `warploom tenant create {tenant}`"
        ))
    })
}

/// The devices that a program of the tenant may get, by the leader's list, taken for those that
/// `run.device` names. If the leader does not say in time, they are taken for CPUs: the settings for
/// CPUs also work on a GPU.
async fn devices_of(
    credentials: &Credentials,
    tenant: &Tenant,
    count: u32,
    settings: &Settings,
) -> ProgramDevices {
    let asked = async {
        let connection = Connection::by(credentials, tenant, settings).await?;
        connection.listed(PATIENCE).await
    };
    let listed = tokio::time::timeout(PATIENCE, asked).await;
    let devices = match listed.map_err(anyhow::Error::from).flatten() {
        Ok(listed) => ProgramDevices::among(count, listed.iter().map(|it| &it.properties)),
        Err(error) => {
            tracing::warn!(%error, "what devices there are is not known: programs are set up for CPUs");
            ProgramDevices::unknown(count)
        }
    };
    devices.taken_for(settings.text("run.device"))
}

fn variables(
    settings: &Settings,
    credentials: &Path,
    tenant: &Tenant,
    devices: ProgramDevices,
    command: &[PathBuf],
) -> Result<Vec<EnvVariable>> {
    let library = drop_in::library(settings.given("run.library"))?;
    let folder = drop_in::folder(&state_dir(settings), &library)?;
    let present = |name: &str| std::env::var_os(name);
    let mut variables = drop_in::variables(&folder, credentials, tenant, devices, command, present);
    for (name, key, why) in [
        (
            "WARPLOOM_CLIENT_DEADLINE",
            "client.deadline",
            "how long it waits for a part that does not answer",
        ),
        (
            "WARPLOOM_CLIENT_OPENING",
            "client.opening",
            "how long it waits for the cluster at first",
        ),
    ] {
        settings.duration(key)?;
        let value = settings.text(key).into();
        variables.push(EnvVariable { name, value, why });
    }
    if let Some(version) = settings.given("client.driver_version") {
        variables.push(EnvVariable {
            name: "WARPLOOM_CLIENT_DRIVER_VERSION",
            value: version.into(),
            why: "the version of CUDA that the driver says it speaks",
        });
    }
    Ok(variables)
}

/// The variable that turns the runtime's tables on or off, from the flag or the setting.
fn runtime_tables(settings: &Settings, flag: bool) -> EnvVariable {
    let value = if flag {
        "on"
    } else {
        settings.text("client.runtime_tables")
    };
    EnvVariable {
        name: "WARPLOOM_CLIENT_RUNTIME_TABLES",
        value: value.into(),
        why: "whether NVIDIA's CUDA runtime gets the undocumented tables that it asks the driver for",
    }
}

fn explain(variables: &[EnvVariable], cluster: Option<&LocalCluster>) {
    if let Some(cluster) = cluster {
        output::note(format_args!(
            "cluster of its own at {}",
            cluster.broker.url()
        ));
    }
    for variable in variables {
        let value = variable.value.to_string_lossy();
        let (name, why) = (variable.name, variable.why);
        output::note(format_args!("{name}={value}    # {why}"));
    }
}

/// Ends the sessions that the program left open, so that their memory is free at once.
async fn end_sessions(file: &Path, credentials: &Credentials, tenant: &Tenant, patience: Duration) {
    let text = fs::read_to_string(file).unwrap_or_default();
    let sessions: Vec<SessionId> = text.lines().filter_map(|line| line.parse().ok()).collect();
    if sessions.is_empty() {
        return;
    }
    let ended = async {
        let client = connect(credentials, tenant).await?;
        let subject = credentials.subjects()?.to_leader(tenant, ToLeader::Close);
        for session in sessions {
            let request = CloseRequest {
                v: WIRE_VERSION,
                session,
                after: 0,
                reason: CloseReason::Killed,
            };
            client
                .publish(subject.clone(), encode(&request).into())
                .await?;
        }
        client.flush().await?;
        anyhow::Ok(())
    };
    if let Ok(Err(error)) = tokio::time::timeout(patience, ended).await {
        tracing::warn!(%error, "the leader was not told that the program is gone");
    }
}

/// A connection with the tenant's login.
async fn connect(credentials: &Credentials, tenant: &Tenant) -> Result<async_nats::Client> {
    let options = async_nats::ConnectOptions::new().name("run");
    let login = credentials.tenant(tenant.as_str()).map(|it| &it.login);
    let options = logged_in(options, credentials, login);
    Ok(options.connect(credentials.url.addresses()).await?)
}

/// Prints the variables of `warploom env` as shell exports.
///
/// # Errors
/// If there is no cluster.
pub async fn env(args: &EnvArgs, settings: &Settings, json: bool) -> Result<()> {
    let credentials = credentials(settings)?;
    let own = state_dir(settings)
        .join("drop-in")
        .join(format!("{}.toml", args.tenant));
    broker::private_dir(&state_dir(settings))?;
    fs::create_dir_all(own.parent().unwrap_or(Path::new(".")))?;
    own_login(&credentials, &args.tenant)?.save(&own)?;
    let devices = devices_of(&credentials, &args.tenant, args.devices, settings).await;
    let mut variables = variables(settings, &own, &args.tenant, devices, &[])?;
    variables.push(runtime_tables(settings, args.cuda_runtime));
    if json {
        let map: serde_json::Map<_, _> = variables
            .iter()
            .map(|it| (it.name.to_owned(), it.value.to_string_lossy().into()))
            .collect();
        return output::line(serde_json::Value::Object(map));
    }
    for variable in variables {
        let value = quoted(&variable.value.to_string_lossy());
        let (name, why) = (variable.name, variable.why);
        output::line(format_args!("export {name}={value}    # {why}"))?;
    }
    Ok(())
}

/// A word, quoted for the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
