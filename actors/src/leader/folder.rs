//! The folding of old usage to days: the leader's process writes blocks that replace a worker's
//! blocks of a day, and then removes those. Readers skip the blocks that a folded one replaces.
//! After a crash between the two steps usage is not counted twice, and the next pass removes the
//! rest.

use std::rc::Rc;
use std::time::{Duration, Instant};

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::{self, stream};
use bus_schemas::subject::Subjects;
use bus_schemas::{Fold, Folded, UsageBlock, decode, encode, usage_day};
use futures_util::{StreamExt, TryStreamExt};

use super::gateway::Router;
use crate::host_clock::ms_since_1970;
use crate::repeated::Repeated;
use storage::{Storage, Stored};

/// Interval of the checks whether a pass is due.
const ASK: Duration = Duration::from_secs(2);
/// Interval of passes, unless the setting changes or a pass failed.
const LOOK: Duration = Duration::from_secs(3600);
/// Pause after a failed pass.
const AGAIN: Duration = Duration::from_secs(60);
/// Maximum time for the stream to deliver the next block.
const STALL: Duration = Duration::from_secs(5);
/// Bytes of blocks that are folded at a time, off the launch path.
const PART: usize = 1 << 20;

/// Checks periodically while the candidate leads, and folds old usage; never returns.
pub(super) async fn watch(storage: Storage, subjects: Subjects, router: Rc<Router>) {
    let (mut due, mut known) = (None, None);
    let mut repeated = Repeated::default();
    loop {
        tokio::time::sleep(ASK).await;
        let age = router.usage_age.get();
        if !router.leading.get() || age == u64::MAX {
            known = None;
            continue;
        }
        if known == Some(age) && due.is_some_and(|due| Instant::now() < due) {
            continue;
        }
        known = Some(age);
        // Only days that end before this time.
        let before = usage_day(ms_since_1970().saturating_sub(age.saturating_mul(1_000)));
        let looked = look(&storage, &subjects, before).await;
        due = Some(Instant::now() + looked.as_ref().map_or(AGAIN, |()| LOOK));
        match looked {
            Ok(()) => {
                repeated.is_over();
            }
            Err(error) => {
                if let Some(unsaid) = repeated.happened(Instant::now()) {
                    tracing::warn!(error, unsaid, "old usage cannot be folded");
                }
            }
        }
    }
}

/// Folds the blocks that were cut before the given day, worker by worker.
async fn look(storage: &Storage, subjects: &Subjects, before: u64) -> Result<(), String> {
    let name = storage.name(Stored::Usage);
    let stream = storage.jetstream().get_stream(&name).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let days = subjects.usage_days();
    let has = stream.info_with_subjects(subjects.usage_blocks_all()).await;
    let has = has.map_err(|error| error.to_string())?;
    let has: Vec<(String, usize)> = has.try_collect().await.map_err(|error| error.to_string())?;
    if has.iter().all(|(subject, _)| *subject == days) {
        return Ok(());
    }
    let mut folded = Folded::default();
    let mut pages = Pages::open(&stream, &days).await?;
    while let Some((block, _)) = pages.next().await? {
        folded.take(block);
    }
    for (subject, _) in has.iter().filter(|(subject, _)| *subject != days) {
        fold(storage, &stream, (subject, &days), &folded, before).await?;
    }
    Ok(())
}

/// Folds one worker's old blocks: writes their replacements, and removes them once those are
/// acknowledged.
async fn fold(
    storage: &Storage,
    stream: &stream::Stream,
    (subject, days): (&str, &str),
    folded: &Folded,
    before: u64,
) -> Result<(), String> {
    let mut pages = Pages::open(stream, subject).await?;
    let (mut fold, mut part, mut size) = (Fold::default(), Vec::new(), 0);
    let mut last = None;
    while let Some((block, bytes)) = pages.next().await? {
        if usage_day(block.at_ms) >= before {
            break;
        }
        last = Some(pages.sequence);
        // Left by a leader that died before it had removed it.
        if folded.covers(&block) {
            continue;
        }
        part.push(block);
        size += bytes;
        if size >= PART {
            fold = add(fold, std::mem::take(&mut part)).await?;
            size = 0;
        }
    }
    let Some(last) = last else {
        return Ok(());
    };
    let blocks = add(fold, part).await?.finish();
    for block in &blocks {
        let id = format!("{}.{}-{}", block.incarnation, block.begins(), block.number);
        let bytes = encode(block).into();
        crate::stream::append(storage, Stored::Usage, days.to_owned().into(), &id, bytes).await?;
    }
    let purge = stream.purge().sequence(last + 1).filter(subject);
    let purged = purge.await.map_err(|error| error.to_string())?.purged;
    let days = blocks.len();
    tracing::info!(subject, purged, days, "old usage is folded");
    Ok(())
}

async fn add(mut fold: Fold, part: Vec<UsageBlock>) -> Result<Fold, String> {
    let added = tokio::task::spawn_blocking(move || {
        part.into_iter().for_each(|block| fold.add(block));
        fold
    });
    added.await.map_err(|error| error.to_string())
}

/// The blocks of one subject, up to the last one at the start.
struct Pages {
    messages: jetstream::consumer::pull::Ordered,
    left: u64,
    /// Sequence of the last block read.
    sequence: u64,
}

impl Pages {
    async fn open(stream: &stream::Stream, subject: &str) -> Result<Self, String> {
        let config = pull::OrderedConfig {
            deliver_policy: DeliverPolicy::All,
            filter_subject: subject.to_owned(),
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await;
        let consumer = consumer.map_err(|error| error.to_string())?;
        let left = consumer.cached_info().num_pending;
        let messages = consumer
            .messages()
            .await
            .map_err(|error| error.to_string())?;
        Ok(Self {
            messages,
            left,
            sequence: 0,
        })
    }

    /// Returns the next block and its size in bytes.
    async fn next(&mut self) -> Result<Option<(UsageBlock, usize)>, String> {
        if self.left == 0 {
            return Ok(None);
        }
        let next = tokio::time::timeout(STALL, self.messages.next()).await;
        let message = next.map_err(|_| "the usage stream stalls")?;
        let message = message.ok_or("the usage stream ends early")?;
        let message = message.map_err(|error| error.to_string())?;
        let info = message.info().map_err(|error| error.to_string())?;
        (self.left, self.sequence) = (info.pending, info.stream_sequence);
        let block = decode::<UsageBlock>(&message.payload);
        let block = block.map_err(|error| format!("{}: {error}", message.subject))?;
        Ok(Some((block, message.payload.len())))
    }
}
