//! `warploom replay`: recomputes the launch order from the record alone, whole or up to a position.

mod stopped;

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use scheduler_leader_core::replay::{self, Position, Stop};
use serde::{Deserialize, Serialize};

use crate::admin::Administrator;
use crate::cli::ReplayArgs;
use crate::commands::credentials;
use crate::evidence::Ordered;
use crate::exit::Usage;
use crate::output;
use crate::record::{Record, Source, stream_blocks};
use crate::settings::Settings;

/// What a replay found, as `--json` prints it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Replayed {
    /// The launch order's digest.
    pub digest: String,
    /// Positions recomputed or adopted.
    pub positions: u64,
    /// Positions taken from workers because their inputs died with a leader.
    pub adopted: u64,
    /// Positions nobody recorded.
    pub skipped: u64,
    /// Recorded gaps.
    pub gaps: u64,
    /// Reigns.
    pub epochs: u64,
    /// Inputs applied.
    pub inputs: u64,
}

/// Replays and prints.
///
/// # Errors
/// When the record cannot be read, does not replay, or arrives at another digest than expected.
pub async fn replay(args: &ReplayArgs, settings: &Settings, json: bool) -> Result<()> {
    let record = record(args, settings).await?;
    if let Some(stop) = args.until {
        return until(&record, stop, json);
    }
    let order = record.replay()?;
    if let Some(path) = &args.order {
        write(path, &order.positions)?;
    }
    let found = Replayed {
        digest: order.digest.to_string(),
        positions: order.positions.len() as u64,
        adopted: order.adopted,
        skipped: order.skipped,
        gaps: order.gaps,
        epochs: order.epochs,
        inputs: order.inputs,
    };
    if json {
        output::line(serde_json::to_string(&found)?)?;
    } else {
        output::line(format_args!("launch order {}", found.digest))?;
        output::line(format_args!(
            "{} positions from {} inputs, reigns: {}; {} adopted, {} skipped, gaps: {}",
            found.positions, found.inputs, found.epochs, found.adopted, found.skipped, found.gaps
        ))?;
        for tail in &order.tails {
            let lost = if tail.lost { ", lost" } else { "" };
            let end = tail.tail;
            output::line(format_args!(
                "gpu {} worker {}: position {}, chain {}{lost}",
                end.gpu, tail.incarnation, end.position, end.chain
            ))?;
        }
    }
    match &args.expect {
        Some(expected) if *expected != found.digest => {
            bail!(
                "E-REPLAY: the replay arrives at {}, not at {expected}",
                found.digest
            )
        }
        _ => Ok(()),
    }
}

/// The record: a file's, or the cluster's.
async fn record(args: &ReplayArgs, settings: &Settings) -> Result<Record> {
    if let Some(path) = &args.record {
        return match Source::read(path)? {
            Source::Record(record) => Ok(record),
            Source::Listing(_) => bail!(Usage(format!(
                "{} holds rows of an order, which lack the inputs",
                path.display()
            ))),
        };
    }
    let administrator = Administrator::connect(&credentials(settings)?).await?;
    Ok(Record {
        blocks: stream_blocks(&administrator).await?,
        ..Record::default()
    })
}

/// Stops at a position and looks at the order there.
fn until(record: &Record, stop: Stop, json: bool) -> Result<()> {
    let stopped = replay::replay_until(&record.blocks, stop).context("E-REPLAY")?;
    match json {
        true => output::line(stopped::json(&stopped)?),
        false => output::line(stopped::tables(&stopped)),
    }
}

fn write(path: &Path, positions: &[Position]) -> Result<()> {
    let file = std::fs::File::create(path)
        .with_context(|| format!("E-EVIDENCE-FILE: cannot write {}", path.display()))?;
    let mut out = std::io::BufWriter::new(file);
    for position in positions {
        serde_json::to_writer(&mut out, &ordered(position))?;
        out.write_all(b"\n")?;
    }
    out.flush()
        .with_context(|| format!("E-EVIDENCE-FILE: cannot write {}", path.display()))
}

fn ordered(position: &Position) -> Ordered {
    Ordered {
        gpu: position.gpu,
        incarnation: position.incarnation.to_string(),
        position: position.position,
        global: position.global,
        epoch: position.epoch,
        tenant: position.tenant.to_string(),
        ordinal: position.ordinal,
        session: position.session.to_string(),
        kind: position.kind.name().into(),
        first: position.first,
        last: position.last,
    }
}
