//! `warploom chaos`: real processes on a cluster of their own are killed, stopped and cut off, and
//! every promise is checked afterwards. docs/evidence/chaos.md describes it.

mod args;
mod calls;
mod checker;
mod collect;
mod holding;
mod metrics;
mod plan;
mod program;
mod programs;
mod pulse;
mod report;
mod said;
mod servers;
mod strikes;

use std::collections::{BTreeMap, VecDeque};
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use broker::Routes;
use test_cluster::{Link, Links};

pub use checker::{Checker, CheckerFindings};
pub use program::run_program;

use crate::bench::table;
use crate::demo::RunObserver;
pub use args::{ChaosArgs, ChaosProgramArgs};
use plan::{Planned, Shape, Strike, plan};
use programs::{Life, Program};
use strikes::Strikes;
use warploom_cli::evidence::EvidenceKey;
use warploom_cli::exit::UsageError;
use warploom_cli::local::{LocalCluster, LocalOptions, Scratch};
use warploom_cli::output;
use warploom_cli::process;
use warploom_cli::settings::Settings;

/// Leader candidates.
const LEADERS: usize = 3;
/// Workers.
const WORKERS: usize = 2;
/// The most kills a second: each takes a moment to be carried out.
const KILLS_PER_S: usize = 2;
/// The longest run, seconds: its evidence is read whole.
const LONGEST_S: u64 = 3_600;
/// A worker's device where its memory is overcommitted, and what each session holds of it: any two are
/// too many for it, and all that there are have room at 300 percent.
const CAPACITY: u64 = 4 << 20;
const HELD: u64 = 9 << 18;
/// Percentages of overcommitting.
const OVERCOMMIT: std::ops::RangeInclusive<u32> = 300..=1_000;
/// How often everybody is looked after.
const LOOK: Duration = Duration::from_millis(20);
/// How long a cluster that nothing is done to any more may take until all its roles are there.
const RECOVERY: Duration = Duration::from_secs(90);
/// How long programs work on undisturbed at the end.
const CALM: Duration = Duration::from_secs(2);

/// Runs it and prints what holds.
///
/// # Errors
/// [`Usage`] for numbers that make no sense; when the cluster does not start; `E-CHAOS-FAILED` when
/// a promise is broken.
pub async fn chaos(args: &ChaosArgs, settings: &Settings, json: bool) -> Result<()> {
    let shape = shape(args)?;
    let dir = Scratch::new()?;
    let work = async {
        let strikes = start(args, settings, dir.path()).await?;
        run(strikes, args, &shape).await
    };
    let (metrics, complaints) = process::unless_stopped(work).await.inspect_err(|_| {
        if let Some(evidence) = &args.evidence {
            collect::keep_logs(dir.path(), evidence);
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
        collect::keep_logs(dir.path(), evidence);
    }
    bail!(
        "E-CHAOS-FAILED: seed {}: {}",
        args.seed,
        complaints.join("; ")
    )
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
    if args.deadline == 0 {
        bail!(UsageError("--deadline is at least 1 s".into()));
    }
    Ok(Shape {
        kills: args.kills,
        seconds: args.seconds,
        brokers: args.brokers,
        workers: WORKERS,
        programs: programs::kinds(None).len(),
    })
}

/// The first of so many ports in a row that are free.
fn free_ports(count: usize) -> Result<u16> {
    let bound = |port| TcpListener::bind(("127.0.0.1", port));
    for _ in 0..100 {
        let first = bound(0)?;
        let port = first.local_addr()?.port();
        let others = (port..=u16::MAX).skip(1).take(count - 1);
        let others: Vec<_> = others.map_while(|port| bound(port).ok()).collect();
        if others.len() == count - 1 {
            return Ok(port);
        }
    }
    bail!("no {count} ports in a row are free")
}

/// A cluster of its own, its links, and the programs on it.
async fn start(args: &ChaosArgs, settings: &Settings, dir: &Path) -> Result<Strikes> {
    output::note("starting broker, leaders, workers and programs");
    let kinds = programs::kinds((args.overcommit > 100).then_some(HELD));
    let mut options = LocalOptions::new(dir, "chaos")?;
    options.leaders = LEADERS;
    options.workers = WORKERS;
    options.evidence = true;
    options.server = settings.given("broker.server").map(Into::into);
    options.tenants = kinds
        .iter()
        .map(|kind| (kind.tenant.clone(), kind.settings()))
        .collect();
    let own = ["broker.", "cluster.", "up.", "run."];
    options.settings = settings
        .iter()
        .filter(|(key, _, _)| !own.iter().any(|section| key.starts_with(section)))
        .map(|(key, value, _)| (key.to_owned(), value.to_owned()))
        .collect();
    if args.overcommit > 100 {
        options.settings.extend([
            ("worker.capacity".to_owned(), format!("{CAPACITY}B")),
            ("worker.overcommit".to_owned(), args.overcommit.to_string()),
        ]);
    }
    options.brokers = args.brokers;
    // Links are made before who is behind them: ports that were free a moment ago.
    let port = free_ports(args.brokers)?;
    options.port = Some(port);
    let routes = match args.brokers {
        1 => None,
        several => {
            let mut routes = Routes::free(several)?;
            // Roles are to stay on their links.
            routes.told_to_clients = false;
            let between = Links::before(&mut routes)?;
            options.routes = Some(routes);
            Some(between)
        }
    };
    let leaders = (0..LEADERS).map(|index| format!("leader-{index}"));
    let workers = (0..WORKERS).map(|index| format!("worker-{index}"));
    let names = leaders.chain(workers);
    let names = names.chain((0..kinds.len()).map(programs::name));
    let mut links = BTreeMap::new();
    for name in names {
        let ports = (port..).take(args.brokers);
        let made = ports.map(|port| Ok(Arc::new(Link::to(port).context("making a link")?)));
        let made: Vec<Arc<Link>> = made.collect::<Result<_>>()?;
        let urls = made
            .iter()
            .map(|link| format!("nats://127.0.0.1:{}", link.port()));
        let urls: Vec<String> = urls.collect();
        options.links.insert(name.clone(), urls.join(","));
        links.insert(name, made);
    }
    let cluster = LocalCluster::start(options).await?;
    let administrator = cluster.administrator().await?;
    let observer = RunObserver::start(&administrator).await?;
    let mut strikes = Strikes::new(cluster, administrator, observer, links, routes);
    for (index, kind) in kinds.into_iter().enumerate() {
        let life = Life {
            seed: args.seed.wrapping_mul(31).wrapping_add(index as u64),
            deadline: Duration::from_secs(args.deadline),
        };
        let program = Program::start(&strikes.cluster, index, kind, life, &strikes.pulse)?;
        strikes.programs.push(program);
    }
    Ok(strikes)
}

/// Carries out the plan, lets everybody end, and judges.
async fn run(
    mut strikes: Strikes,
    args: &ChaosArgs,
    shape: &Shape,
) -> Result<(Vec<crate::bench::Metric>, Vec<String>)> {
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
    let (replayed, evidence) = collect::collect(&mut strikes, &mut complaints).await?;
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
        strikes: &strikes,
        replayed: replayed.as_ref(),
        swaps,
        check: evidence.verify(),
        checked,
    };
    Ok(seen.judge(complaints))
}

/// How often it is tried to take a broker away that may not go yet.
const AGAIN: Duration = Duration::from_millis(250);

/// At least so long behind any other comes a strike that is late: what had to wait does not come all
/// at once.
const APART: Duration = Duration::from_millis(500);

/// Strikes one after the other; gives how many could not be carried out to the end. Those that
/// have to wait until several brokers are equal again do so, and the others do not wait for them.
async fn carry_out(strikes: &mut Strikes, planned: &[Planned], whole: Duration) -> Result<usize> {
    let several = strikes.cluster.broker.servers().len() > 1;
    let mut left = planned.iter().peekable();
    let mut brokers = VecDeque::new();
    let (mut said, mut tried) = (Instant::now(), Instant::now());
    // Many strikes have less time between them.
    let apart = APART.min(whole / (2 * planned.len().max(1)) as u32);
    let mut last = Instant::now();
    // What is late at the end still has its time: a busy machine takes longer.
    let until = whole + RECOVERY;
    while strikes.began.elapsed() < until {
        let elapsed = strikes.began.elapsed();
        strikes.tend().await?;
        let due = |planned: &&Planned| {
            let late = elapsed.checked_sub(planned.at);
            late.is_some_and(|late| late < apart || last.elapsed() >= apart)
        };
        match left.next_if(due) {
            Some(planned) if several && planned.strike.wants_all_brokers() => {
                brokers.push_back(planned.strike);
            }
            Some(planned) => {
                let done = try_until(strikes, planned.strike, until).await?;
                if !done {
                    return Ok(1 + left.count() + brokers.len());
                }
                last = Instant::now();
            }
            None if left.peek().is_none() && brokers.is_empty() && elapsed >= whole => {
                return Ok(0);
            }
            None => {}
        }
        if tried.elapsed() >= AGAIN && last.elapsed() >= apart {
            let done = match brokers.front() {
                Some(strike) => strikes
                    .strike(*strike)
                    .await
                    .inspect(|()| last = Instant::now()),
                None if strikes.pulse.is_lost() => strikes.in_step().await,
                None => Ok(()),
            };
            match done {
                Ok(()) => drop(brokers.pop_front()),
                Err(error) => tracing::debug!("{:?}: {error:#}", brokers.front()),
            }
            tried = Instant::now();
        }
        if said.elapsed() > Duration::from_secs(30) {
            said = Instant::now();
            let (done, all) = (planned.len() - left.len() - brokers.len(), planned.len());
            output::note(format_args!(
                "{} s: {done} of {all} strikes",
                elapsed.as_secs()
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(left.count() + brokers.len())
}

/// Strikes as soon as it can be done; whether it could, before so much of the run is over.
async fn try_until(strikes: &mut Strikes, strike: Strike, until: Duration) -> Result<bool> {
    let mut tries = Instant::now();
    while let Err(error) = strikes.strike(strike).await {
        tracing::debug!("{strike:?}: {error:#}");
        if strikes.began.elapsed() > until {
            return Ok(false);
        }
        if tries.elapsed() > Duration::from_secs(20) {
            output::note(format_args!("{strike:?} has to wait: {error:#}"));
            tries = Instant::now();
        }
        tokio::time::sleep(LOOK).await;
        strikes.tend().await?;
    }
    Ok(true)
}

/// Undoes what is left, waits until all roles are there and programs worked on for a while, and has
/// these stop. Gives what did not go as it should.
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
