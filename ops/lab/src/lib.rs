//! The laboratory: the demo, the benchmarks, chaos and the simulations. It uses the product as anybody
//! does, by its commands and its client; no crate of the product knows it.

pub mod bench;
pub mod chaos;
pub mod demo;
mod lines;
pub mod sim;
mod virtual_device;

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use warploom_cli::commands::block_on;
use warploom_cli::global::Global;

/// The laboratory's commands.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Measures; `warploom bench` lists the benchmarks
    Bench(bench::BenchArgs),
    /// Three tenants share two devices; the leader is killed half-way; everything is verified
    Demo(demo::DemoArgs),
    /// Kills, stops and cuts off real processes under load and checks every promise afterwards
    Chaos(chaos::ChaosArgs),
    /// Simulates in virtual time, with no GPU and no cluster: compares schedulers, plays faults
    #[command(subcommand)]
    Sim(sim::SimCommand),
    /// One tenant of the demo (started by `demo`)
    #[command(hide = true)]
    DemoTenant(demo::DemoTenantArgs),
    /// One program of a chaos run (started by `chaos`)
    #[command(hide = true)]
    ChaosProgram(chaos::ChaosProgramArgs),
}

/// Runs a command.
///
/// # Errors
/// As the command's own.
pub fn run(command: &LabCommand, global: &Global) -> Result<ExitCode> {
    let (settings, json) = (&global.settings()?, global.json);
    let done = match command {
        LabCommand::Bench(args) => block_on(bench::bench(args, settings, json)),
        LabCommand::Demo(args) => block_on(demo::demo(args, settings, json)),
        LabCommand::Chaos(args) => block_on(chaos::chaos(args, settings, json)),
        LabCommand::Sim(command) => sim::sim(command, json),
        LabCommand::DemoTenant(args) => demo::run_tenant(args, settings),
        LabCommand::ChaosProgram(args) => chaos::run_program(args, settings),
    };
    done.map(|()| ExitCode::SUCCESS)
}
