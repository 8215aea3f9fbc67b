//! The `warploom` binary.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use warploom::cli::{Cli, Command, Global, WorkerArgs};
use warploom::settings::Settings;
use warploom::{bench, chaos, commands, demo, exit, output};

/// Counts only while a benchmark asks it to.
#[global_allocator]
static ALLOCATOR: bench::CountingAllocator = bench::CountingAllocator;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        Err(error) => {
            if error.is::<exit::Unread>() {
                return ExitCode::SUCCESS;
            }
            output::note(format_args!("{error:#}"));
            ExitCode::from(exit::code(&error))
        }
    }
}

fn settings(global: &Global) -> Result<Settings> {
    let mut flags = global.set.clone();
    let filter = match global.verbose {
        0 => None,
        1 => Some("info"),
        2 => Some("debug"),
        _ => Some("trace"),
    };
    flags.extend(filter.map(|filter| ("log.filter".to_owned(), filter.to_owned())));
    Settings::resolve(
        global.config.as_deref(),
        |name| std::env::var(name).ok(),
        &flags,
    )
}

fn run(cli: &Cli) -> Result<ExitCode> {
    let settings = settings(&cli.global).map_err(|error| exit::Misset(format!("{error:#}")))?;
    let json = cli.global.json;
    match &cli.command {
        Command::Config => return done(commands::config::config(&settings, json)),
        Command::Sim(command) => return done(commands::sim::sim(command, json)),
        Command::ChaosProgram(args) => return done(chaos::run_program(args, &settings)),
        Command::DemoTenant(args) => return done(demo::run_tenant(args, &settings)),
        Command::Submit(args) => return done(commands::submit::submit(args, &settings, json)),
        Command::Leader(args) => return done(commands::roles::leader(args, &settings)),
        Command::Worker(args) if args.command.is_none() => {
            return done(commands::roles::worker(args, &settings));
        }
        Command::Env(args) => return done(commands::run::env(args, &settings, json)),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let done = runtime.block_on(async {
        if let Command::Run(args) = &cli.command {
            return commands::run::run(args, &settings, cli.global.verbose > 0).await;
        }
        done(match &cli.command {
            Command::Up(args) => commands::up::up(args, &settings, json).await,
            Command::Worker(WorkerArgs {
                command: Some(command),
                ..
            }) => commands::worker::worker(command, &settings, json).await,
            Command::Tenant(command) => commands::tenant::tenant(command, &settings, json).await,
            Command::Cluster(command) => commands::cluster::cluster(command, &settings, json).await,
            Command::Profile(command) => commands::profile::profile(command, &settings, json).await,
            Command::Usage(args) => commands::usage::usage(args, &settings, json).await,
            Command::Status(args) => commands::status::status(args, &settings, json).await,
            Command::Replay(args) => commands::replay::replay(args, &settings, json).await,
            Command::Order(command) => commands::order::order(command, &settings, json).await,
            Command::Bench(args) => bench::bench(args, &settings, json).await,
            Command::Chaos(args) => chaos::chaos(args, &settings, json).await,
            Command::Demo(args) => demo::demo(args, &settings, json).await,
            _ => unreachable!("handled above"),
        })
    });
    // A command that was told to stop does not wait for threads that still compute or read.
    runtime.shutdown_background();
    done
}

fn done(result: Result<()>) -> Result<ExitCode> {
    result.map(|()| ExitCode::SUCCESS)
}
