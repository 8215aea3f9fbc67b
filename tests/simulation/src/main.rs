//! Plays seeds: `cargo run -p simulation -- --seeds 1000`, or one of them, traced.

use std::process::ExitCode;

use clap::Parser;
use simulation::{Options, Tracing, Troubles};

/// Plays the whole cluster in one thread, seeded, with faults.
#[derive(Debug, Parser)]
struct Arguments {
    /// Play this seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Play so many seeds.
    #[arg(long, default_value_t = 200, env = "WARPLOOM_SEEDS")]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    from: u64,
    /// Print everything that happens (one seed).
    #[arg(long)]
    trace: bool,
    /// Play without any trouble.
    #[arg(long)]
    calm: bool,
    /// Go on after a failing seed.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = Options {
        troubles: arguments.calm.then_some(Troubles::NONE),
        tracing: if arguments.trace {
            Tracing::Print
        } else {
            Tracing::Failure
        },
        ..Options::default()
    };
    let seeds = match arguments.seed {
        Some(seed) => seed..=seed,
        None => arguments.from..=arguments.from + arguments.seeds.max(1) - 1,
    };
    let mut failed = 0;
    for seed in seeds {
        match simulation::run(seed, &options) {
            Ok(report) if arguments.seed.is_some() => println!("{report:#?}"),
            Ok(_) => {}
            Err(failure) => {
                failed += 1;
                if !arguments.keep_going {
                    failure.tail.iter().for_each(|line| eprintln!("{line}"));
                }
                eprintln!("{failure}");
                if !arguments.keep_going {
                    break;
                }
            }
        }
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        eprintln!("{failed} seeds failed");
        ExitCode::FAILURE
    }
}
