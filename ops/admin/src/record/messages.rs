//! The messages of the record's stream, with the block that each one is.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use async_nats::jetstream;
use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use bus_schemas::Epoch;
use storage::Stored;

use super::Block;
use crate::administrator::{Administrator, Kept, StoredMessages};
use crate::errors::{CommandError, ErrorCode, Unreachable};

/// The stored data that errors name.
pub(super) const KEPT: Kept = Kept {
    what: "the record",
    code: ErrorCode::Replay,
};
/// The error of a block without an identifying message id.
pub(super) fn unnamed() -> CommandError {
    ErrorCode::Replay.failed("a block has no message id <epoch>.<leader>.<number>")
}
/// Pause before a server that cannot answer yet is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// Number of readings that a cut may overtake, however long each takes.
const TRIES: u32 = 5;

/// All blocks up to now, of one epoch's subject or of all.
pub(super) async fn blocks_of(
    administrator: &Administrator,
    epoch: Option<Epoch>,
) -> Result<Vec<Block>> {
    let place = (DeliverPolicy::All, false);
    let mut there = there(administrator, epoch, place).await?;
    let mut blocks = Vec::new();
    while let Some(message) = there.next().await? {
        blocks.push(block(&message)?);
    }
    Ok(blocks)
}

/// Messages that existed at the time of the request, without later ones.
pub(super) struct There {
    messages: StoredMessages,
    /// Sequence of the last one.
    last: u64,
}

impl There {
    /// The next message; `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<jetstream::Message>> {
        let next = self.messages.next().await?;
        Ok(next.filter(|message| sequence(message) <= self.last))
    }
}

/// The stream's existing messages from a given start, of one epoch's subject or of all, with their
/// contents or only their names.
pub(super) async fn there(
    administrator: &Administrator,
    epoch: Option<Epoch>,
    place: (DeliverPolicy, bool),
) -> Result<There> {
    let (last, messages) = open(administrator, epoch, place).await?;
    Ok(There { messages, last })
}

/// Time at which a message came into the stream, milliseconds since 1970.
pub(super) fn stored_ms(message: &jetstream::Message) -> u64 {
    message.info().map_or(0, |info| {
        u64::try_from(info.published.unix_timestamp_nanos() / 1_000_000).unwrap_or(0)
    })
}

/// The stream's messages from a given start, of one epoch's subject or of all, with their contents
/// or only their names. Also returns the sequence of the last one. A server that has just rejoined
/// the others cannot answer for a while.
pub(super) async fn open(
    administrator: &Administrator,
    epoch: Option<Epoch>,
    place: (DeliverPolicy, bool),
) -> Result<(u64, StoredMessages)> {
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

/// True if no server answers, or if a server says that it does not know the leader yet. A request
/// may be lost with the server that it went to.
fn is_passing(error: &anyhow::Error) -> bool {
    if error.is::<Unreachable>() {
        return true;
    }
    let code = jetstream::ErrorCode::CLUSTER_NOT_AVAILABLE.0;
    format!("{error:#}").contains(&format!("error code {code}"))
}

pub(super) async fn record(administrator: &Administrator) -> Result<jetstream::stream::Stream> {
    let stream = administrator.stream(Stored::Record, KEPT).await?;
    stream.with_context(|| {
        let name = administrator.subjects().record_stream();
        ErrorCode::Replay.failed(format!("there is no record stream {name}"))
    })
}

/// Sequence of the stream's first message. It rises when the record is cut.
pub(super) async fn first_sequence(administrator: &Administrator) -> Result<u64> {
    let stream = record(administrator).await?;
    Ok(stream.cached_info().state.first_sequence)
}

/// A reading that is repeated until no cut happens meanwhile. A cut takes blocks away, and stores
/// its anchor behind the last block that was asked for.
pub(super) struct Uncut {
    asked: Instant,
    tries: u32,
    first: u64,
}

impl Uncut {
    /// Call before the first reading.
    pub(super) async fn begin(administrator: &Administrator) -> Result<Self> {
        Ok(Self {
            asked: Instant::now(),
            tries: 0,
            first: first_sequence(administrator).await?,
        })
    }

    /// Returns true if the last reading is whole. Fails if cuts do not stop.
    pub(super) async fn is_whole(&mut self, administrator: &Administrator) -> Result<bool> {
        let first = first_sequence(administrator).await?;
        let before = std::mem::replace(&mut self.first, first);
        self.tries += 1;
        let late = self.tries >= TRIES && self.asked.elapsed() > administrator.stall();
        if before != first && late {
            return Err(is_cut().into());
        }
        Ok(before == first)
    }
}

/// The error of a reader that was overtaken by a cut.
pub(super) fn is_cut() -> CommandError {
    ErrorCode::Replay.failed("the record was cut while it was read; run the command again")
}

async fn try_open(
    administrator: &Administrator,
    epoch: Option<Epoch>,
    (place, names_only): (DeliverPolicy, bool),
) -> Result<(u64, StoredMessages)> {
    let stream = record(administrator).await?;
    let subject = epoch.map(|epoch| administrator.subjects().record(epoch));
    let config = pull::OrderedConfig {
        deliver_policy: place,
        headers_only: names_only,
        filter_subject: subject.unwrap_or_default(),
        ..Default::default()
    };
    let last = stream.cached_info().state.last_sequence;
    let messages = StoredMessages::open(administrator, stream, config, KEPT).await?;
    Ok((last, messages))
}

pub(super) fn block(message: &jetstream::Message) -> Result<Block> {
    let (epoch, number) = name(message)?;
    Ok((epoch, number, message.payload.to_vec()))
}

/// A block's epoch and number.
pub(super) fn name(message: &jetstream::Message) -> Result<(Epoch, u64)> {
    message_id(message).and_then(block_id).with_context(unnamed)
}

/// A message's sequence in the stream.
pub(super) fn sequence(message: &jetstream::Message) -> u64 {
    message.info().map_or(0, |info| info.stream_sequence)
}

/// A block's message id.
pub(super) fn message_id(message: &jetstream::Message) -> Option<&str> {
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
