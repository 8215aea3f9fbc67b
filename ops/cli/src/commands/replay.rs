//! `warploom replay`: recomputes the launch order from the record alone, whole or up to a position.

mod stopped;

use clap::Args;
use std::io::Write;
use std::path::Path;
use std::path::PathBuf;

use admin::Administrator;
use admin::errors::{ErrorCode, UsageError};
use admin::evidence::WorkerEnd;
use admin::output;
use admin::record::{AnchorLine, PositionRow, Record, Source, With, stream_blocks, whole};
use admin::settings::Settings;
use anyhow::{Context, Result, bail};
use scheduler_leader_core::replay::{self, Anchor, Fate, ReplayedPosition, Stop};
use serde::{Deserialize, Serialize};

/// `warploom replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  warploom replay
  warploom replay --order order.jsonl
  warploom replay --expect 2dd05749…   fails if the record says otherwise
  warploom replay --record run.record --until 1:4200   the order behind gpu 1's position 4200")]
pub struct ReplayArgs {
    /// Replays a file that `order export` wrote instead of the cluster's record
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Stops after this position and prints queues, virtual times, windows and budgets: GLOBAL,
    /// EPOCH/GLOBAL, GPU:POSITION or INCARNATION:POSITION
    #[arg(long, value_name = "POSITION", conflicts_with_all = ["order", "expect"])]
    pub until: Option<scheduler_leader_core::replay::Stop>,
    /// Writes every position of the order to this file, one JSON object a line
    #[arg(long, value_name = "FILE")]
    pub order: Option<PathBuf>,
    /// Fails unless the replay arrives at this digest
    #[arg(long, value_name = "HEX")]
    pub expect: Option<String>,
}

/// Maximum number of adopted positions to show.
const ADOPTED: usize = 20;

/// The result of a replay, as `--json` prints it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReplaySummary {
    /// The launch order's digest.
    pub digest: String,
    /// Positions recomputed or adopted.
    pub positions: u64,
    /// Positions taken from workers because their inputs died with a leader.
    pub adopted: u64,
    /// Positions that were accepted but are in neither record nor tail; there must be none.
    pub skipped: u64,
    /// Positions that were not recorded, according to the record itself.
    #[serde(default)]
    pub gap_positions: u64,
    /// Recorded gaps.
    pub gaps: u64,
    /// Terms.
    pub epochs: u64,
    /// Inputs applied.
    pub inputs: u64,
    /// The end of each worker's chain.
    pub workers: Vec<WorkerEnd>,
    /// The anchor, if the beginning of the record was cut off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor: Option<AnchorLine>,
}

/// Replays the record and prints the result.
///
/// # Errors
/// If the record cannot be read, does not replay, has a hole, or yields another digest than
/// expected.
pub async fn replay(args: &ReplayArgs, settings: &Settings, json: bool) -> Result<()> {
    let record = record(args, settings).await?;
    if let Some(stop) = args.until {
        return until(&record, stop, json);
    }
    let order = record.replay()?;
    if let Some(path) = &args.order {
        write(path, &order.positions)?;
    }
    let found = ReplaySummary {
        digest: order.digest.to_string(),
        positions: order.positions.len() as u64,
        adopted: order.adopted,
        skipped: order.skipped,
        gap_positions: order.gap_positions,
        gaps: order.gaps,
        epochs: order.epochs,
        inputs: order.inputs,
        workers: order
            .tails
            .iter()
            .map(|tail| end(tail, order.anchor.as_ref()))
            .collect(),
        anchor: order.anchor.as_ref().map(AnchorLine::of),
    };
    if json {
        output::line(serde_json::to_string(&found)?)?;
    } else {
        if let Some(anchor) = &found.anchor {
            output::line(anchor)?;
        }
        output::line(format_args!("launch order {}", found.digest))?;
        output::line(format_args!(
            "{} positions from {} inputs, terms: {}; {} adopted, {} skipped, gaps: {} of {} positions",
            found.positions,
            found.inputs,
            found.epochs,
            found.adopted,
            found.skipped,
            found.gaps,
            found.gap_positions
        ))?;
        for gap in &order.named {
            output::line(gap)?;
        }
        found.workers.iter().try_for_each(say_worker)?;
        let adopted = order.positions.iter().filter(|row| row.adopted);
        adopted.take(ADOPTED).try_for_each(say_adopted)?;
        for hole in &order.holes {
            output::line(format_args!("nothing tells {hole}"))?;
        }
    }
    whole(&order)?;
    match &args.expect {
        Some(expected) if *expected != found.digest => {
            bail!(ErrorCode::Replay.failed(format!(
                "the replay arrives at {}, not at {expected}",
                found.digest
            )))
        }
        _ => Ok(()),
    }
}

fn say_worker(end: &WorkerEnd) -> Result<()> {
    let gone = match &*end.fate {
        "here" => String::new(),
        fate => format!(", {fate}"),
    };
    let compared = match end.with {
        With::Nothing => "compared with nothing".to_owned(),
        _ => format!("compared with the record at position {}", end.through),
    };
    output::line(format_args!(
        "gpu {} worker {}: position {}, chain {}{gone}, {compared}",
        end.gpu, end.incarnation, end.position, end.chain
    ))
}

fn say_adopted(row: &ReplayedPosition) -> Result<()> {
    output::line(format_args!(
        "adopted: gpu {} worker {} position {}: {} session {}, {} {}..{}",
        row.gpu,
        row.incarnation,
        row.position,
        row.tenant,
        row.ordinal,
        row.kind.name(),
        row.first,
        row.last
    ))
}

fn end(tail: &replay::Tail, anchor: Option<&Anchor>) -> WorkerEnd {
    let mut workers = anchor.into_iter().flat_map(|anchor| &anchor.workers);
    let from = workers.find(|worker| worker.incarnation == tail.incarnation);
    WorkerEnd {
        gpu: tail.tail.gpu,
        incarnation: tail.incarnation.to_string(),
        position: tail.tail.position,
        chain: tail.tail.chain.to_string(),
        lost: tail.fate == Fate::Lost,
        dead: false,
        fate: tail.fate.name().into(),
        with: With::in_record(tail),
        through: tail.recorded,
        from: from.map_or(0, |from| from.tail.position),
        from_chain: from.map_or_else(String::new, |from| from.tail.chain.to_string()),
    }
}

/// The record of a file, or of the cluster.
async fn record(args: &ReplayArgs, settings: &Settings) -> Result<Record> {
    if let Some(path) = &args.record {
        return match Source::read(path)? {
            Source::Record(record) => Ok(record),
            Source::Listing(_) => bail!(UsageError(format!(
                "{} holds rows of an order, which lack the inputs",
                path.display()
            ))),
        };
    }
    let administrator = Administrator::of(settings).await?;
    Ok(Record {
        blocks: stream_blocks(&administrator).await?,
        ..Record::default()
    })
}

/// Stops at a position and prints the order there.
fn until(record: &Record, stop: Stop, json: bool) -> Result<()> {
    let stopped = replay::replay_until(&record.blocks, stop)
        .map_err(|error| ErrorCode::Replay.failed(error))?;
    match json {
        true => output::line(stopped::json(&stopped)?),
        false => output::line(stopped::tables(&stopped)),
    }
}

fn write(path: &Path, positions: &[ReplayedPosition]) -> Result<()> {
    let file = std::fs::File::create(path).with_context(|| {
        ErrorCode::EvidenceFile.failed(format!("cannot write {}", path.display()))
    })?;
    let mut out = std::io::BufWriter::new(file);
    for position in positions {
        serde_json::to_writer(&mut out, &PositionRow::from(position))?;
        out.write_all(b"\n")?;
    }
    out.flush()
        .with_context(|| ErrorCode::EvidenceFile.failed(format!("cannot write {}", path.display())))
}
