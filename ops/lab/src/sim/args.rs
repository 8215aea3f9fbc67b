//! The command line of `warploom sim`.

use std::path::PathBuf;

use admin::completion::{self, Candidate};
use clap::{Args, Subcommand};

use super::faults::FaultsArgs;

/// `warploom sim`.
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Examples:
  warploom sim compare --pairs bert-inference --reps 1
  warploom sim faults --seeds 1000
  warploom sim workloads models")]
pub enum SimCommand {
    /// Runs pairs of programs under Warploom and six other schedulers, and compares the results
    Compare(CompareArgs),
    /// Simulates the whole cluster with faults, seed after seed, and checks every invariant
    Faults(FaultsArgs),
    /// Writes the models that `compare` runs to files, to read or to change
    Workloads(WorkloadsArgs),
}

/// `warploom sim compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom sim compare                                 everything: tables, plots, metrics
  warploom sim compare --json                          the metrics, one JSON object a line
  warploom sim compare --pairs bert-inference --reps 1
  warploom sim compare --workloads models --plots out
  warploom sim compare --pairs resnet50-inference+bert-training --timeline kernels.csv

Nothing is started and no GPU is needed: it is virtual time, and the same seed gives the same
figures on every machine. docs/internals/simulation.md says what is modelled and where every
number comes from.")]
pub struct CompareArgs {
    /// Seed of models, arrivals and jitter; each repetition uses the next one
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Repetitions
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub reps: u64,
    /// Only pairs with a name that contains one of these, such as `bert-inference` or
    /// `llm-decode+resnet50-training`
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', add = completion::listed(models))]
    pub pairs: Vec<String>,
    /// Models of your own, one .toml file each (`warploom sim workloads` writes examples)
    #[arg(long, value_name = "DIR")]
    pub workloads: Option<PathBuf>,
    /// Approximate number of measured requests of the urgent program in each repetition
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(20..=100_000))]
    pub requests: u64,
    /// Only metrics with a name that contains this
    #[arg(long)]
    pub only: Option<String>,
    /// Directory for plots (default: target/sim-plots, nowhere with --json)
    #[arg(long, value_name = "DIR")]
    pub plots: Option<PathBuf>,
    /// Writes every kernel of the first pair's first repetition to this file: tenant, request, kernel, and
    /// the nanoseconds at which it was ready, began and ended
    #[arg(long, value_name = "FILE")]
    pub timeline: Option<PathBuf>,
    /// Scheduler of the timeline
    #[arg(long, value_name = "NAME", default_value = "warploom", value_parser = policy,
          add = completion::listed(policies))]
    pub timeline_policy: sim_compare::Policy,
}

/// `warploom sim workloads`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom sim workloads models
  warploom sim workloads models --seed 7")]
pub struct WorkloadsArgs {
    /// Directory for the files; it is created if missing
    pub dir: PathBuf,
    /// Seed of the kernels' order and profiles
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// The compared models, which occur in the names of pairs.
fn models() -> Vec<Candidate> {
    let shapes = sim_compare::SHAPES.iter();
    shapes.map(|shape| Candidate::new(shape.name, "")).collect()
}

/// The schedulers by name.
fn policies() -> Vec<Candidate> {
    let all = sim_compare::Policy::ALL.map(sim_compare::Policy::name);
    // The first word of a name is enough.
    let words = all.iter().filter_map(|name| name.split(' ').next());
    words.map(|word| Candidate::new(word, "")).collect()
}

fn policy(text: &str) -> Result<sim_compare::Policy, String> {
    let wanted = text.to_lowercase();
    let mut known = sim_compare::Policy::ALL.into_iter();
    let found = known.find(|policy| policy.name().to_lowercase().starts_with(&wanted));
    found.filter(|_| !wanted.is_empty()).ok_or_else(|| {
        let names = sim_compare::Policy::ALL.map(sim_compare::Policy::name);
        format!("one of: {}", names.join(", "))
    })
}
