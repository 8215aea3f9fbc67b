//! The arguments of `warploom chaos` and of its programs.

use std::path::PathBuf;

use clap::Args;

/// `warploom chaos`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom chaos --kills 10 --seconds 30
  warploom chaos --kills 100 --seconds 300 --json
  warploom chaos --seed 7 --evidence evidence    keeps the evidence, and the logs where it fails
  warploom chaos --overcommit 300                sessions are swapped out and back all the time
  warploom chaos --load 20                       on a machine that 20 threads keep busy
  warploom chaos --hostile 120                   a tenant that floods and forges beside another

It runs a cluster of its own: broker.* settings and credentials do not matter.")]
pub struct ChaosArgs {
    /// Processes to kill (SIGKILL); four of ten are the elected leader
    #[arg(long, default_value_t = 100)]
    pub kills: usize,
    /// Planned seconds of the strikes; recovery and checks come after
    #[arg(long, default_value_t = 300)]
    pub seconds: u64,
    /// Servers of the broker: 1 or 3
    #[arg(long, default_value_t = 1)]
    pub brokers: usize,
    /// Seed of the faults: their kinds, times and targets
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Memory that sessions may hold, in percent of a small device: 100, or 300 and more, so that they take
    /// turns
    #[arg(long, default_value_t = 100, value_name = "PERCENT")]
    pub overcommit: u32,
    /// Threads that keep this machine busy all the time; at most 256
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub load: usize,
    /// Runs this many seconds with a tenant that floods and forges beside one that computes, instead of
    /// kills
    #[arg(long, value_name = "SECONDS",
        conflicts_with_all = ["kills", "seconds", "brokers", "overcommit"])]
    pub hostile: Option<u64>,
    /// Seconds after which a program's call counts as hung
    #[arg(long, default_value_t = 60)]
    pub deadline: u64,
    /// Directory for the evidence, and for the logs of all roles if a promise is broken
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
    /// Keeps this many sessions and makes no call on them
    #[arg(long, default_value_t = 0)]
    pub idle: usize,
    /// Sends one request after the other, beside exported memory that holds the secret of this seed
    #[arg(long, value_name = "SEED")]
    pub requests: Option<u64>,
    /// Seed of the program's numbers
    #[arg(long)]
    pub seed: u64,
    /// Maximum seconds of a call
    #[arg(long)]
    pub deadline: u64,
    /// Bytes that a session holds beside its working memory
    #[arg(long, default_value_t = 0)]
    pub holds: u64,
    /// Appends a line for every submitted op range to this file
    #[arg(long)]
    pub evidence: PathBuf,
}

/// `warploom chaos-hostile`.
#[derive(Debug, Args)]
pub struct ChaosHostileArgs {
    /// The tenant
    #[arg(long)]
    pub tenant: bus_schemas::Tenant,
    /// Other tenants
    #[arg(long, value_delimiter = ',')]
    pub others: Vec<bus_schemas::Tenant>,
    /// Credentials of another broker
    #[arg(long)]
    pub other: PathBuf,
    /// Seed of the forged messages
    #[arg(long)]
    pub seed: u64,
    /// Seed of another tenant's secret
    #[arg(long)]
    pub secret: u64,
    /// Appends a line for every submitted op range to this file
    #[arg(long)]
    pub evidence: PathBuf,
}
