//! The record as the cluster's stream has it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use actors::storage::Stored;
use anyhow::{Context, Result, bail};
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::{self, ErrorCode};
use bus_schemas::{Epoch, GpuTail, Status};
use futures_util::StreamExt;
use scheduler_leader_core::replay::{Anchor, Replay, ReplayedPosition};
use scheduler_leader_core::why::DeviceDay;

use super::{Block, Record};
use crate::admin::{Administrator, Kept};
use crate::exit::Unreachable;

/// What errors are of.
const KEPT: Kept = Kept {
    what: "the record",
    code: "E-REPLAY",
};
/// How long blocks of the epoch before are waited for where an epoch begins.
const STRAGGLERS: Duration = Duration::from_millis(300);
/// What is wrong with a block that does not say which it is.
const UNNAMED: &str = "E-REPLAY: a block has no message id <epoch>.<leader>.<number>";
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
    blocks_of(administrator, None).await
}

/// The blocks that there are now, of one epoch's subject or all.
async fn blocks_of(administrator: &Administrator, epoch: Option<Epoch>) -> Result<Vec<Block>> {
    let place = (DeliverPolicy::All, false);
    let (total, mut messages) = open(administrator, epoch, place).await?;
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
    let replay = Replay::forgetful();
    replay_stream(administrator, replay, false, tell)
        .await
        .map(drop)
}

/// As [`follow`], of what there is now: ends with [`Followed::Whole`].
///
/// # Errors
/// As [`follow`], and when the stream stalls.
pub async fn scan(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
    let replay = Replay::forgetful();
    replay_stream(administrator, replay, true, tell)
        .await
        .map(drop)
}

/// As [`follow`], with what each position waited for.
///
/// # Errors
/// As [`follow`].
pub async fn follow_explained(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
    let replay = Replay::forgetful().explaining();
    replay_stream(administrator, replay, false, tell)
        .await
        .map(drop)
}

/// As [`scan`], with what each position waited for; gives what has not ended and what the devices did.
///
/// # Errors
/// As [`scan`].
pub async fn scan_explained(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<(Vec<ReplayedPosition>, Vec<DeviceDay>)> {
    let replay = Replay::forgetful().explaining();
    let mut replay = replay_stream(administrator, replay, true, tell).await?;
    Ok((replay.standing(), replay.device_days()))
}

async fn replay_stream(
    administrator: &Administrator,
    // Of a record of any length only the newest part is kept.
    mut replay: Replay,
    ends: bool,
    mut tell: impl FnMut(Followed) -> Result<()>,
) -> Result<Replay> {
    // Where the record was cut off it begins behind one of these, which came later.
    for (epoch, number, bytes) in blocks_of(administrator, Some(Anchor::EPOCH)).await? {
        add(&mut replay, epoch, number, &bytes)?;
    }
    let stream = record(administrator).await?;
    let behind = stream.cached_info().state.last_sequence;
    let epochs = actors::storage::epochs(&stream, administrator.subjects()).await;
    let epochs = epochs.map_err(|error| KEPT.silent(error))?;
    let mut read = BTreeMap::new();
    for epoch in epochs {
        let through = replay_epoch(administrator, epoch, &mut replay, &mut tell).await?;
        read.insert(epoch, through);
    }
    tell(Followed::Whole)?;
    if ends {
        return Ok(replay);
    }
    let mut news = News::open(administrator, behind + 1, read).await?;
    while let Some(messages) = news.next().await? {
        for message in messages {
            let (epoch, number, bytes) = block(&message)?;
            add(&mut replay, epoch, number, &bytes)?;
            advance(&mut replay, Some(stored_ms(&message)), &mut tell)?;
        }
    }
    Ok(replay)
}

/// Replays what there is of an epoch, block by block: of one that two leaders had, as a store that lost its
/// tail may allow, one leader's behind the other's. Gives the sequence of the last block.
async fn replay_epoch(
    administrator: &Administrator,
    epoch: Epoch,
    replay: &mut Replay,
    tell: &mut impl FnMut(Followed) -> Result<()>,
) -> Result<u64> {
    let at_once = leaders(administrator, epoch).await? > 1;
    let place = (DeliverPolicy::All, false);
    let (total, mut messages) = open(administrator, Some(epoch), place).await?;
    let mut through = 0;
    for _ in 0..total {
        let message = next(administrator, &mut messages).await?;
        let (epoch, number, bytes) = block(&message)?;
        add(replay, epoch, number, &bytes)?;
        through = sequence(&message);
        if !at_once {
            advance(replay, None, tell)?;
        }
    }
    advance(replay, None, tell)?;
    Ok(through)
}

/// How many leaders an epoch had, by the names of its blocks.
async fn leaders(administrator: &Administrator, epoch: Epoch) -> Result<usize> {
    let place = (DeliverPolicy::All, true);
    let (total, mut messages) = open(administrator, Some(epoch), place).await?;
    let mut leaders = BTreeSet::new();
    for _ in 0..total {
        let message = next(administrator, &mut messages).await?;
        let id = message_id(&message).and_then(|id| id.split('.').nth(1));
        leaders.insert(id.context(UNNAMED)?.to_owned());
    }
    Ok(leaders.len())
}

/// Applies what is whole, and tells of what has ended.
fn advance(
    replay: &mut Replay,
    news_of_ms: Option<u64>,
    tell: &mut impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
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
    told
}

/// Blocks as they come into the stream.
struct News {
    messages: pull::Ordered,
    /// Of each epoch that was read before, through which sequence.
    read: BTreeMap<Epoch, u64>,
    /// The newest epoch that a block was handed out of.
    newest: Epoch,
}

impl News {
    async fn open(
        administrator: &Administrator,
        from: u64,
        read: BTreeMap<Epoch, u64>,
    ) -> Result<Self> {
        let place = DeliverPolicy::ByStartSequence {
            start_sequence: from,
        };
        let (_, messages) = open(administrator, None, (place, false)).await?;
        let newest = read.last_key_value().map_or(0, |(epoch, _)| *epoch);
        Ok(Self {
            messages,
            read,
            newest,
        })
    }

    /// The next blocks, in the order of their epochs; none once the stream has ended. Where an epoch begins,
    /// those are waited for that a leader of before may still be storing.
    async fn next(&mut self) -> Result<Option<Vec<jetstream::Message>>> {
        let Some(message) = self.messages.next().await else {
            return Ok(None);
        };
        let message = message.map_err(|error| KEPT.failed(error))?;
        let (epoch, number) = name(&message)?;
        // Whoever cuts the record stores an anchor, of an old epoch.
        if number == Anchor::NUMBER {
            return Ok(Some(vec![message]));
        }
        if epoch < self.newest {
            let read = self.read.get(&epoch).copied().unwrap_or(0);
            if sequence(&message) <= read {
                return Ok(Some(Vec::new()));
            }
            bail!(
                "E-REPLAY: a block of epoch {epoch} was stored late: the record is to be read anew"
            );
        }
        let begins = self.newest > 0 && epoch > self.newest;
        self.newest = self.newest.max(epoch);
        let mut messages = vec![message];
        if !begins {
            return Ok(Some(messages));
        }
        let until = tokio::time::Instant::now() + STRAGGLERS;
        while let Ok(Some(message)) = tokio::time::timeout_at(until, self.messages.next()).await {
            messages.push(message.map_err(|error| KEPT.failed(error))?);
        }
        let mut by_epoch = Vec::with_capacity(messages.len());
        for message in messages {
            by_epoch.push((name(&message)?.0, message));
        }
        by_epoch.sort_by_key(|(epoch, _)| *epoch);
        self.newest = by_epoch.last().map_or(epoch, |(epoch, _)| *epoch);
        let messages = by_epoch.into_iter().map(|(_, message)| message);
        Ok(Some(messages.collect()))
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

fn add(replay: &mut Replay, epoch: Epoch, number: u64, bytes: &[u8]) -> Result<()> {
    let added = replay.add(epoch, number, bytes);
    added.context("E-REPLAY: the record does not replay")
}

/// When a message came into the stream, milliseconds since 1970.
fn stored_ms(message: &jetstream::Message) -> u64 {
    message.info().map_or(0, |info| {
        u64::try_from(info.published.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
    })
}

/// The stream's messages from a place on, of one epoch's subject or all, with their content or only their
/// names, and how many there are now. A server that has just come back to the others cannot tell for a while.
async fn open(
    administrator: &Administrator,
    epoch: Option<Epoch>,
    place: (DeliverPolicy, bool),
) -> Result<(u64, pull::Ordered)> {
    let asked = Instant::now();
    loop {
        match try_open(administrator, epoch, place).await {
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

async fn record(administrator: &Administrator) -> Result<jetstream::stream::Stream> {
    let stream = administrator.stream(Stored::Record, KEPT).await?;
    stream.with_context(|| {
        let name = administrator.subjects().record_stream();
        format!("E-REPLAY: there is no record stream {name}")
    })
}

async fn try_open(
    administrator: &Administrator,
    epoch: Option<Epoch>,
    (place, names_only): (DeliverPolicy, bool),
) -> Result<(u64, pull::Ordered)> {
    let stream = record(administrator).await?;
    let subject = epoch.map(|epoch| administrator.subjects().record(epoch));
    let config = pull::OrderedConfig {
        deliver_policy: place,
        headers_only: names_only,
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
    let (epoch, number) = name(message)?;
    Ok((epoch, number, message.payload.to_vec()))
}

/// A block's epoch and number.
fn name(message: &jetstream::Message) -> Result<(Epoch, u64)> {
    message_id(message).and_then(block_id).context(UNNAMED)
}

/// Where a message is in the stream.
fn sequence(message: &jetstream::Message) -> u64 {
    message.info().map_or(0, |info| info.stream_sequence)
}

/// What a block is called.
fn message_id(message: &jetstream::Message) -> Option<&str> {
    let headers = message.headers.as_ref()?;
    headers.get("Nats-Msg-Id").map(|id| id.as_str())
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
