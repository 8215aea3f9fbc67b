//! The product's commands, one module each, which contains the command's arguments.

pub mod cluster;
pub mod config;
mod made_tenant;
pub mod order;
pub mod profile;
pub mod replay;
pub mod roles;
pub mod run;
pub mod session;
pub mod smi;
pub mod status;
pub mod submit;
pub mod tenant;
pub mod up;
pub mod usage;
pub mod weights;
pub mod why;
pub mod worker;
mod worker_number;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::global::Global;
use admin::block_on;
use roles::WorkerArgs;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum ProductCommand {
    /// Starts broker, leaders and workers on this host and runs until Ctrl-C
    Up(up::UpArgs),
    /// Runs a leader candidate
    Leader(roles::LeaderArgs),
    /// Runs the worker of one device; `list` shows all workers, `drain` takes one out
    Worker(roles::WorkerArgs),
    /// Runs one kernel of a PTX file and prints the results
    Submit(submit::SubmitArgs),
    /// Runs an unmodified CUDA program on a remote worker
    Run(run::RunArgs),
    /// Prints what `run` sets for a program, as shell exports
    Env(run::EnvArgs),
    /// Shows a tenant's devices, memory and processes, as `nvidia-smi` does
    Smi(smi::SmiArgs),
    /// Creates, lists, changes, suspends and removes tenants
    #[command(subcommand)]
    Tenant(tenant::TenantCommand),
    /// Lists and shows sessions with the reasons that they wait, and ends one
    #[command(subcommand)]
    Session(session::SessionCommand),
    /// Shows and changes how the cluster orders: window, quantum, floors and other settings
    #[command(subcommand)]
    Cluster(cluster::ClusterCommand),
    /// Shows and pins the estimated costs of kernels
    #[command(subcommand)]
    Profile(profile::ProfileCommand),
    /// Shows each tenant's usage: launches, device time, core and VRAM credits
    Usage(usage::UsageArgs),
    /// Keeps weights in the cluster, so that programs need not send them
    #[command(subcommand)]
    Weights(weights::WeightsCommand),
    /// Shows leader, workers and tenants
    Status(status::StatusArgs),
    /// Explains the waits of launches and the idle time of devices
    Why(why::WhyArgs),
    /// Recomputes the launch order from the record and compares digests
    Replay(replay::ReplayArgs),
    /// Shows, exports, verifies, compares and draws launch orders; holds grants back
    #[command(subcommand)]
    Order(order::OrderCommand),
    /// Prints each setting: its value, its source and its effect
    #[command(after_help = "\
Examples:
  warploom config
  warploom --set worker.threads=0 config    what a setting would be
  WARPLOOM_BROKER_URL=nats://bus:4222 warploom config --json")]
    Config,
}

/// Runs a command. Roles and clients create their own runtimes; all others get one here.
///
/// # Errors
/// As the command's own.
pub fn run(command: &ProductCommand, global: &Global) -> Result<ExitCode> {
    let (settings, json) = (&global.settings()?, global.json);
    let done = match command {
        ProductCommand::Config => config::config(settings, json),
        ProductCommand::Submit(args) => submit::submit(args, settings, json),
        ProductCommand::Leader(args) => roles::leader(args, settings),
        ProductCommand::Env(args) => block_on(run::env(args, settings, json)),
        ProductCommand::Run(args) => return block_on(run::run(args, settings, global.verbose > 0)),
        ProductCommand::Worker(WorkerArgs {
            command: Some(command),
            ..
        }) => block_on(worker::worker(command, settings, json)),
        ProductCommand::Worker(args) => roles::worker(args, settings),
        ProductCommand::Up(args) => block_on(up::up(args, settings, json)),
        ProductCommand::Smi(args) => block_on(smi::smi(args, settings, json)),
        ProductCommand::Tenant(command) => block_on(tenant::tenant(command, settings, json)),
        ProductCommand::Session(command) => block_on(session::session(command, settings, json)),
        ProductCommand::Cluster(command) => block_on(cluster::cluster(command, settings, json)),
        ProductCommand::Profile(command) => block_on(profile::profile(command, settings, json)),
        ProductCommand::Usage(args) => block_on(usage::usage(args, settings, json)),
        ProductCommand::Weights(command) => block_on(weights::weights(command, settings, json)),
        ProductCommand::Status(args) => block_on(status::status(args, settings, json)),
        ProductCommand::Why(args) => block_on(why::why(args, settings, json)),
        ProductCommand::Replay(args) => block_on(replay::replay(args, settings, json)),
        ProductCommand::Order(command) => block_on(order::order(command, settings, json)),
    };
    done.map(|()| ExitCode::SUCCESS)
}
