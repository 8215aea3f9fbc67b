//! The arguments of `warploom demo` and of its tenants.

use std::path::PathBuf;

use clap::Args;

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
    /// Number of times that the elected leader is killed
    #[arg(long, default_value_t = 1)]
    pub kills: usize,
    /// Seconds the tenants run
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3_600))]
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
    /// Directory for submitted.jsonl, started.jsonl, order.jsonl, kills.jsonl and order.record, and for the
    /// logs of all roles if the demo fails
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
