//! Plays and traces one seed or script: `cargo run -p sim-faults -- --seed 42 --trace`.
//! `warploom sim faults` plays many.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use sim_faults::{Options, Scene, Script, Tracing, Troubles, play};

/// Plays the whole cluster in one thread, with faults.
#[derive(Debug, Parser)]
struct Arguments {
    /// The seed.
    #[arg(long, required_unless_present = "script")]
    seed: Option<u64>,
    /// A script instead.
    #[arg(long, conflicts_with_all = ["seed", "calm"])]
    script: Option<PathBuf>,
    /// Print everything that happens.
    #[arg(long)]
    trace: bool,
    /// Play without any trouble.
    #[arg(long)]
    calm: bool,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let troubles = arguments.calm.then_some(Troubles::NONE);
    let (scene, mutant) = match &arguments.script {
        Some(path) => {
            let name = || path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(name)?;
            let script = Script::read(&text).with_context(name)?;
            (script.scene, script.mutant)
        }
        None => (Scene::draw(arguments.seed.unwrap_or(1), troubles), None),
    };
    let tracing = match arguments.trace {
        true => Tracing::Print,
        false => Tracing::Failure,
    };
    let options = Options {
        troubles,
        tracing,
        mutant,
    };
    Ok(match play(&scene, &options) {
        Ok(report) => {
            println!("{report:#?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            failure.tail.iter().for_each(|line| eprintln!("{line}"));
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    })
}
