//! The cut of the record: the leader's process replays the old part off the launch path, which
//! needs no leader. Then it writes an anchor, and purges the blocks before the epoch that the
//! replay has reached.

use std::rc::Rc;
use std::time::Duration;

use async_nats::jetstream::consumer::{DeliverPolicy, pull};
use async_nats::jetstream::{self, stream};
use bus_schemas::Epoch;
use bus_schemas::subject::Subjects;
use futures_util::StreamExt;
use scheduler_leader_core::replay::{Anchor, Replay};

use super::gateway::Router;
use crate::host_clock::since_1970;
use crate::repeated::Repeated;
use storage::{EpochDays, Storage, Stored};

/// Interval of the checks.
const LOOK: Duration = Duration::from_secs(2);
/// Maximum time for the stream to deliver the next block.
const STALL: Duration = Duration::from_secs(5);
/// Bytes of blocks that are replayed at a time.
const PART: usize = 1 << 20;
/// Percent of the record's limit at which the record is cut, and down to which.
const CUT: (u64, u64) = (70, 50);

/// An anchor and the place of the epoch after it.
struct Found {
    anchor: Anchor,
    /// Sequence of that epoch's first block.
    sequence: u64,
    /// Bytes of the blocks before it.
    bytes: u64,
    /// Time at which that block was stored, seconds since 1970.
    stored: u64,
}

/// The record as far as it has been replayed.
struct Reader {
    /// `None` if a replay failed: the reader cannot go on.
    replay: Option<Replay>,
    /// The epoch that is being read, 0 before the first.
    epoch: Epoch,
    /// Lowest sequence that its next block can have.
    next: u64,
    /// Bytes of the blocks that were read.
    bytes: u64,
    /// The term that is being read, and its beginning.
    begins: Option<(Epoch, Begins)>,
    found: Vec<Found>,
    /// Activity of devices, for the report by day.
    days: EpochDays,
    /// Time at which the stream was created, nanoseconds since 1970.
    created: i128,
    /// Sequence of the stream's first message, as this reader knows it.
    first: u64,
    /// A purge that may have happened: the sequence up to which, and the bytes before it.
    purging: Option<(u64, u64)>,
}

/// The place of a term's first block.
#[derive(Clone, Copy)]
struct Begins {
    sequence: u64,
    bytes: u64,
    stored: u64,
}

/// Checks periodically while the candidate leads, and cuts an excess; never returns. The reader
/// outlives errors of the broker and a time without the lease, for it may have days that it could
/// not store.
pub(super) async fn watch(storage: Storage, subjects: Subjects, router: Rc<Router>) {
    let (mut reader, mut repeated) = (None, Repeated::default());
    loop {
        tokio::time::sleep(LOOK).await;
        if !router.leading.get() {
            continue;
        }
        let age = router.record_age.get();
        match look(&storage, &subjects, &mut reader, age).await {
            Ok(()) => {
                repeated.is_over();
            }
            Err(error) => {
                reader.take_if(|reader| reader.replay.is_none());
                if let Some(unsaid) = repeated.happened(std::time::Instant::now()) {
                    tracing::warn!(error, unsaid, "the record cannot be cut");
                }
            }
        }
    }
}

/// Cuts the excess of the record.
async fn look(
    storage: &Storage,
    subjects: &Subjects,
    reader: &mut Option<Reader>,
    age: u64,
) -> Result<(), String> {
    let name = storage.name(Stored::Record);
    let stream = storage.jetstream().get_stream(&name).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let info = stream.cached_info();
    let Some((bytes, before)) = too_much(info, age) else {
        return Ok(());
    };
    // If another leader cut the record, blocks may be gone that this reader has not read.
    reader.take_if(|reader| !reader.continues(info));
    let reader = match reader {
        Some(reader) => reader,
        None => reader.insert(Reader::start(&stream, subjects).await?),
    };
    match reader.reach((&stream, subjects), bytes, before).await? {
        Some(cut) => reader.cut(storage, subjects, &stream, (cut, age)).await,
        None => Ok(()),
    }
}

/// Returns the bytes to remove and the time before which blocks are too old; `None` if the record
/// needs no cut.
fn too_much(info: &stream::Info, age: u64) -> Option<(u64, u64)> {
    let limit = u64::try_from(info.config.max_bytes).unwrap_or(0).max(1);
    let oldest = u64::try_from(info.state.first_timestamp.unix_timestamp()).unwrap_or(0);
    let now = since_1970().as_secs();
    let old = info.state.messages > 0 && oldest.saturating_add(age) < now;
    let large = info.state.bytes > limit / 100 * CUT.0;
    match large {
        true => Some((info.state.bytes.saturating_sub(limit / 100 * CUT.1), 0)),
        false => old.then(|| (0, now.saturating_sub(age))),
    }
}

impl Reader {
    /// Starts at the first block in the stream, with the stored anchors.
    async fn start(stream: &stream::Stream, subjects: &Subjects) -> Result<Self, String> {
        let mut replay = Replay::forgetful().explaining();
        for message in read(stream, 0, Some(subjects.record(Anchor::EPOCH))).await? {
            let (epoch, number) = named(&message)?;
            let added = replay.add(epoch, number, &message.payload);
            added.map_err(|error| error.to_string())?;
        }
        Ok(Self {
            replay: Some(replay),
            epoch: 0,
            next: 1,
            bytes: 0,
            begins: None,
            found: Vec::new(),
            days: EpochDays::default(),
            created: stream.cached_info().created.unix_timestamp_nanos(),
            first: stream.cached_info().state.first_sequence,
            purging: None,
        })
    }

    /// Returns true if the stream is the same, begins where this reader left it, and still has the
    /// blocks that were read. A broker that lost its disk has another stream.
    fn continues(&mut self, info: &stream::Info) -> bool {
        let (first, last) = (info.state.first_sequence, info.state.last_sequence);
        if self.purging.is_some_and(|(before, _)| before == first) {
            self.note_purge();
        }
        let same = info.created.unix_timestamp_nanos() == self.created;
        same && first == self.first && last + 1 >= self.next
    }

    /// Notes that the purge has happened.
    fn note_purge(&mut self) {
        let Some((before, bytes)) = self.purging.take() else {
            return;
        };
        self.first = before;
        self.bytes -= bytes;
        for later in &mut self.found {
            later.bytes -= bytes;
        }
        if let Some((_, at)) = &mut self.begins {
            at.bytes = at.bytes.saturating_sub(bytes);
        }
    }

    /// Replays until it finds an anchor with at least `bytes` before it. With `bytes` 0, the anchor
    /// must have no block after it that was stored before `before`.
    async fn reach(
        &mut self,
        (stream, subjects): (&stream::Stream, &Subjects),
        bytes: u64,
        before: u64,
    ) -> Result<Option<Found>, String> {
        let enough = |found: &Found| match bytes {
            0 => found.stored >= before,
            bytes => found.bytes >= bytes,
        };
        loop {
            if let Some(at) = self.found.iter().position(enough) {
                // By age, it is better to cut one epoch too few than one too many.
                let at = at.saturating_sub(usize::from(bytes == 0));
                return Ok(self.found.drain(..=at).next_back());
            }
            if !self.part(stream, subjects).await? {
                // No better anchor exists yet.
                let best = self.found.pop();
                self.found.clear();
                return Ok(best.filter(|_| bytes > 0));
            }
        }
    }

    /// Replays the next blocks: all of an epoch before those of the next one, at any place in the
    /// stream. True if there were any.
    async fn part(&mut self, stream: &stream::Stream, subjects: &Subjects) -> Result<bool, String> {
        let mut messages = Vec::new();
        if self.epoch > 0 {
            messages = read_part(stream, self.next, subjects.record(self.epoch)).await?;
        }
        if messages.is_empty() {
            let epochs = storage::epochs(stream, subjects).await?;
            let Some(epoch) = epochs.into_iter().find(|epoch| *epoch > self.epoch) else {
                return Ok(false);
            };
            (self.epoch, self.next) = (epoch, 1);
            return Ok(true);
        }
        let (mut part, mut next, mut bytes) = (Vec::new(), self.next, self.bytes);
        for message in messages {
            let info = message.info().map_err(|error| error.to_string())?;
            let (epoch, number) = named(&message)?;
            let at = Begins {
                sequence: info.stream_sequence,
                bytes,
                stored: u64::try_from(info.published.unix_timestamp()).unwrap_or(0),
            };
            next = info.stream_sequence + 1;
            bytes += (message.payload.len() + 128) as u64;
            part.push((epoch, number, message.payload.to_vec(), at));
        }
        self.replay_part(part).await?;
        (self.next, self.bytes) = (next, bytes);
        Ok(true)
    }

    /// Replays blocks, and collects the anchors that they lead to.
    async fn replay_part(
        &mut self,
        part: Vec<(Epoch, u64, Vec<u8>, Begins)>,
    ) -> Result<(), String> {
        let mut replay = self.replay.take().ok_or("its replay failed before")?;
        let mut begins = self.begins;
        let replayed = tokio::task::spawn_blocking(move || {
            let mut found = Vec::<Found>::new();
            for (epoch, number, bytes, at) in part {
                replay.add(epoch, number, &bytes)?;
                if begins.is_none_or(|(of, _)| of < epoch) {
                    begins = Some((epoch, at));
                }
                replay.advance(|_| {})?;
                if let (Some(anchor), Some((epoch, at))) = (replay.anchor(), begins)
                    && anchor.epoch == epoch
                    && found.last().is_none_or(|last| last.anchor.epoch < epoch)
                {
                    found.push(Found {
                        anchor: anchor.clone(),
                        sequence: at.sequence,
                        bytes: at.bytes,
                        stored: at.stored,
                    });
                }
            }
            Ok::<_, scheduler_leader_core::replay::ReplayError>((replay, begins, found))
        });
        let (replay, begins, found) = replayed
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| format!("it does not replay: {error}"))?;
        (self.replay, self.begins) = (Some(replay), begins);
        for found in found {
            let known = self.found.last().map(|last| last.anchor.epoch);
            if known.is_none_or(|known| known < found.anchor.epoch) {
                self.found.push(found);
            }
        }
        Ok(())
    }

    /// Stores an anchor and purges the blocks before the epoch after it, if they are still too
    /// much. The replay took time, and the limit may have been raised.
    async fn cut(
        &mut self,
        storage: &Storage,
        subjects: &Subjects,
        stream: &stream::Stream,
        (found, age): (Found, u64),
    ) -> Result<(), String> {
        let anchor = &found.anchor;
        if found.sequence <= stream.cached_info().state.first_sequence {
            return Ok(());
        }
        let id = format!("{}.{}.{}", anchor.epoch, anchor.leader, Anchor::NUMBER);
        let (subject, bytes) = (
            subjects.record(Anchor::EPOCH).into(),
            anchor.encode().into(),
        );
        crate::stream::append(storage, Stored::Record, subject, &id, bytes).await?;
        let info = stream.get_info().await.map_err(|error| error.to_string())?;
        if too_much(&info, age).is_none() {
            return Ok(());
        }
        self.keep_days(storage, anchor.epoch).await;
        let before = first_of(stream, subjects, &found).await?;
        self.purging = Some((before, found.bytes));
        let purged = stream.purge().sequence(before).await;
        purged.map_err(|error| error.to_string())?;
        self.note_purge();
        let (epoch, positions) = (anchor.epoch, anchor.positions);
        tracing::info!(epoch, positions, "the record is cut off before this epoch");
        Ok(())
    }

    /// Takes the activity of devices from the replay, beside the thread that serves launches.
    async fn update_days(&mut self) -> Result<(), String> {
        let mut replay = self.replay.take().ok_or("its replay failed before")?;
        let known = tokio::task::spawn_blocking(move || {
            let days = replay.device_days_before_epochs();
            (replay, days)
        });
        let (replay, days) = known.await.map_err(|error| error.to_string())?;
        self.replay = Some(replay);
        self.days.update(days);
        Ok(())
    }

    /// Keeps the activity of devices in the part to be cut off. A failure of this report must not
    /// prevent the cut, without which the record would soon have no room.
    async fn keep_days(&mut self, storage: &Storage, before: Epoch) {
        if let Err(error) = self.update_days().await {
            tracing::warn!(before, error, "what devices did is not known");
            return;
        }
        let kept = match storage.bucket(Stored::Control).await {
            Ok(bucket) => self.days.keep(&bucket, before).await,
            Err(error) => Err(error),
        };
        match (kept, &mut self.replay) {
            (Ok(()), Some(replay)) => replay.merge_device_days(before),
            (Ok(()), None) => {}
            (Err(error), _) => tracing::warn!(
                before,
                error,
                "what devices did before this epoch is not kept"
            ),
        }
    }
}

/// Returns the place of the first block to keep: of the found epoch, or of a later one that was
/// stored before it.
async fn first_of(
    stream: &stream::Stream,
    subjects: &Subjects,
    found: &Found,
) -> Result<u64, String> {
    let mut first = found.sequence;
    let epochs = storage::epochs(stream, subjects).await?;
    for epoch in epochs.into_iter().filter(|it| *it > found.anchor.epoch) {
        let subject = subjects.record(epoch);
        let message = stream.get_first_raw_message_by_subject(subject, 1).await;
        first = first.min(message.map_err(|error| error.to_string())?.sequence);
    }
    Ok(first)
}

/// Parses a block's message id: `<epoch>.<leader>.<number>`.
fn named(message: &jetstream::Message) -> Result<(Epoch, u64), String> {
    let headers = message.headers.as_ref();
    let id = headers.and_then(|headers| headers.get("Nats-Msg-Id"));
    let id = id.map(|id| id.as_str()).unwrap_or_default();
    let mut parts = id.split('.');
    let epoch = parts.next().and_then(|epoch| epoch.parse().ok());
    let number = parts.nth(1).and_then(|number| number.parse().ok());
    match (epoch, number) {
        (Some(epoch), Some(number)) => Ok((epoch, number)),
        _ => Err(format!("{id:?} names no block")),
    }
}

/// Reads all messages of one subject.
async fn read(
    stream: &stream::Stream,
    from: u64,
    subject: Option<String>,
) -> Result<Vec<jetstream::Message>, String> {
    consume(stream, from, subject, usize::MAX).await
}

/// Reads the messages of one subject from a sequence on, up to [`PART`] bytes.
async fn read_part(
    stream: &stream::Stream,
    from: u64,
    subject: String,
) -> Result<Vec<jetstream::Message>, String> {
    consume(stream, from, Some(subject), PART).await
}

async fn consume(
    stream: &stream::Stream,
    from: u64,
    subject: Option<String>,
    bytes: usize,
) -> Result<Vec<jetstream::Message>, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let config = pull::OrderedConfig {
        deliver_policy: match from {
            0 => DeliverPolicy::All,
            start_sequence => DeliverPolicy::ByStartSequence { start_sequence },
        },
        filter_subject: subject.unwrap_or_default(),
        ..Default::default()
    };
    let consumer = stream.create_consumer(config).await;
    let consumer = consumer.map_err(|error| text(&error))?;
    let mut left = consumer.cached_info().num_pending;
    let mut messages = consumer.messages().await.map_err(|error| text(&error))?;
    let (mut read, mut size) = (Vec::new(), 0);
    while left > 0 && size < bytes {
        let next = tokio::time::timeout(STALL, messages.next()).await;
        let message = next.map_err(|_| "the record's stream stalls")?;
        let message = message.ok_or("the record's stream ends early")?;
        let message = message.map_err(|error| text(&error))?;
        left -= 1;
        size += message.payload.len();
        read.push(message);
    }
    Ok(read)
}
