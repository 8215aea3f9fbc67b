//! `warploom replay`: recomputes the launch order from the record alone.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use async_nats::jetstream;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use bus_schemas::{Epoch, GrantKind};
use futures_util::StreamExt;
use scheduler_leader_core::replay::{self, Position};
use serde::{Deserialize, Serialize};

use crate::admin::Administrator;
use crate::cli::ReplayArgs;
use crate::commands::credentials;
use crate::evidence::Ordered;
use crate::output;
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
    let administrator = Administrator::connect(&credentials(settings)?).await?;
    let blocks = read(&administrator).await?;
    let order = replay::replay(&blocks, &[]).context("E-REPLAY: the record does not replay")?;
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

/// All blocks of the record stream: epoch, number, bytes.
async fn read(administrator: &Administrator) -> Result<Vec<(Epoch, u64, Vec<u8>)>> {
    let jetstream = jetstream::new(administrator.client().clone());
    let name = administrator.subjects().record_stream();
    let mut stream = jetstream
        .get_stream(&name)
        .await
        .with_context(|| format!("E-REPLAY: there is no record stream {name}"))?;
    let total = stream.info().await?.state.messages;
    let config = pull::OrderedConfig {
        deliver_policy: DeliverPolicy::All,
        ..Default::default()
    };
    let mut messages = stream.create_consumer(config).await?.messages().await?;
    let mut blocks = Vec::new();
    while (blocks.len() as u64) < total {
        let next = tokio::time::timeout(Duration::from_secs(10), messages.next()).await;
        let Some(message) = next.context("E-REPLAY: the record stream stalls")? else {
            break;
        };
        let message = message?;
        let id = message
            .headers
            .as_ref()
            .and_then(|headers| headers.get("Nats-Msg-Id"));
        let (epoch, number) = id
            .and_then(|id| block_id(id.as_str()))
            .context("E-REPLAY: a block has no message id <epoch>.<leader>.<number>")?;
        blocks.push((epoch, number, message.payload.to_vec()));
    }
    Ok(blocks)
}

fn block_id(id: &str) -> Option<(Epoch, u64)> {
    let (epoch, rest) = id.split_once('.')?;
    let (_leader, number) = rest.split_once('.')?;
    Some((epoch.parse().ok()?, number.parse().ok()?))
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
    let kind = match position.kind {
        GrantKind::Run => "run",
        GrantKind::Open => "open",
        GrantKind::Close => "close",
    };
    Ordered {
        gpu: position.gpu,
        incarnation: position.incarnation.to_string(),
        position: position.position,
        global: position.global,
        epoch: position.epoch,
        tenant: position.tenant.to_string(),
        ordinal: position.ordinal,
        session: position.session.to_string(),
        kind: kind.into(),
        first: position.first,
        last: position.last,
    }
}
