//! The arguments of `warploom bench`.

use clap::Args;

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
    /// Only metrics with a name that contains this
    #[arg(long)]
    pub only: Option<String>,
}
