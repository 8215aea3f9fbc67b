//! The command line.

mod admin;
mod program;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub use admin::{ClusterCommand, ProfileCommand, TenantCommand, TenantSetArgs, UsageArgs};
pub use program::{EnvArgs, RunArgs, SubmitArgs};

/// A GPU hypervisor: many tenants share GPUs in one global, deterministic order.
#[derive(Debug, Parser)]
#[command(name = "warploom", version, propagate_version = true, after_help = EXAMPLES)]
pub struct Cli {
    /// Settings every command understands.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  warploom demo                     three tenants share two devices, the leader is killed half-way
  warploom up                       a whole cluster on this host, until Ctrl-C
  warploom tenant create chat --priority 0 --slo 20ms
  warploom submit --tenant chat saxpy.ptx saxpy --grid 4 --block 256 \\
      --arg u32:1024 --arg f32:2.0 --arg f32*1024:x.f32 --arg f32*1024=1 --out 3
  warploom run -- python train.py   an unmodified CUDA program, on a worker's device
  warploom status                   tenants, workers, queues
  warploom replay                   recompute the launch order from the record, compare digests
  warploom order show --live        positions of the launch order as they end

Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable. Errors are listed in docs/reference/errors.md.";

/// Flags of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Configuration file (default: ./warploom.toml if there is one)
    #[arg(long, global = true, value_name = "FILE", env = "WARPLOOM_CONFIG")]
    pub config: Option<PathBuf>,
    /// Overrides a setting; `warploom config` lists them
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Prints one JSON object a line instead of text
    #[arg(long, global = true)]
    pub json: bool,
    /// Logs more to stderr: -v info, -vv debug, -vvv trace
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Starts broker, leaders and workers on this host and runs until Ctrl-C
    Up(UpArgs),
    /// Runs a leader candidate
    Leader(LeaderArgs),
    /// Runs the worker of one device; `drain` takes one out
    Worker(WorkerArgs),
    /// Runs one kernel of a PTX file and prints the results
    Submit(SubmitArgs),
    /// Runs an unmodified CUDA program on a remote worker
    Run(RunArgs),
    /// Prints what `run` sets for a program, as shell exports
    Env(EnvArgs),
    /// Creates, lists and changes tenants
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// Shows and changes how the cluster orders: window, quantum, floors and the like
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Shows and pins what kernels are estimated to cost
    #[command(subcommand)]
    Profile(ProfileCommand),
    /// Shows who used what: launches, device time, core and VRAM credits
    Usage(UsageArgs),
    /// Shows leader, workers and tenants
    Status(StatusArgs),
    /// Recomputes the launch order from the record and compares digests
    Replay(ReplayArgs),
    /// Shows, exports, verifies, compares and draws launch orders; holds grants back
    #[command(subcommand)]
    Order(crate::commands::order::OrderCommand),
    /// Measures; `warploom bench` lists the benchmarks
    Bench(BenchArgs),
    /// Three tenants share two devices; the leader is killed half-way; everything is verified
    Demo(DemoArgs),
    /// Kills, stops and cuts off real processes under load and checks every promise afterwards
    Chaos(ChaosArgs),
    /// Compares schedulers in virtual time, with no GPU and no cluster
    #[command(subcommand)]
    Sim(crate::commands::sim::SimCommand),
    /// Prints each setting and whence it came
    Config,
    /// One tenant of the demo (started by `demo`)
    #[command(hide = true)]
    DemoTenant(DemoTenantArgs),
    /// One program of a chaos run (started by `chaos`)
    #[command(hide = true)]
    ChaosProgram(ChaosProgramArgs),
}

/// `warploom up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom up                              until Ctrl-C, which drains
  warploom up --workers 2 --set broker.port=4222
  warploom up --set up.tenants=chat,train --set worker.threads=0")]
pub struct UpArgs {
    /// Brokers: 1, or 3 or 5 of which any one (any two) may be lost
    #[arg(long)]
    pub brokers: Option<usize>,
    /// Leader candidates
    #[arg(long)]
    pub leaders: Option<usize>,
    /// Workers
    #[arg(long)]
    pub workers: Option<usize>,
}

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
  warploom worker drain 1

Tenants go to all groups that are not exclusive, or to those they are bound to: `warploom tenant set
NAME --group batch`. An exclusive worker takes bound tenants only, one at a time."
)]
pub struct WorkerArgs {
    /// What to do with running workers instead
    #[command(subcommand)]
    pub command: Option<crate::commands::worker::WorkerCommand>,
    /// Number of its device in the cluster
    #[arg(long)]
    pub gpu: Option<u32>,
    /// auto, cpu or cuda
    #[arg(long)]
    pub device: Option<String>,
    /// native or interpreter: what runs kernels on the CPU device
    #[arg(long)]
    pub engine: Option<String>,
    /// all, tenant or off: whose sessions keep what they hold alike in memory once, on a CPU device
    #[arg(long)]
    pub share: Option<String>,
    /// Group of workers that it is in
    #[arg(long, value_name = "NAME")]
    pub group: Option<bus_schemas::Tenant>,
    /// Takes only tenants that are bound to its group, one at a time
    #[arg(long)]
    pub exclusive: bool,
    /// Appends a line for every position that ended to this file
    #[arg(long, value_name = "FILE")]
    pub evidence: Option<PathBuf>,
}

/// `warploom status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom status
  warploom status --watch 1
  warploom status --json | jq .tenants")]
pub struct StatusArgs {
    /// Repeats every so many seconds until Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    pub watch: Option<f64>,
}

/// `warploom replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom replay
  warploom replay --order order.jsonl
  warploom replay --expect 2dd05749…   fails if the record says otherwise
  warploom replay --record run.record --until 1:4200   the order behind gpu 1's position 4200")]
pub struct ReplayArgs {
    /// Replays a file that `order export` wrote instead of the cluster's record
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Stops behind this position and prints queues, virtual times, windows and budgets:
    /// GLOBAL, EPOCH/GLOBAL, GPU:POSITION or INCARNATION:POSITION
    #[arg(long, value_name = "POSITION", conflicts_with_all = ["order", "expect"])]
    pub until: Option<scheduler_leader_core::replay::Stop>,
    /// Writes every position of the order to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub order: Option<PathBuf>,
    /// Fails unless the replay arrives at this digest
    #[arg(long, value_name = "HEX")]
    pub expect: Option<String>,
}

/// `warploom bench`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom bench                      lists the benchmarks
  warploom bench bus --only sync
  warploom bench order --json")]
pub struct BenchArgs {
    /// The benchmark; without one, all are listed
    pub name: Option<String>,
    /// Repetitions, interleaved with the baseline
    #[arg(long, default_value_t = 5)]
    pub reps: usize,
    /// Only metrics whose name contains this
    #[arg(long)]
    pub only: Option<String>,
}

/// `warploom demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom demo
  warploom demo --seconds 60 --kills 3 --evidence evidence
  warploom demo --tenants tenants.toml --json")]
pub struct DemoArgs {
    /// Seed of weights, inputs and prompts
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How often the elected leader is killed
    #[arg(long, default_value_t = 1)]
    pub kills: usize,
    /// Seconds the tenants run
    #[arg(long, default_value_t = 30)]
    pub seconds: u64,
    /// Leader candidates
    #[arg(long, default_value_t = 3)]
    pub leaders: usize,
    /// Workers
    #[arg(long, default_value_t = 2)]
    pub workers: usize,
    /// Tenants to run instead of chat, search and train (docs/howto/demo.md)
    #[arg(long, value_name = "FILE")]
    pub tenants: Option<PathBuf>,
    /// Writes submitted.jsonl, started.jsonl, order.jsonl and kills.jsonl here
    #[arg(long, value_name = "DIR")]
    pub evidence: Option<PathBuf>,
}

/// `warploom demo-tenant`.
#[derive(Debug, Args)]
pub struct DemoTenantArgs {
    /// The tenant
    #[arg(long)]
    pub tenant: bus_schemas::Tenant,
    /// chat, search or train
    #[arg(long)]
    pub workload: String,
    /// Seed of weights and inputs
    #[arg(long)]
    pub seed: u64,
    /// Milliseconds between a request's answer and the next request
    #[arg(long, default_value_t = 0)]
    pub think_ms: u64,
    /// Appends a line for every submitted op range to this file
    #[arg(long)]
    pub evidence: Option<PathBuf>,
}

/// `warploom chaos`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom chaos --kills 10 --seconds 30
  warploom chaos --kills 100 --seconds 300 --json
  warploom chaos --seed 7 --evidence evidence    keeps the evidence, and the logs where it fails

It runs a cluster of its own: broker.* settings and credentials do not matter.")]
pub struct ChaosArgs {
    /// Processes that are killed (SIGKILL), four of ten the elected leader
    #[arg(long, default_value_t = 100)]
    pub kills: usize,
    /// Seconds in which all is done
    #[arg(long, default_value_t = 300)]
    pub seconds: u64,
    /// Servers of the broker: 1 or 3
    #[arg(long, default_value_t = 1)]
    pub brokers: usize,
    /// What is hit when follows from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A call of a program that takes longer, seconds, has hung
    #[arg(long, default_value_t = 60)]
    pub deadline: u64,
    /// Writes the evidence here, and the logs of all roles where something does not hold
    #[arg(long, value_name = "DIR")]
    pub evidence: Option<PathBuf>,
}

/// `warploom chaos-program`.
#[derive(Debug, Args)]
pub struct ChaosProgramArgs {
    /// The tenant
    #[arg(long)]
    pub tenant: bus_schemas::Tenant,
    /// Keeps one session
    #[arg(long)]
    pub long: bool,
    /// Seed of its numbers
    #[arg(long)]
    pub seed: u64,
    /// Seconds that a call may take
    #[arg(long)]
    pub deadline: u64,
    /// Appends a line for every submitted op range to this file
    #[arg(long)]
    pub evidence: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
