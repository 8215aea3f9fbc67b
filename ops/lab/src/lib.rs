//! The laboratory: the demo, the benchmarks, chaos and the simulations. It uses the product as any user
//! does, by its commands and its client; no crate of the product knows it.

pub mod bench;
pub mod chaos;
pub mod conform;
pub mod demo;
mod lines;
mod logs;
pub mod sim;
mod virtual_device;

use std::process::ExitCode;

use admin::block_on;
use admin::completion::{self, Candidate};
use anyhow::Result;
use clap::{Arg, Subcommand};
use warploom_cli::global::Global;

/// The laboratory's commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Measures; `warploom bench` lists the benchmarks
    #[command(mut_args(|arg| completed(arg, &[("name", bench::benchmarks), ("only", bench::metric_names)])))]
    Bench(bench::BenchArgs),
    /// Three tenants share two devices; the leader is killed half-way; everything is verified
    Demo(demo::DemoArgs),
    /// Kills, stops and cuts off real processes under load and checks every promise afterwards
    Chaos(chaos::ChaosArgs),
    /// Holds a CUDA driver against the manual, check by check
    #[command(mut_args(|arg| completed(arg, &[("only", conform::names)])))]
    Conform(conform::ConformArgs),
    /// Simulates in virtual time, with no GPU and no cluster: compares schedulers, plays faults
    #[command(subcommand, mut_subcommand("compare", |it| {
        it.mut_args(|arg| completed(arg, &[("only", sim::metric_names)]))
    }))]
    Sim(sim::SimCommand),
    /// The process that runs checks (started by `conform`)
    #[command(hide = true)]
    ConformArea(conform::ConformAreaArgs),
    /// One tenant of the demo (started by `demo`)
    #[command(hide = true)]
    DemoTenant(demo::DemoTenantArgs),
    /// One program of a chaos run (started by `chaos`)
    #[command(hide = true)]
    ChaosProgram(chaos::ChaosProgramArgs),
    /// The hostile tenant of a chaos run (started by `chaos`)
    #[command(hide = true)]
    ChaosHostile(chaos::ChaosHostileArgs),
}

/// Source of an argument's candidates.
type Listed = fn() -> Vec<Candidate>;

/// Adds shell completion to an argument. Only modules that themselves need the arguments know the
/// candidates.
fn completed(arg: Arg, named: &[(&str, Listed)]) -> Arg {
    let found = named.iter().find(|(name, _)| arg.get_id() == *name);
    match found {
        Some((_, all)) => arg.add(completion::listed(*all)),
        None => arg,
    }
}

/// Runs a command.
///
/// # Errors
/// The errors of the command.
pub fn run(command: &LabCommand, global: &Global) -> Result<ExitCode> {
    let (settings, json) = (&global.settings()?, global.json);
    let done = match command {
        LabCommand::Bench(args) => block_on(bench::bench(args, settings, json)),
        LabCommand::Demo(args) => block_on(demo::demo(args, settings, json)),
        LabCommand::Chaos(args) => block_on(chaos::chaos(args, settings, json)),
        LabCommand::Conform(args) => block_on(conform::conform(args, settings, json)),
        LabCommand::ConformArea(args) => conform::run_area(args),
        LabCommand::Sim(command) => sim::sim(command, json),
        LabCommand::DemoTenant(args) => demo::run_tenant(args, settings),
        LabCommand::ChaosProgram(args) => chaos::run_program(args, settings),
        LabCommand::ChaosHostile(args) => block_on(chaos::run_hostile(args, settings)),
    };
    done.map(|()| ExitCode::SUCCESS)
}
