//! `warploom chaos`: kills, stops and cuts off real processes of its own cluster, and afterwards checks
//! every promise. docs/evidence/chaos.md describes it.

mod acts;
mod args;
mod calls;
mod causes;
mod checker;
mod collect;
mod conduct;
mod holding;
mod hostile;
mod idle;
mod kinds;
mod load;
mod metrics;
mod mixing;
mod plan;
mod program;
mod programs;
mod pulse;
mod report;
mod requests;
mod said;
mod servers;
mod start;
mod strikes;
mod targets;
mod tell;
mod watch;
mod watched;
mod word;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use admin::errors::{ErrorCode, UsageError};
use admin::evidence::EvidenceKey;
use admin::output;
use admin::process;
use admin::settings::Settings;
use anyhow::{Context, Result, bail};

pub use args::ChaosHostileArgs;
pub use checker::{Checker, CheckerFindings};
pub use hostile::run_hostile;
pub use program::run_program;

use crate::bench::table;
use crate::logs;
pub use args::{ChaosArgs, ChaosProgramArgs};
use conduct::{LOOK, RECOVERY, carry_out};
use hostile::Run;
use load::Load;
use plan::{Shape, plan};
use programs::Program;
use start::{WORKERS, start};
use strikes::Strikes;
use warploom_cli::local::Scratch;

/// Maximum number of kills a second: each takes a moment.
const KILLS_PER_S: usize = 2;
/// Length of the longest run, in seconds: its evidence is read whole.
const LONGEST_S: u64 = 3_600;
/// Allowed percentages of overcommitment.
const OVERCOMMIT: std::ops::RangeInclusive<u32> = 300..=1_000;
/// Allowed lengths of a hostile run, in seconds: each flood has to be long enough for some requests.
const HOSTILE_S: std::ops::RangeInclusive<u64> = 20..=LONGEST_S;
/// Time for which programs work undisturbed at the end.
const CALM: Duration = Duration::from_secs(2);

/// Runs it and prints the results.
///
/// # Errors
/// [`UsageError`] for numbers that make no sense; if the cluster does not start; `E-CHAOS-FAILED` if a promise
/// is broken.
pub async fn chaos(args: &ChaosArgs, settings: &Settings, json: bool) -> Result<()> {
    let shape = shape(args)?;
    let dir = Scratch::new()?;
    let work = async {
        let load = Load::start(args.load)?;
        if let Some(seconds) = args.hostile {
            let run = Run::start(args, settings, dir.path()).await?;
            return beside_hostile(run, load, args, &Shape { seconds, ..shape }).await;
        }
        let strikes = start(args, settings, dir.path()).await?;
        run(strikes, load, args, &shape).await
    };
    let (metrics, complaints) = process::unless_stopped(work).await.inspect_err(|_| {
        if let Some(evidence) = &args.evidence {
            logs::keep(dir.path(), evidence);
        }
    })?;
    match json {
        true => metrics
            .iter()
            .try_for_each(|metric| output::line(serde_json::to_string(metric)?))?,
        false => output::line(table(&metrics))?,
    }
    if complaints.is_empty() {
        return Ok(());
    }
    if let Some(evidence) = &args.evidence {
        logs::keep(dir.path(), evidence);
    }
    bail!(ErrorCode::ChaosFailed.failed(format!("seed {}: {}", args.seed, complaints.join("; "))))
}

fn shape(args: &ChaosArgs) -> Result<Shape> {
    if args.seconds == 0 || args.seconds > LONGEST_S {
        bail!(UsageError(format!("--seconds is 1 to {LONGEST_S}")));
    }
    let most = usize::try_from(args.seconds)? * KILLS_PER_S;
    if args.kills > most {
        bail!(UsageError(format!(
            "--kills is at most {most} in so many seconds"
        )));
    }
    if ![1, 3].contains(&args.brokers) {
        bail!(UsageError("--brokers is 1 or 3".into()));
    }
    if args.overcommit != 100 && !OVERCOMMIT.contains(&args.overcommit) {
        let (least, most) = OVERCOMMIT.into_inner();
        bail!(UsageError(format!(
            "--overcommit is 100, or {least} to {most}"
        )));
    }
    if args
        .hostile
        .is_some_and(|seconds| !HOSTILE_S.contains(&seconds))
    {
        let (least, most) = HOSTILE_S.into_inner();
        bail!(UsageError(format!("--hostile is {least} to {most}")));
    }
    if args.load > load::MOST {
        bail!(UsageError(format!("--load is at most {}", load::MOST)));
    }
    if args.deadline == 0 {
        bail!(UsageError("--deadline is at least 1 s".into()));
    }
    Ok(Shape {
        kills: args.kills,
        seconds: args.seconds,
        brokers: args.brokers,
        workers: WORKERS,
        programs: kinds::struck(),
    })
}

/// Carries out the plan, lets all programs end, and judges.
async fn run(
    mut strikes: Strikes,
    load: Load,
    args: &ChaosArgs,
    shape: &Shape,
) -> Result<(Vec<crate::bench::Measurement>, Vec<String>)> {
    let planned = plan(args.seed, shape);
    output::note(format_args!(
        "{} strikes in {} s, seed {}",
        planned.len(),
        args.seconds,
        args.seed
    ));
    strikes.began = Instant::now();
    let late = carry_out(&mut strikes, &planned, Duration::from_secs(args.seconds)).await?;
    output::note("nothing is done any more; programs finish, workers drain");
    let mut complaints = recover(&mut strikes).await?;
    if late > 0 {
        complaints.push(format!("{late} strikes could not be carried out"));
    }
    let found = judge(&mut strikes, load, args, shape, (&[], complaints)).await?;
    Ok(found)
}

/// Runs a hostile tenant beside a neighbour, from the first phase to the judgement.
async fn beside_hostile(
    mut run: Run,
    load: Load,
    args: &ChaosArgs,
    shape: &Shape,
) -> Result<(Vec<crate::bench::Measurement>, Vec<String>)> {
    let done = run.carry_out(args.seed, Duration::from_secs(shape.seconds));
    let mut complaints: Vec<String> = match done.await {
        Ok(()) => Vec::new(),
        Err(error) => vec![format!("{error:#}")],
    };
    run.disarm()?;
    output::note("the hostile tenant is gone; programs finish, workers drain");
    complaints.extend(recover(&mut run.strikes).await?);
    let (hostile, said) = run.judge().await?;
    let dir = run.strikes.cluster.options().state_dir.clone();
    let logs = [Run::submitted(&dir)];
    let shape = &Shape { kills: 0, ..*shape };
    let judged = judge(&mut run.strikes, load, args, shape, (&logs, complaints)).await?;
    let (mut metrics, mut complaints) = judged;
    complaints.extend(hostile.iter().filter_map(report::missed));
    match complaints.is_empty() {
        // A failure of the hostile tenant itself breaks no promise.
        true => said.iter().for_each(output::note),
        false => complaints.extend(said),
    }
    metrics.extend(hostile);
    Ok((metrics, complaints))
}

/// Lets workers drain, checks the record and the evidence, and judges.
async fn judge(
    strikes: &mut Strikes,
    load: Load,
    args: &ChaosArgs,
    shape: &Shape,
    (submitted, mut complaints): (&[PathBuf], Vec<String>),
) -> Result<(Vec<crate::bench::Measurement>, Vec<String>)> {
    let watched = strikes.watched();
    collect::drain(strikes, &mut complaints).await;
    // From here on only files are checked.
    drop(load);
    let (replayed, evidence) = collect::collect(strikes, submitted, &mut complaints).await?;
    let swaps = match args.overcommit {
        100 => None,
        _ => Some(collect::swaps(&strikes.cluster).await?),
    };
    let key = EvidenceKey::of(&strikes.cluster.options().state_dir)?;
    let kept = strikes.cluster.options().state_dir.join("evidence");
    let dir = args.evidence.as_deref().unwrap_or(&kept);
    evidence.write(dir, &key)?;
    let public = key.public();
    output::note(format_args!(
        "evidence is signed with {public}; checking it"
    ));
    let checked = Checker::find().and_then(|checker| {
        let mut found = checker.check(&[dir], Some(&public))?;
        found.pop().context("the checker said nothing")
    });
    let seen = report::Seen {
        shape,
        load: args.load,
        strikes,
        watched,
        replayed: replayed.as_ref(),
        swaps,
        check: evidence.verify(),
        checked,
    };
    Ok(seen.judge(complaints))
}

/// Undoes what is left, waits until all roles are there, lets programs work for a while, and stops them.
/// Returns the complaints.
async fn recover(strikes: &mut Strikes) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    strikes.mend().await;
    let asked = Instant::now();
    loop {
        strikes.tend().await?;
        let status = strikes
            .administrator
            .status(Duration::from_millis(600))
            .await;
        let up = status.as_ref().is_ok_and(|status| {
            let live = status.workers.iter().filter(|worker| !worker.lost);
            live.count() >= WORKERS
        });
        if up && strikes.mended() && strikes.all_up() && strikes.in_step().await.is_ok() {
            break;
        }
        if asked.elapsed() > RECOVERY {
            let why = status.err().map(|error| format!("{error:#}"));
            let why = why.unwrap_or_else(|| "a role is missing".into());
            complaints.push(format!(
                "the cluster is not whole after {RECOVERY:?}: {why}"
            ));
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    let calm = Instant::now();
    while calm.elapsed() < CALM {
        strikes.tend().await?;
        tokio::time::sleep(LOOK).await;
    }
    strikes.programs.iter_mut().for_each(Program::ask_to_stop);
    for program in &mut strikes.programs {
        program.stopped().await?;
    }
    strikes.note_takeovers();
    let without = strikes.without_successor();
    if without > 0 {
        complaints.push(format!(
            "{without} killed leaders had no successor that granted"
        ));
    }
    Ok(complaints)
}
