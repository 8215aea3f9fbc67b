//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

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

Exit codes: 0 ok, 1 failed, 2 usage, 3 unreachable. Errors are listed in docs/errors.md.";

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
    /// Compares schedulers in virtual time, with no GPU and no cluster
    #[command(subcommand)]
    Sim(crate::commands::sim::SimCommand),
    /// Prints each setting and whence it came
    Config,
    /// One tenant of the demo (started by `demo`)
    #[command(hide = true)]
    DemoTenant(DemoTenantArgs),
}

/// `warploom run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom run -- python train.py
  warploom run --tenant research --priority 2 -- python train.py
  warploom run --devices 2 --stats -- ./simulation

The program finds a libcuda.so.1 that sends its kernels, as PTX, to a worker of the cluster; it needs
no GPU and no change. Without a cluster (`warploom up`, or broker.url) one is started for the
program's life. Exits as the program does, with 128 and its number if a signal ended it. -v prints
what is set for the program.")]
pub struct RunArgs {
    /// Whose program it is; made if it does not exist and the credentials allow it
    #[arg(long, default_value = "default", env = "WARPLOOM_TENANT")]
    pub tenant: bus_schemas::Tenant,
    /// The tenant's priority from now on, 0 (highest) to 4
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..=4))]
    pub priority: Option<u8>,
    /// Virtual devices that the program sees, each on another worker
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub devices: u32,
    /// Prints at its end how often the program waited for an answer, and what it called in vain
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
    /// Whose programs they are
    #[arg(long, default_value = "default", env = "WARPLOOM_TENANT")]
    pub tenant: bus_schemas::Tenant,
    /// Virtual devices that they see, each on another worker
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub devices: u32,
}

/// `warploom up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom up                              until Ctrl-C, which drains
  warploom up --workers 2 --set broker.port=4222
  warploom up --set up.tenants=chat,train --set worker.threads=0")]
pub struct UpArgs {
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

/// `warploom submit`.
#[derive(Debug, Args)]
#[command(after_help = "\
Arguments, in the kernel's order, one --arg each:
  f32:2.5                 a scalar: i8 u8 i16 u16 i32 u32 i64 u64 f32 f64
  f32*1024=1.5            a device buffer of 1024 elements, all set to 1.5
  f32*1024:FILE           a device buffer filled from FILE (little-endian, or text if FILE is .txt)
  f32[1,2,3]              a device buffer with these elements
--out N prints argument N (from 0; a buffer) after the run; --out N:FILE writes its bytes.

Example:
  warploom submit --tenant default tests/kernels/saxpy.ptx saxpy --grid 1 --block 4 \\
      --arg u32:4 --arg f32:2 --arg f32[1,2,3,4] --arg f32*4=10 --out 3")]
pub struct SubmitArgs {
    /// PTX file
    pub ptx: PathBuf,
    /// Entry function
    pub entry: String,
    /// Whose session it is
    #[arg(long, default_value = "default")]
    pub tenant: bus_schemas::Tenant,
    /// Blocks: x[,y[,z]]
    #[arg(long, default_value = "1", value_parser = dim)]
    pub grid: bus_schemas::Dim,
    /// Threads of a block: x[,y[,z]]
    #[arg(long, default_value = "1", value_parser = dim)]
    pub block: bus_schemas::Dim,
    /// Dynamic shared memory, bytes
    #[arg(long, default_value_t = 0)]
    pub shared: u32,
    /// A kernel argument (see below)
    #[arg(long = "arg", value_name = "ARG")]
    pub args: Vec<String>,
    /// A buffer to print or write afterwards (default: all buffers)
    #[arg(long = "out", value_name = "N[:FILE]")]
    pub out: Vec<String>,
    /// Devices it runs on, each on another worker: the same on all, results by device
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    pub devices: u32,
    /// Launches it this many times before the results are read
    #[arg(long, default_value_t = 1)]
    pub repeat: u32,
}

fn dim(text: &str) -> Result<bus_schemas::Dim, String> {
    let mut dim = [1; 3];
    let mut parts = text.split(',');
    for slot in &mut dim {
        if let Some(part) = parts.next() {
            *slot = part
                .trim()
                .parse()
                .map_err(|_| format!("{part:?} is not a number"))?;
        }
    }
    parts
        .next()
        .map_or(Ok(dim), |_| Err("at most three dimensions".into()))
}

/// `warploom tenant`.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Makes a tenant, with a login of its own on a broker that `up` started
    Create(TenantSetArgs),
    /// Changes a tenant's settings
    Set(TenantSetArgs),
    /// Lists tenants
    List,
}

/// `warploom tenant create` and `set`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom tenant create chat --priority 0
  warploom tenant set train --priority 4 --weight 2 --quota 8GiB
  warploom tenant set train --group batch --group spare")]
pub struct TenantSetArgs {
    /// The tenant: 1 to 32 of a-z, 0-9, '-', starting with a letter
    pub tenant: bus_schemas::Tenant,
    /// 0 (highest) to 4
    #[arg(long)]
    pub priority: Option<u8>,
    /// Share within the priority, 1 to 1000
    #[arg(long)]
    pub weight: Option<u32>,
    /// Device memory per device, such as 4GiB; 0 is the device's capacity
    #[arg(long)]
    pub quota: Option<String>,
    /// Sessions at a time; 0 is no limit
    #[arg(long)]
    pub sessions: Option<u32>,
    /// Charged work granted and not done, milliseconds; 0 is no bound
    #[arg(long, value_name = "MS")]
    pub outstanding: Option<u64>,
    /// Percent of each device's time the tenant may use at most; 0 is no cap
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    pub cap: Option<u8>,
    /// Group of workers its sessions go to; repeated, any of them
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<bus_schemas::Tenant>,
    /// Its sessions go to any group that is not exclusive, as at first
    #[arg(long, conflicts_with = "groups")]
    pub no_group: bool,
    /// What 99 of 100 requests are to stay within, such as 20ms (units us, ms, s); `none` takes it
    /// away. Lower priorities make room for it (docs/slo.md)
    #[arg(long, value_name = "TARGET")]
    pub slo: Option<String>,
    /// Changes nothing (exit code 1) if the change means that a target cannot be met; without it, that
    /// is a warning
    #[arg(long)]
    pub strict: bool,
}

/// `warploom cluster`.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Shows each setting, whence it came and what it does
    Show,
    /// Changes settings, all of them together or none
    #[command(after_help = "\
Examples:
  warploom cluster set window=4ms quantum=1ms
  warploom cluster set floors=0,0,0,0,10     priority 4 is left a tenth of each GPU
  warploom cluster set learn=off
  warploom cluster set window=default")]
    Set {
        /// SETTING=VALUE, or SETTING=default; `warploom cluster show` lists the settings
        #[arg(required = true, value_name = "SETTING=VALUE")]
        changes: Vec<String>,
    },
}

/// `warploom profile`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom profile list
  warploom profile show 12
  warploom profile pin            the newest version, until unpin: the order depends on nothing measured")]
pub enum ProfileCommand {
    /// Lists the versions that are kept, the last 64
    List,
    /// Shows a version's kernels
    Show {
        /// Its number or the beginning of its hash (default: the one in force)
        #[arg(value_name = "VERSION")]
        name: Option<String>,
    },
    /// Orders by a version from now on, whatever is measured
    Pin {
        /// Its number or the beginning of its hash (default: the newest)
        #[arg(value_name = "VERSION")]
        name: Option<String>,
    },
    /// Learns from what is measured again
    Unpin,
}

/// `warploom usage`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom usage
  warploom usage --by tenant,day --since 7d --csv > week.csv
  warploom usage --by kernel --tenant train --since 2026-11-21T08:00Z
  warploom usage --json | jq .core_credits

A core credit is one SM busy for a second, a VRAM credit one GiB resident for a second
(docs/metering.md). Times are UTC.")]
pub struct UsageArgs {
    /// What rows are told apart by: several with commas between them
    #[arg(long, value_delimiter = ',', default_value = "tenant", value_enum)]
    pub by: Vec<crate::accounts::By>,
    /// From then on: 2026-11-21, 2026-11-21T08:00Z, 24h or 7d ago (default: all there is)
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,
    /// Until then, likewise (default: now)
    #[arg(long, value_name = "TIME")]
    pub until: Option<String>,
    /// Of this tenant only
    #[arg(long)]
    pub tenant: Option<bus_schemas::Tenant>,
    /// Prints CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
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
    /// Tenants to run instead of chat, search and train (docs/demo.md)
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn dimensions() {
        assert_eq!(dim("4"), Ok([4, 1, 1]));
        assert_eq!(dim("4,2,3"), Ok([4, 2, 3]));
        assert!(dim("1,2,3,4").is_err() && dim("x").is_err());
    }
}
