//! `warploom sim faults`: the whole cluster in one thread, seed after seed, with faults.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use admin::errors::{ErrorCode, named};
use admin::output::{line, note};
use admin::table::headed;
use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Map, Value, json};
use sim_faults::coverage::{Coverage, FAULTS, Part};
use sim_faults::{Campaign, CampaignOutcome, Failed, Options, Script, Totals, Tracing, Troubles};

/// Number of failing runs after which no more are played.
const FAILURES: usize = 20;

/// `warploom sim faults`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom sim faults --seeds 10000            every invariant, whatever goes wrong
  warploom sim faults --every-step --seeds 60  each kind of fault at each kind of event
  warploom sim faults --script sim-faults/seed-42.toml
  warploom sim faults --script sim-faults/seed-42.toml --trace

Nothing is started and no GPU is needed: leaders, workers and clients run in virtual time on a bus
that fails, and everything follows from the seed. What fails is reduced to a short script, which is
printed and written; docs/evidence/faults.md says how to read it. Exit code 1 if anything failed.")]
pub struct FaultsArgs {
    /// Seeds to play
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(..=1_000_000_000_000))]
    pub from: u64,
    /// Instead of playing the seeds' scenes as they are, tries each kind of fault at this many events of
    /// each kind in them (1 if no number is given)
    #[arg(long, value_name = "EVENTS", num_args = 0..=1, default_missing_value = "1",
          value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub every_step: Option<u64>,
    /// Plays without faults
    #[arg(long)]
    pub calm: bool,
    /// Plays this script instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seeds", "from", "every_step", "calm"])]
    pub script: Option<PathBuf>,
    /// Prints everything that happens in the script's run
    #[arg(long, requires = "script")]
    pub trace: bool,
    /// Directory for the scripts of failing runs
    #[arg(long, value_name = "DIR", default_value = "sim-faults")]
    pub out: PathBuf,
    /// Maximum number of runs spent on shrinking a failing one; 0 leaves it as it is
    #[arg(long, value_name = "RUNS", default_value_t = 3_000)]
    pub shrink: u64,
}

/// Runs `warploom sim faults`.
///
/// # Errors
/// If a check failed; for scripts that cannot be read or written.
pub(super) fn faults(args: &FaultsArgs, json: bool) -> Result<()> {
    if let Some(path) = &args.script {
        return script(path, args.trace, json);
    }
    let plan = Campaign {
        from: args.from,
        seeds: args.seeds,
        options: Options {
            troubles: args.calm.then_some(Troubles::NONE),
            tracing: Tracing::Off,
            mutant: None,
        },
        every_step: args.every_step,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        shrink: args.shrink,
        most_failures: FAILURES,
    };
    let outcome = quietly(|| {
        let bar = bar();
        let outcome = sim_faults::campaign(&plan, &|all, done| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        outcome
    });
    let files = write(&args.out, &outcome.failed)?;
    if json {
        line(described(&outcome, &files))?;
    } else {
        print(&outcome, &files)?;
    }
    if outcome.failed.is_empty() {
        return Ok(());
    }
    let seeds = outcome.failed.iter().map(|failed| failed.failure.seed);
    let seeds: Vec<String> = seeds.map(|seed| seed.to_string()).collect();
    bail!(ErrorCode::Faults.failed(format!(
        "{} runs failed, of seeds {}",
        seeds.len(),
        seeds.join(", ")
    )))
}

/// Turns a panic in a core into a failure with its message, without printing it.
fn quietly<T>(act: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = act();
    std::panic::set_hook(hook);
    result
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::new(0);
    if !std::io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} runs, {eta} left");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

fn script(path: &Path, trace: bool, json: bool) -> Result<()> {
    let what = || ErrorCode::FaultsScript.failed(path.display());
    let text = named(
        std::fs::read_to_string(path),
        ErrorCode::FaultsScript,
        path.display(),
    )?;
    let script = Script::read(&text).with_context(what)?;
    let options = Options {
        troubles: None,
        tracing: if trace {
            Tracing::Print
        } else {
            Tracing::Failure
        },
        mutant: script.mutant,
    };
    match quietly(|| sim_faults::play(&script.scene, &options)) {
        Ok(report) => {
            let mut totals = Totals::default();
            totals.add(&report);
            if json {
                line(json!({ "failed": [], "totals": numbers(&totals) }))?;
            } else {
                line(summary(&totals, 0, 0))?;
            }
            Ok(())
        }
        Err(failure) => {
            if json {
                let (invariant, what) = (failure.invariant, &failure.what);
                let failed = json!({ "invariant": invariant, "what": what });
                line(json!({ "failed": [failed] }))?;
            }
            failure.tail.iter().for_each(note);
            bail!(ErrorCode::Faults.failed(&failure))
        }
    }
}

/// Writes the scripts of the failed runs.
fn write(dir: &Path, failed: &[Failed]) -> Result<Vec<PathBuf>> {
    if failed.is_empty() {
        return Ok(Vec::new());
    }
    std::fs::create_dir_all(dir).with_context(|| ErrorCode::OutputFile.failed(dir.display()))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for each in failed {
        let seed = each.failure.seed;
        let mut path = dir.join(format!("seed-{seed}.toml"));
        let mut again = 1;
        while files.contains(&path) {
            again += 1;
            path = dir.join(format!("seed-{seed}-{again}.toml"));
        }
        let text = each.script.text()?;
        std::fs::write(&path, text)
            .with_context(|| ErrorCode::OutputFile.failed(path.display()))?;
        files.push(path);
    }
    Ok(files)
}

fn print(outcome: &CampaignOutcome, files: &[PathBuf]) -> Result<()> {
    for part in Part::ALL {
        line(format!("Which faults met which states, {}:", part.name()))?;
        line(met(&outcome.coverage, part))?;
    }
    for (failed, path) in outcome.failed.iter().zip(files) {
        line(format!("\n{}\n{}:", failed.failure, path.display()))?;
        line(failed.script.text()?)?;
    }
    let failed = outcome.failed.len();
    line(summary(&outcome.totals, outcome.classes, failed))
}

fn numbers(totals: &Totals) -> Map<String, Value> {
    let (runs, seconds) = (json!(totals.runs), json!(totals.time as f64 / 1e9));
    let mut numbers = Map::from_iter([
        ("runs".to_owned(), runs),
        ("virtual_seconds".to_owned(), seconds),
    ]);
    let counts = totals.counts.named().into_iter();
    numbers.extend(counts.map(|(name, count)| (name.to_owned(), json!(count))));
    numbers
}

fn summary(totals: &Totals, classes: u64, failed: usize) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    for (name, value) in numbers(totals) {
        table.add_row([name.replace('_', " "), value.to_string()]);
    }
    if classes > 0 {
        table.add_row(["kinds of events".to_owned(), classes.to_string()]);
    }
    table.add_row(["runs that failed".to_owned(), failed.to_string()]);
    if let Some(values) = table.column_mut(1) {
        values.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Table of one part of the coverage, in which zeros stand out.
fn met(coverage: &Coverage, part: Part) -> Table {
    let mut table = headed(&format!("state|{}>", FAULTS.join(">|")));
    for state in part.states() {
        let cell = |fault| match coverage.count(part, state, fault) {
            0 => "NONE".to_owned(),
            count => count.to_string(),
        };
        let cells = FAULTS.into_iter().map(cell);
        table.add_row([(*state).to_owned()].into_iter().chain(cells));
    }
    table
}

fn described(outcome: &CampaignOutcome, files: &[PathBuf]) -> Value {
    let failed = outcome.failed.iter().zip(files).map(|(failed, path)| {
        let failure = &failed.failure;
        json!({
            "seed": failure.seed,
            "event": failure.step,
            "time_ms": failure.time_ms,
            "invariant": failure.invariant,
            "what": failure.what,
            "script": path,
        })
    });
    let cell = |part: Part, state, fault| {
        let count = outcome.coverage.count(part, state, fault);
        json!({ "part": part.name(), "state": state, "fault": fault, "count": count })
    };
    let mut coverage = Vec::new();
    for part in Part::ALL {
        for state in part.states() {
            coverage.extend(FAULTS.map(|fault| cell(part, state, fault)));
        }
    }
    json!({
        "totals": numbers(&outcome.totals),
        "kinds_of_events": outcome.classes,
        "failed": failed.collect::<Vec<Value>>(),
        "coverage": coverage,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::LabCommand;
    use crate::sim::SimCommand;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: LabCommand,
    }

    fn args(words: &[&str]) -> FaultsArgs {
        let words = ["warploom", "sim", "faults"].iter().chain(words);
        match Line::try_parse_from(words).unwrap().command {
            LabCommand::Sim(SimCommand::Faults(args)) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn seeds_are_played_and_a_script_of_one_plays_the_same() {
        let dir = std::env::temp_dir().join(format!("warploom-faults-{}", std::process::id()));
        let out = dir.display().to_string();
        faults(&args(&["--seeds", "3", "--out", &out]), true).unwrap();
        assert!(!dir.exists(), "nothing failed");
        assert_eq!(args(&["--every-step"]).every_step, Some(1));

        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("one.toml");
        let scene = sim_faults::Scene::draw(3, None);
        let text = Script::new(scene, None, None).text().unwrap();
        std::fs::write(&path, &text).unwrap();
        let named = path.display().to_string();
        faults(&args(&["--script", &named]), false).unwrap();
        std::fs::write(&path, text.replacen("format = 1", "format = 9", 1)).unwrap();
        let refused = faults(&args(&["--script", &named]), false).unwrap_err();
        assert_eq!(
            warploom_cli::exit::code(&refused),
            warploom_cli::exit::FAILED
        );
        assert!(refused.to_string().starts_with("E-FAULTS-SCRIPT"));
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_fails_is_written_as_a_script_that_fails() {
        let dir = std::env::temp_dir().join(format!("warploom-mutant-{}", std::process::id()));
        let plan = Campaign {
            from: 20_001,
            seeds: 30,
            options: Options {
                troubles: Some(Troubles::NONE),
                tracing: Tracing::Off,
                mutant: Some(sim_faults::Mutant::RunsTwice),
            },
            every_step: None,
            threads: 1,
            shrink: 100,
            most_failures: 1,
        };
        let outcome = sim_faults::campaign(&plan, &|_, _| {});
        let files = write(&dir, &outcome.failed).unwrap();
        assert_eq!(files.len(), 1);
        let failed = script(&files[0], false, false).unwrap_err();
        assert!(failed.to_string().contains("I1"), "{failed}");
        let told = described(&outcome, &files);
        assert_eq!(told["failed"][0]["invariant"], "I1");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
