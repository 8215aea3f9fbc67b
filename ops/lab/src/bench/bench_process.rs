//! Our processes in a measurement: one client a process, as in the baseline. They are started as
//! `warploom bench .<process> --reps N` and print one JSON object.

use std::io::Write;
use std::time::{Duration, Instant};

use admin::errors::UsageError;
use admin::output;
use admin::process;
use admin::settings::Settings;
use anyhow::{Result, bail};
use client_agent::{Client, Function, Session};
use counting_allocator::counted;
use serde::{Deserialize, Serialize};
use workloads::kernels::EMPTY;

use super::args::BenchArgs;
use super::bench_cluster::TENANT;
use super::order::{backlog, own};
use super::trace::names;
use super::{bomb, chat, loading, preempt, swapping};
use warploom_cli::client_settings::client_settings;

/// Launches in one batch.
pub(super) const BATCH: usize = 64;
/// Launches between two syncs when enqueueing is measured.
pub(super) const BURST: usize = 1_000;

/// Round trips, microseconds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Synced {
    /// Their median.
    pub(super) p50_us: f64,
    /// Their 99th percentile.
    pub(super) p99_us: f64,
}

/// Asynchronous launches in the caller's thread.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Enqueued {
    /// Nanoseconds per launch.
    pub(super) mean_ns: f64,
    /// Allocations per launch in the caller's thread.
    pub(super) allocations: f64,
    /// Allocations per launch in the whole process, including sending and receiving.
    pub(super) process_allocations: f64,
}

/// Launches end to end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Launched {
    /// Launches per second.
    pub(super) launches_per_s: f64,
}

/// Runs one of these processes.
///
/// # Errors
/// [`UsageError`] for an unknown name; if the cluster is not reachable.
pub(super) fn play(process: &str, args: &BenchArgs, settings: &Settings) -> Result<()> {
    process::follow_parent()?;
    if process == names::PROCESS {
        return names::play(settings);
    }
    let tenant = match process {
        bomb::PROCESS | preempt::LONG_PROCESS | chat::CHAT | chat::TRAIN | loading::LOADER => {
            process
        }
        swapping::THIRD => process,
        _ if swapping::JOBS_OF.contains(&process) => process,
        _ => process.strip_prefix(backlog::PROCESS).unwrap_or(TENANT),
    };
    let client = Client::connect(client_settings(settings, tenant)?)?;
    match process {
        "urgent" => say(&preempt::urgent(&client, args.reps)?),
        preempt::LONG_PROCESS => preempt::long(&client),
        "equal" => say(&bomb::equal(&client, args.reps)?),
        bomb::PROCESS => bomb::bomb(&client),
        loading::LOADER => loading::loader(&client),
        loading::LOADED => say(&loading::loaded(&client)?),
        loading::WAITER => say(&loading::waiter(&client, args.reps)?),
        swapping::THIRD => say(&swapping::third(&client, args.reps)?),
        _ if swapping::JOBS_OF.contains(&process) => say(&swapping::job(&client, args.reps)?),
        chat::CHAT => chat::over_bus::chat(&client),
        chat::TRAIN => chat::over_bus::train(&client),
        "sync" => say(&Program::start(&client)?.sync(args.reps)?),
        "enqueue" => say(&Program::start(&client)?.enqueue(args.reps)?),
        "launch" => say(&Program::start(&client)?.launch(args.reps)?),
        own::PROCESS => own::everywhere(&client),
        "load" => Program::start(&client)?.load(),
        "sessions" => sessions(&client, args.reps),
        backlogged if backlogged.starts_with(backlog::PROCESS) => backlog::play(&client),
        _ => bail!(UsageError(format!(
            "there is no process {process:?} of a benchmark"
        ))),
    }
}

fn say(seen: &impl Serialize) -> Result<()> {
    output::line(serde_json::to_string(seen)?)
}

/// One session and the empty kernel.
struct Program {
    session: Session,
    empty: Function,
}

impl Program {
    fn start(client: &Client) -> Result<Self> {
        let session = client.open()?;
        let empty = session.load(EMPTY.bytes())?.function("empty")?;
        let program = Self { session, empty };
        // Before the measurement, the profile has to know the kernel, and every buffer has to have grown.
        for _ in 0..20 {
            program.burst(BURST, BATCH)?;
            program.session.sync()?;
        }
        Ok(program)
    }

    /// Launches `launches` kernels, and sends a batch after every `batch` of them.
    #[inline]
    fn burst(&self, launches: usize, batch: usize) -> Result<()> {
        let mut left = launches;
        while left > 0 {
            let now = left.min(batch);
            for _ in 0..now {
                self.session
                    .launch(&self.empty, [1; 3], [32, 1, 1], 0, &[])?;
            }
            self.session.flush();
            left -= now;
        }
        Ok(())
    }

    /// Launches batch after batch, each with its sync, until killed.
    fn load(&self) -> Result<()> {
        loop {
            self.burst(BATCH, BATCH)?;
            self.session.sync()?;
        }
    }

    fn sync(&self, rounds: usize) -> Result<Synced> {
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let began = Instant::now();
            self.session
                .launch(&self.empty, [1; 3], [32, 1, 1], 0, &[])?;
            self.session.sync()?;
            times.push(began.elapsed().as_nanos() as f64 / 1e3);
        }
        times.sort_by(f64::total_cmp);
        let at = |quantile: f64| times[((times.len() - 1) as f64 * quantile) as usize];
        Ok(Synced {
            p50_us: at(0.5),
            p99_us: at(0.99),
        })
    }

    /// Runs a burst and its sync. Returns the burst's time and its allocations in this thread.
    fn timed_burst(&self) -> Result<(Duration, u64)> {
        let began = Instant::now();
        let (launched, seen) = counted(|| {
            (0..BURST).try_for_each(|_| {
                self.session
                    .launch(&self.empty, [1; 3], [32, 1, 1], 0, &[])
                    .map(drop)
            })
        });
        let time = began.elapsed();
        launched?;
        self.session.sync()?;
        Ok((time, seen.allocations))
    }

    fn enqueue(&self, bursts: usize) -> Result<Enqueued> {
        // Runs until there are as many buffers as such bursts ever need.
        for _ in 0..bursts / 2 {
            self.timed_burst()?;
        }
        let (mut ns, mut mine) = (0, 0);
        let (done, seen) = counted(|| {
            (0..bursts).try_for_each(|_| {
                let (time, allocations) = self.timed_burst()?;
                ns += time.as_nanos();
                mine += allocations;
                anyhow::Ok(())
            })
        });
        done?;
        let launches = (bursts * BURST) as f64;
        Ok(Enqueued {
            mean_ns: ns as f64 / launches,
            allocations: mine as f64 / launches,
            process_allocations: seen.process_allocations as f64 / launches,
        })
    }

    fn launch(&self, launches: usize) -> Result<Launched> {
        let began = Instant::now();
        self.burst(launches, BATCH)?;
        self.session.sync()?;
        Ok(Launched {
            launches_per_s: launches as f64 / began.elapsed().as_secs_f64(),
        })
    }
}

/// Opens one session and reports it. After a line on standard input it opens `count` more.
fn sessions(client: &Client, count: usize) -> Result<()> {
    let mut sessions = vec![client.open()?];
    let mut out = std::io::stdout();
    writeln!(out, "ready")?;
    std::io::stdin().read_line(&mut String::new())?;
    for _ in 0..count {
        sessions.push(client.open()?);
    }
    writeln!(out, "open")?;
    // Waits until this process is killed, or the measuring process is gone.
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}
