//! Replay of the cluster's record: as it is, or as it grows.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result};
use async_nats::jetstream;
use async_nats::jetstream::consumer::DeliverPolicy;
use bus_schemas::{Epoch, GpuId};
use scheduler_leader_core::replay::{
    Anchor, Replay, ReplayedChange, ReplayedFailure, ReplayedPosition,
};
use scheduler_leader_core::why::{DeviceDay, DeviceIdle};
use storage::EpochDays;
use tokio::time::Instant;

use super::messages::{
    KEPT, Uncut, block, blocks_of, first_sequence, is_cut, message_id, record, sequence, stored_ms,
    there, unnamed,
};
use super::news::News;
use crate::administrator::Administrator;
use crate::errors::ErrorCode;
use crate::why::{RecordBegin, Within};

/// An event for a follower of the record.
#[derive(Debug)]
pub enum Followed {
    /// A position with a recorded end.
    Ended {
        /// The position.
        position: Box<ReplayedPosition>,
        /// Time at which the block with its end came into the stream, milliseconds since 1970.
        /// `None` if the block was there from the start.
        news_of_ms: Option<u64>,
    },
    /// Everything that was there at the start has been read.
    Whole,
    /// In an explaining replay: the open standing grants, as far as they have run. Sent after
    /// possible changes, at least [`STANDING`] apart.
    Standing(Vec<ReplayedPosition>),
    /// In [`follow_explained`]: a session's failure. A reader may hear of a session again.
    Failed(Box<ReplayedFailure>),
    /// In [`follow_in_parts`]: the idle time of each device. Sent as [`Followed::Standing`] is.
    Idle(BTreeMap<GpuId, DeviceIdle>),
}

/// The end of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// To the end of the record as it is.
    Now,
    /// On as the record grows.
    On,
    /// The same, with the idle time of devices.
    OnWithIdle,
}

/// Minimum interval between two reports of standing grants.
const STANDING: Duration = Duration::from_millis(250);

/// Replays the record as it grows, until the stream ends or `tell` fails.
///
/// # Errors
/// If there is no stream, the record does not replay, or `tell` fails.
pub async fn follow(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
    let replay = Replay::forgetful();
    replay_stream(administrator, replay, Reach::On, tell)
        .await
        .map(drop)
}

/// As [`follow`], with the waits of each position, and with the failures of sessions.
///
/// # Errors
/// As [`follow`].
pub async fn follow_explained(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
    let replay = Replay::forgetful().explaining().telling_failures();
    replay_stream(administrator, replay, Reach::On, tell)
        .await
        .map(drop)
}

/// As [`follow_explained`], with standing grants in parts, with the costs of each position, and with the idle time of
/// devices: see [`Replay::explaining_between`] and [`Replay::telling_costs`].
///
/// # Errors
/// As [`follow`].
pub async fn follow_in_parts(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<()> {
    let replay = Replay::forgetful().explaining_between(0, u64::MAX);
    replay_stream(
        administrator,
        replay.telling_costs(),
        Reach::OnWithIdle,
        tell,
    )
    .await
    .map(drop)
}

/// The contents of the record besides ended positions.
#[derive(Debug)]
pub struct Scanned {
    /// The open standing grants.
    pub standing: Vec<ReplayedPosition>,
    /// The devices' days.
    pub days: Vec<DeviceDay>,
    /// The parts of these days before each epoch began.
    pub by_epoch: EpochDays,
    /// The changes of administrators in the explained time.
    pub changes: Vec<ReplayedChange>,
    /// The beginning of the record, if the explained time begins before it.
    pub begin: Option<RecordBegin>,
}

/// As [`follow_explained`], for the record up to now: ends with [`Followed::Whole`], and returns
/// the open grants and the devices' days.
///
/// # Errors
/// As [`follow`], and if the stream stalls.
pub async fn scan_explained(
    administrator: &Administrator,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<Scanned> {
    scan_within(administrator, None, tell).await
}

/// As [`scan_explained`], for a stretch of time: see [`Replay::explaining_between`].
pub(crate) async fn scan_within(
    administrator: &Administrator,
    within: Option<Within>,
    tell: impl FnMut(Followed) -> Result<()>,
) -> Result<Scanned> {
    let replay = Within::replay(within);
    let mut replay = replay_stream(administrator, replay, Reach::Now, tell).await?;
    let mut by_epoch = EpochDays::default();
    by_epoch.update(replay.device_days_before_epochs());
    Ok(Scanned {
        standing: replay.standing(),
        days: replay.device_days(),
        by_epoch,
        changes: replay.take_changes(),
        begin: RecordBegin::of(&replay, within),
    })
}

async fn replay_stream(
    administrator: &Administrator,
    // Of a record of any length only the newest part is kept.
    mut replay: Replay,
    reach: Reach,
    mut tell: impl FnMut(Followed) -> Result<()>,
) -> Result<Replay> {
    // A record that was cut off begins with an anchor, which was stored later.
    let mut uncut = Uncut::begin(administrator).await?;
    let (behind, epochs, anchors) = loop {
        let stream = record(administrator).await?;
        let behind = stream.cached_info().state.last_sequence;
        let epochs = storage::epochs(&stream, administrator.subjects()).await;
        let epochs = epochs.map_err(|error| KEPT.silent(error))?;
        let anchors = blocks_of(administrator, Some(Anchor::EPOCH)).await?;
        if uncut.is_whole(administrator).await? {
            break (behind, epochs, anchors);
        }
    };
    for (epoch, number, bytes) in anchors {
        add(&mut replay, epoch, number, &bytes)?;
    }
    let mut read = BTreeMap::new();
    for epoch in epochs {
        let through = replay_epoch(administrator, epoch, &mut replay, &mut tell).await?;
        read.insert(epoch, through);
    }
    tell(Followed::Whole)?;
    if reach == Reach::Now {
        return Ok(replay);
    }
    let mut news = News::open(administrator, behind + 1, read).await?;
    // Also reported for the existing part.
    let mut due = Some(Instant::now());
    while let Some(messages) =
        next_or_standing(&mut news, &mut due, (&mut replay, reach), &mut tell).await?
    {
        for message in messages {
            let (epoch, number, bytes) = block(&message)?;
            add(&mut replay, epoch, number, &bytes)?;
            advance(&mut replay, Some(stored_ms(&message)), &mut tell)?;
        }
        due = due.or_else(|| Some(Instant::now() + STANDING));
    }
    Ok(replay)
}

/// The next blocks. Standing grants and idle time are reported when that is due, even if no blocks arrive.
async fn next_or_standing(
    news: &mut News,
    due: &mut Option<Instant>,
    (replay, reach): (&mut Replay, Reach),
    tell: &mut impl FnMut(Followed) -> Result<()>,
) -> Result<Option<Vec<jetstream::Message>>> {
    let mut next = pin!(news.next());
    loop {
        let Some(at) = *due else {
            return next.await;
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(at) => {
                *due = None;
                tell(Followed::Standing(replay.standing()))?;
                if reach == Reach::OnWithIdle {
                    tell(Followed::Idle(replay.device_idle()))?;
                }
            }
            messages = &mut next => return messages,
        }
    }
}

/// Replays the existing blocks of an epoch. A store that lost its tail may have an epoch with two
/// leaders; then one leader's blocks follow the other's. Returns the sequence of the last block.
/// Fails if the epoch was cut off before all of it was read.
async fn replay_epoch(
    administrator: &Administrator,
    epoch: Epoch,
    replay: &mut Replay,
    tell: &mut impl FnMut(Followed) -> Result<()>,
) -> Result<u64> {
    let at_once = leaders(administrator, epoch).await? > 1;
    let place = (DeliverPolicy::All, false);
    let mut messages = there(administrator, Some(epoch), place).await?;
    let (mut from, mut through) = (None, 0);
    while let Some(message) = messages.next().await? {
        let (epoch, number, bytes) = block(&message)?;
        add(replay, epoch, number, &bytes)?;
        through = sequence(&message);
        from.get_or_insert(through);
        if !at_once {
            advance(replay, None, tell)?;
        }
    }
    if from < Some(first_sequence(administrator).await?) {
        return Err(is_cut().into());
    }
    advance(replay, None, tell)?;
    Ok(through)
}

/// Number of leaders of an epoch, by the names of its blocks.
async fn leaders(administrator: &Administrator, epoch: Epoch) -> Result<usize> {
    let place = (DeliverPolicy::All, true);
    let mut messages = there(administrator, Some(epoch), place).await?;
    let mut leaders = BTreeSet::new();
    while let Some(message) = messages.next().await? {
        let id = message_id(&message).and_then(|id| id.split('.').nth(1));
        leaders.insert(id.with_context(unnamed)?.to_owned());
    }
    Ok(leaders.len())
}

/// Applies the inputs that are complete, and reports ended positions.
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
    advanced.context(ErrorCode::Replay.failed("the record does not replay"))?;
    told?;
    let mut failures = replay.take_failures().into_iter();
    failures.try_for_each(|failure| tell(Followed::Failed(Box::new(failure))))
}

fn add(replay: &mut Replay, epoch: Epoch, number: u64, bytes: &[u8]) -> Result<()> {
    let added = replay.add(epoch, number, bytes);
    added.context(ErrorCode::Replay.failed("the record does not replay"))
}
