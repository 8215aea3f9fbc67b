//! The record as the cluster's stream has it.

use std::time::{Duration, Instant};

use actors::storage::Stored;
use anyhow::{Context, Result};
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::{self, ErrorCode};
use bus_schemas::{Epoch, GpuTail, Status};
use futures_util::StreamExt;
use scheduler_leader_core::replay::{Anchor, Replay, ReplayedPosition};

use super::{Block, Record};
use crate::admin::{Administrator, Kept};
use crate::exit::Unreachable;

/// What errors are of.
const KEPT: Kept = Kept {
    what: "the record",
    code: "E-REPLAY",
};
/// Before a server that cannot tell yet is asked again.
const AGAIN: Duration = Duration::from_millis(100);

/// The cluster's record so far, with where the workers say that their chains are. What they had
/// accepted when they were asked is recorded, unless the leader changed meanwhile.
///
/// # Errors
/// When there is no stream, or it stalls.
pub async fn of_cluster(administrator: &Administrator) -> Result<Record> {
    let asked = Instant::now();
    let mut status = administrator.status(administrator.glance()).await.ok();
    let mut ends = ends(status.as_ref());
    let first = status.clone();
    while let (Some(first), Some(now)) = (&first, &status) {
        if now.epoch == first.epoch && now.recorded >= first.input {
            break;
        }
        if now.epoch != first.epoch || asked.elapsed() > administrator.patience() {
            ends.clear();
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        status = administrator.status(administrator.patience()).await.ok();
    }
    Ok(Record {
        cluster: administrator.subjects().cluster().to_string(),
        blocks: stream_blocks(administrator).await?,
        ends,
        marks: Vec::new(),
    })
}

/// Where the workers' chains are, as the leader heard.
fn ends(status: Option<&Status>) -> Vec<(bus_schemas::Incarnation, GpuTail)> {
    let workers = status.into_iter().flat_map(|status| &status.workers);
    let live = workers.filter(|worker| !worker.lost && worker.accepted > 0);
    live.map(|worker| {
        let tail = GpuTail {
            gpu: worker.gpu,
            position: worker.accepted,
            chain: worker.chain,
        };
        (worker.incarnation, tail)
    })
    .collect()
}

/// All blocks of the record stream.
///
/// # Errors
/// When there is no stream, it stalls, or a message in it is no block.
pub async fn stream_blocks(administrator: &Administrator) -> Result<Vec<Block>> {
    let (total, mut messages) = open(administrator, None).await?;
    let mut blocks = Vec::new();
    while (blocks.len() as u64) < total {
        blocks.push(block(&next(administrator, &mut messages).await?)?);
    }
    Ok(blocks)
}

/// What whoever follows the record hears.
#[derive(Debug)]
pub enum Followed {
    /// A position whose end is recorded.
    Ended {
        /// The position.
        position: Box<ReplayedPosition>,
        /// When the block with its end came into the stream, milliseconds since 1970; none where that was
        /// there when we came.
        news_of_ms: Option<u64>,
    },
    /// All that was there when we came has been read.
    Whole,
}

/// Replays the record as it grows, until the stream ends or `tell` fails.
///
/// # Errors
/// When there is no stream, the record does not replay, or `tell` fails.
pub async fn follow(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
    replay_stream(administrator, false, tell).await
}

/// As [`follow`], of what there is now: ends with [`Followed::Whole`].
///
/// # Errors
/// As [`follow`], and when the stream stalls.
pub async fn scan(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
    replay_stream(administrator, true, tell).await
}

async fn replay_stream(
    administrator: &Administrator,
    ends: bool,
    mut tell: impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
    // Of a record of any length only the newest part is kept.
    let mut replay = Replay::forgetful();
    let (anchored, mut anchors) = open(administrator, Some(Anchor::EPOCH)).await?;
    for _ in 0..anchored {
        // Where the record was cut off it begins behind one of these, which came later.
        add(&mut replay, &next(administrator, &mut anchors).await?)?;
    }
    let (total, mut messages) = open(administrator, None).await?;
    let mut seen = 0;
    loop {
        if seen == total {
            tell(Followed::Whole)?;
            if ends {
                return Ok(());
            }
        }
        let message = match seen < total {
            true => next(administrator, &mut messages).await?,
            false => match messages.next().await {
                Some(message) => message.map_err(|error| KEPT.failed(error))?,
                None => return Ok(()),
            },
        };
        seen += 1;
        add(&mut replay, &message)?;
        let news_of_ms = (seen > total).then(|| stored_ms(&message));
        let mut told = Ok(());
        let advanced = replay.advance(|position| {
            if told.is_ok() {
                told = tell(Followed::Ended {
                    position: Box::new(position),
                    news_of_ms,
                });
            }
        });
        advanced.context("E-REPLAY: the record does not replay")?;
        told?;
    }
}

/// The next of messages that are there.
async fn next(
    administrator: &Administrator,
    messages: &mut pull::Ordered,
) -> Result<jetstream::Message> {
    let next = tokio::time::timeout(administrator.stall(), messages.next()).await;
    let next = next.map_err(|_| KEPT.silent("the stream stalls"))?;
    let message = next.ok_or_else(|| KEPT.silent("the stream ends early"))?;
    message.map_err(|error| KEPT.failed(error))
}

fn add(replay: &mut Replay, message: &jetstream::Message) -> Result<()> {
    let (epoch, number, bytes) = block(message)?;
    let added = replay.add(epoch, number, &bytes);
    added.context("E-REPLAY: the record does not replay")
}

/// When a message came into the stream, milliseconds since 1970.
fn stored_ms(message: &jetstream::Message) -> u64 {
    message.info().map_or(0, |info| {
        u64::try_from(info.published.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
    })
}

/// The stream's messages from the first on, of one epoch's subject or all, and how many there are now. A
/// server that has just come back to the others cannot tell for a while.
async fn open(administrator: &Administrator, epoch: Option<Epoch>) -> Result<(u64, pull::Ordered)> {
    let asked = Instant::now();
    loop {
        match try_open(administrator, epoch).await {
            Err(error) if is_passing(&error) && asked.elapsed() < administrator.stall() => {
                tokio::time::sleep(AGAIN).await;
            }
            opened => return opened,
        }
    }
}

/// Whether nobody answers, or a server says that it does not know yet who leads the others: a request may be
/// lost with the server that it went to.
fn is_passing(error: &anyhow::Error) -> bool {
    if error.is::<Unreachable>() {
        return true;
    }
    let code = ErrorCode::CLUSTER_NOT_AVAILABLE.0;
    format!("{error:#}").contains(&format!("error code {code}"))
}

async fn try_open(
    administrator: &Administrator,
    epoch: Option<Epoch>,
) -> Result<(u64, pull::Ordered)> {
    let stream = administrator.stream(Stored::Record, KEPT).await?;
    let stream = stream.with_context(|| {
        let name = administrator.subjects().record_stream();
        format!("E-REPLAY: there is no record stream {name}")
    })?;
    let subject = epoch.map(|epoch| administrator.subjects().record(epoch));
    let config = pull::OrderedConfig {
        deliver_policy: DeliverPolicy::All,
        filter_subject: subject.unwrap_or_default(),
        ..Default::default()
    };
    let consumer = stream.create_consumer(config).await;
    let consumer = consumer.map_err(|error| KEPT.failed(error))?;
    let total = consumer.cached_info().num_pending;
    let messages = consumer.messages().await;
    let messages = messages.map_err(|error| KEPT.failed(error))?;
    Ok((total, messages))
}

fn block(message: &jetstream::Message) -> Result<Block> {
    let headers = message.headers.as_ref();
    let id = headers.and_then(|headers| headers.get("Nats-Msg-Id"));
    let (epoch, number) = id
        .and_then(|id| block_id(id.as_str()))
        .context("E-REPLAY: a block has no message id <epoch>.<leader>.<number>")?;
    Ok((epoch, number, message.payload.to_vec()))
}

fn block_id(id: &str) -> Option<(Epoch, u64)> {
    let (epoch, rest) = id.split_once('.')?;
    let (_leader, number) = rest.split_once('.')?;
    Some((epoch.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_returns_is_asked_again_and_a_stream_that_is_not_there_is_not() {
        for (code, returning) in [(10_008, true), (10_059, false)] {
            let said = format!(r#"{{"code":503,"err_code":{code},"description":"no"}}"#);
            let said: jetstream::Error = serde_json::from_str(&said).unwrap();
            let error = anyhow::Error::from(said).context("E-REPLAY: there is no record stream");
            assert_eq!(is_passing(&error), returning, "{error:#}");
        }
        assert!(is_passing(&KEPT.silent("timed out")));
    }
}
