//! `warploom worker list` and `drain`: lists the workers, and drains one. A drained worker gets no
//! new sessions and leaves after its last one.

use std::str::FromStr;
use std::time::Duration;

use admin::Administrator;
use admin::completion;
use admin::errors::{CommandError, ErrorCode, UsageError};
use admin::output;
use admin::settings::Settings;
use admin::table::fitted;
use anyhow::{Context, Result, bail};
use bus_schemas::{GpuId, Incarnation, WorkerStatus};
use clap::{Args, Subcommand};

use crate::commands::status::{workers_json, workers_table};

/// Commands for running workers.
#[derive(Debug, Subcommand)]
pub enum WorkerCommand {
    /// Lists the workers as the leader sees them
    #[command(after_help = "\
Examples:
  warploom worker list
  warploom worker list --json             an object a line")]
    List,
    /// Drains a worker: it gets no new sessions, and leaves after its last one has ended
    Drain(DrainArgs),
}

/// `warploom worker drain`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom worker drain 1                 the worker of gpu 1 leaves when its sessions have ended
  warploom worker drain 1 --wait          returns when it has
  warploom worker drain 1 --undo          it gets new sessions again
  warploom worker drain 99aabbccddeeff00  by its id, as `warploom status` shows it

Its sessions go on as before. SIGTERM does not wait for them: the worker finishes what it was
granted, and its sessions end with E-DEVICE-LOST.")]
pub struct DrainArgs {
    /// The number of its GPU, or its id
    #[arg(add = completion::workers())]
    pub worker: Which,
    /// Ends the drain: the worker gets new sessions again
    #[arg(long)]
    pub undo: bool,
    /// Returns when the worker has left
    #[arg(long, conflicts_with = "undo")]
    pub wait: bool,
}

/// Interval between checks for a worker's departure.
const LOOK: Duration = Duration::from_millis(50);

/// A worker, by the number of its device or by its incarnation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// The only worker of the device.
    Gpu(GpuId),
    /// This incarnation of a worker.
    Incarnation(Incarnation),
}

impl FromStr for Which {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // An id has 16 digits, more than the number of any device.
        let id = text.parse().map(Self::Incarnation);
        id.or_else(|_| text.parse().map(Self::Gpu))
            .map_err(|_| "neither a gpu's number nor a worker's id of 16 hexadecimal digits")
    }
}

impl Which {
    /// Finds the worker in a status.
    fn find(self, workers: &[WorkerStatus]) -> Result<&WorkerStatus> {
        let is = |worker: &&WorkerStatus| match self {
            Self::Gpu(gpu) => worker.gpu == gpu,
            Self::Incarnation(incarnation) => worker.incarnation == incarnation,
        };
        let live = workers.iter().filter(|worker| !worker.lost);
        let found: Vec<_> = live.filter(is).collect();
        match found[..] {
            [worker] => Ok(worker),
            [] => bail!(UsageError(format!(
                "there is no such worker; there are {}; {}",
                ids(workers.iter().filter(|worker| !worker.lost)),
                starts(self)
            ))),
            _ => bail!(UsageError(format!(
                "several workers have that gpu; name one by its id: {}",
                ids(found.into_iter())
            ))),
        }
    }
}

fn ids<'w>(workers: impl Iterator<Item = &'w WorkerStatus>) -> String {
    let named = workers.map(|worker| format!("{} (gpu {})", worker.incarnation, worker.gpu));
    let named: Vec<_> = named.collect();
    match named.is_empty() {
        true => "none".into(),
        false => named.join(", "),
    }
}

/// Advice on how to start another worker.
fn starts(like: Which) -> String {
    match like {
        Which::Gpu(gpu) => format!("`warploom worker --gpu {gpu}` starts one"),
        Which::Incarnation(_) => "`warploom worker --gpu N` starts one".into(),
    }
}

/// Refuses to undo the drain of a worker that is leaving: once it has left its leader, it cannot be
/// recalled.
fn may_stay(worker: &WorkerStatus) -> Result<()> {
    let (id, gpu) = (worker.incarnation, worker.gpu);
    if worker.draining {
        bail!(ErrorCode::WorkerLeaves.failed(format!(
            "worker {id} (gpu {gpu}) had no sessions and leaves already, which cannot be \
             undone: {}",
            starts(Which::Gpu(gpu))
        )));
    }
    Ok(())
}

/// The error of a drain, or of its end, for a worker that has left since it was found.
fn gone(undo: bool, gpu: GpuId) -> CommandError {
    match undo {
        true => ErrorCode::WorkerLeaves.failed(format!(
            "the worker has left meanwhile: {}",
            starts(Which::Gpu(gpu))
        )),
        false => ErrorCode::Usage.usage("the worker has left meanwhile"),
    }
}

/// Runs a worker command.
///
/// # Errors
/// [`UsageError`] if there is no such worker, [`admin::errors::Unreachable`] without a cluster.
pub async fn worker(command: &WorkerCommand, settings: &Settings, json: bool) -> Result<()> {
    let administrator = Administrator::of(settings).await?;
    match command {
        WorkerCommand::List => list(&administrator, json).await,
        WorkerCommand::Drain(args) => drain(args, &administrator, json).await,
    }
}

async fn list(administrator: &Administrator, json: bool) -> Result<()> {
    let status = administrator.status(administrator.patience()).await?;
    if json {
        return workers_json(&status).into_iter().try_for_each(output::line);
    }
    output::line(fitted(&workers_table(&status)))
}

async fn drain(args: &DrainArgs, administrator: &Administrator, json: bool) -> Result<()> {
    let before = administrator.status(administrator.patience()).await?;
    let found = args.worker.find(&before.workers)?;
    let (incarnation, gpu) = (found.incarnation, found.gpu);
    let after = administrator.drain(incarnation, !args.undo).await?;
    let mut workers = after.workers.iter().filter(|worker| !worker.lost);
    let worker = workers.find(|worker| worker.incarnation == incarnation);
    let worker = worker.with_context(|| gone(args.undo, gpu))?;
    if args.undo {
        may_stay(worker)?;
    }
    tell(worker, json)?;
    if args.wait {
        left(incarnation, worker.sessions, administrator).await?;
        if !json {
            output::line("it has left")?;
        }
    }
    Ok(())
}

fn tell(worker: &WorkerStatus, json: bool) -> Result<()> {
    let (id, gpu, sessions) = (worker.incarnation, worker.gpu, worker.sessions);
    if json {
        return output::line(serde_json::json!({
            "incarnation": id.to_string(),
            "gpu": gpu,
            "draining": worker.draining,
            "sessions": sessions,
        }));
    }
    match (worker.draining, sessions) {
        (true, 0) => output::line(format_args!(
            "worker {id} (gpu {gpu}) gets no new sessions; it has none, and leaves"
        )),
        (true, _) => output::line(format_args!(
            "worker {id} (gpu {gpu}) gets no new sessions, and leaves when its {sessions} have ended"
        )),
        (false, _) => output::line(format_args!("worker {id} (gpu {gpu}) gets new sessions")),
    }
}

/// Waits until a worker has left, and prints to stderr the number of sessions that remain.
async fn left(worker: Incarnation, mut known: u64, administrator: &Administrator) -> Result<()> {
    loop {
        let status = administrator.status(administrator.patience()).await?;
        let mut there = status.workers.iter();
        let Some(there) = there.find(|it| it.incarnation == worker && !it.lost) else {
            return Ok(());
        };
        if !there.draining {
            bail!(ErrorCode::WorkerDrain.failed("it was undone: the worker gets new sessions"));
        }
        if there.sessions != known {
            known = there.sessions;
            output::note(format_args!("sessions left: {known}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::Chain;

    use super::*;

    fn worker(gpu: GpuId, draining: bool, lost: bool) -> WorkerStatus {
        WorkerStatus {
            gpu,
            incarnation: Incarnation(u64::from(gpu) + 1),
            draining,
            lost,
            device: String::new(),
            sessions: 0,
            granted: 0,
            accepted: 0,
            chain: Chain::default(),
            outstanding_ns: 0,
        }
    }

    #[test]
    fn who_wants_a_worker_back_that_leaves_hears_what_starts_one() {
        may_stay(&worker(3, false, false)).unwrap();
        let error = may_stay(&worker(3, true, false)).unwrap_err().to_string();
        assert!(error.contains("`warploom worker --gpu 3`"), "{error}");
        for gone in [vec![], vec![worker(3, true, true)]] {
            let error = Which::Gpu(3).find(&gone).unwrap_err().to_string();
            assert!(error.contains("`warploom worker --gpu 3`"), "{error}");
        }
        let other = [worker(0, false, false), worker(3, true, true)];
        let error = Which::Gpu(3).find(&other).unwrap_err().to_string();
        assert!(
            error.contains("there are 0000000000000001 (gpu 0); `warploom"),
            "{error}"
        );
    }

    #[test]
    fn a_worker_that_left_before_its_drain_was_named_wrongly() {
        let code = |undo| crate::exit::code(&gone(undo, 3).into());
        assert_eq!(code(false), crate::exit::USAGE);
        assert_eq!(code(true), crate::exit::FAILED);
    }

    #[test]
    fn a_worker_is_named_by_gpu_or_id() {
        assert_eq!("3".parse(), Ok(Which::Gpu(3)));
        let id = "00000000000000a1".parse();
        assert_eq!(id, Ok(Which::Incarnation(Incarnation(0xa1))));
        for bad in ["", "x", "-1", "a1", "99aabbccddeeff0g"] {
            assert!(bad.parse::<Which>().is_err(), "{bad}");
        }
        let digits = "0000000000000003".parse();
        assert_eq!(digits, Ok(Which::Incarnation(Incarnation(3))));
    }
}
