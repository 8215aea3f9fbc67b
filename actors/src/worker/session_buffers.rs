//! Buffers of a session: ops, staged transfers, results.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use async_nats::Subject;
use bus_schemas::{
    Column, DESCRIPTOR_BYTES, DeviceResult, EventTime, ModuleHash, OpNumber, Parcel, ResultKind,
    Row, Spares, Tenant, decode, encode_into, limits,
};
use bytes::Bytes;
use device::{CopyBytes, OpSpan};

use super::copy_chunks::CopyChunks;
use super::event_times::EventTimes;

/// A slice that the device has not completed yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StartedSlice {
    pub(super) first: OpNumber,
    pub(super) last: OpNumber,
    /// Declarations of its ops, once the device has it.
    pub(super) declared: u64,
    pub(super) priority: u8,
    /// Time since which the device has it, if it has launches.
    pub(super) launches: Option<u64>,
}

/// Ops of one batch message that have not started yet.
#[derive(Debug)]
struct KeptBatch {
    bytes: Bytes,
    first: OpNumber,
    count: u32,
    descriptors: Range<usize>,
    blob: Range<usize>,
}

impl KeptBatch {
    /// Returns the payload bytes of the first `count` ops. A descriptor has the length of its own
    /// at byte 4.
    fn payloads(&self, count: u32) -> usize {
        let end = self.descriptors.start + count as usize * DESCRIPTOR_BYTES;
        self.bytes[self.descriptors.start..end]
            .chunks_exact(DESCRIPTOR_BYTES)
            .map(|row| u32::from_le_bytes([row[4], row[5], row[6], row[7]]) as usize)
            .sum()
    }

    /// Takes the first `count` ops out.
    fn split(&mut self, count: u32) -> (Range<usize>, Range<usize>) {
        let middle = self.descriptors.start + count as usize * DESCRIPTOR_BYTES;
        let cut = match count == self.count {
            true => self.blob.end,
            false => self.blob.start + self.payloads(count),
        };
        let taken = (self.descriptors.start..middle, self.blob.start..cut);
        self.descriptors.start = middle;
        self.blob.start = cut;
        self.first += u64::from(count);
        self.count -= count;
        taken
    }
}

/// A staged transfer's bytes.
#[derive(Debug)]
pub(super) enum Staging {
    /// Bytes are still arriving.
    Filling(Parcel),
    /// All bytes are here and being checked: the image of the module with this hash.
    Finishing(ModuleHash),
    /// All bytes are here; the chunks are being checked and kept.
    Keeping,
    /// Ready for the device.
    Whole(Arc<CopyBytes>),
}

impl Staging {
    fn bytes(&self) -> usize {
        match self {
            Self::Filling(bytes) => bytes.len(),
            Self::Whole(bytes) => bytes.len(),
            Self::Finishing(_) | Self::Keeping => 0,
        }
    }
}

/// A result that its client has not acknowledged.
#[derive(Debug)]
pub(super) struct KeptResult {
    pub(super) number: u64,
    pub(super) kind: ResultKind,
    /// Bytes of the whole result.
    pub(super) total: u64,
    /// The messages that carry it, without the times of events.
    pub(super) messages: Vec<Bytes>,
    pub(super) events: Vec<EventTime>,
}

impl KeptResult {
    /// Returns the messages to publish; the first one carries the times of events.
    pub(super) fn messages(&self) -> impl Iterator<Item = Bytes> {
        let timed = (!self.events.is_empty()).then(|| self.timed()).flatten();
        let skip = usize::from(timed.is_some());
        timed
            .into_iter()
            .chain(self.messages.iter().skip(skip).cloned())
    }

    fn timed(&self) -> Option<Bytes> {
        let mut rows = Vec::new();
        let bare: DeviceResult<'_> = decode(self.messages.first()?).ok()?;
        let message = DeviceResult {
            events: Column::pack(&self.events, &mut rows),
            ..bare
        };
        let times = self.events.len() * EventTime::SIZE;
        let mut bytes = Vec::with_capacity(message.bytes.len() + times + 80);
        encode_into(&message, &mut bytes);
        Some(bytes.into())
    }
}

/// Maximum number of event times kept in results that a client does not acknowledge.
const TIMED: usize = 16 * limits::EVENT_TIMES;

/// All data held for a session.
#[derive(Debug)]
pub(super) struct SessionBuffers {
    pub(super) tenant: Tenant,
    pub(super) acks: Subject,
    pub(super) answers: Subject,
    kept: VecDeque<KeptBatch>,
    pub(super) transfers: HashMap<u64, Staging>,
    /// Transfers offered by the hashes of their chunks that are not complete yet.
    pub(super) offered: HashMap<u64, CopyChunks>,
    pub(super) results: VecDeque<KeptResult>,
    /// Device time of the ops since the last result.
    pub(super) since_ns: u64,
    /// Times of events since the last result.
    pub(super) events: EventTimes,
    /// Number of event times in `results`.
    timed: usize,
    /// The slices that have started and not completed.
    pub(super) started: VecDeque<StartedSlice>,
}

impl SessionBuffers {
    pub(super) fn new(tenant: Tenant, acks: Subject, answers: Subject) -> Self {
        Self {
            tenant,
            acks,
            answers,
            kept: VecDeque::new(),
            transfers: HashMap::new(),
            offered: HashMap::new(),
            results: VecDeque::new(),
            since_ns: 0,
            events: EventTimes::default(),
            timed: 0,
            started: VecDeque::new(),
        }
    }

    /// Keeps `count` ops of a checked batch from index `skip` on; op `first` is the first.
    pub(super) fn keep(
        &mut self,
        bytes: Bytes,
        columns: (Range<usize>, Range<usize>),
        first: OpNumber,
        skip: u32,
        count: u32,
    ) {
        let (descriptors, blob) = columns;
        let all = (descriptors.len() / DESCRIPTOR_BYTES) as u32;
        let mut kept = KeptBatch {
            bytes,
            first: first - u64::from(skip),
            count: all,
            descriptors,
            blob,
        };
        if skip > 0 {
            kept.split(skip);
        }
        if count < kept.count {
            let (descriptors, blob) = kept.split(count);
            kept.first -= u64::from(count);
            (kept.count, kept.descriptors, kept.blob) = (count, descriptors, blob);
        }
        self.kept.push_back(kept);
    }

    /// Takes the ops `first..=last` as spans; they must be the next kept ones.
    pub(super) fn take(&mut self, first: OpNumber, last: OpNumber) -> Vec<OpSpan> {
        let mut spans = Vec::with_capacity(1);
        let mut next = first;
        while next <= last
            && let Some(kept) = self.kept.front_mut()
        {
            let count = (last + 1 - next).min(u64::from(kept.count)) as u32;
            debug_assert_eq!(kept.first, next, "ops are started in order");
            let (descriptors, blob) = kept.split(count);
            match OpSpan::new(kept.bytes.clone(), descriptors, blob, count) {
                Ok(span) => spans.push(span),
                Err(error) => tracing::error!(%error, "a kept batch was not checked"),
            }
            next += u64::from(count);
            if kept.count == 0 {
                self.kept.pop_front();
            }
        }
        spans
    }

    /// Notes that the device has the started slice from op `first` on, with its declarations, and
    /// the time if it has launches.
    pub(super) fn submitted(&mut self, first: OpNumber, declared: u64, launches: Option<u64>) {
        let mut started = self.started.iter_mut();
        if let Some(slice) = started.find(|slice| slice.first == first) {
            (slice.declared, slice.launches) = (declared, launches);
        }
    }

    /// Drops the ops through this number.
    pub(super) fn forget(&mut self, through: OpNumber) {
        while let Some(kept) = self.kept.front_mut() {
            let count = through.saturating_add(1).saturating_sub(kept.first);
            if count < u64::from(kept.count) {
                if count > 0 {
                    kept.split(count as u32);
                }
                return;
            }
            self.kept.pop_front();
        }
    }

    /// Drops what is staged; returns the number of bytes.
    pub(super) fn forget_transfers(&mut self) -> usize {
        self.offered = HashMap::new();
        let forgotten = std::mem::take(&mut self.transfers);
        forgotten.values().map(Staging::bytes).sum()
    }

    /// True if an image that the session sent is complete and being checked.
    pub(super) fn is_finishing(&self, hash: ModuleHash) -> bool {
        let mut transfers = self.transfers.values();
        transfers.any(|it| matches!(it, Staging::Finishing(image) if *image == hash))
    }

    /// Keeps a published result. If the client has left too many times of events unacknowledged,
    /// the oldest will not be sent again.
    pub(super) fn keep_result(&mut self, answer: KeptResult) {
        self.timed += answer.events.len();
        self.results.push_back(answer);
        let mut oldest = self.results.iter_mut();
        while self.timed > TIMED {
            let Some(answer) = oldest.next() else {
                return;
            };
            self.timed -= std::mem::take(&mut answer.events).len();
        }
    }

    /// Drops the results through this number, and recycles their memory.
    pub(super) fn forget_results(&mut self, through: u64, spares: &mut Spares) {
        while let Some(forgotten) = self.results.pop_front_if(|result| result.number <= through) {
            self.timed -= forgotten.events.len();
            let messages = forgotten.messages.into_iter();
            messages.for_each(|message| spares.take_back(message));
        }
    }
}

#[cfg(test)]
mod tests {
    use bus_schemas::{Op, write_descriptor};

    use super::*;

    /// A batch of one-byte copies; each copies its op number.
    fn batch(first: u8, count: u8) -> (Bytes, (Range<usize>, Range<usize>)) {
        let (mut bytes, mut blob) = (Vec::new(), Vec::new());
        for op in first..first + count {
            let copy = Op::CopyIn {
                address: 0,
                bytes: u64::from(op),
                transfer: 0,
            };
            write_descriptor(&copy, 0, u32::from(op), &mut bytes);
            blob.extend(std::iter::repeat_n(op, usize::from(op)));
        }
        let split = bytes.len();
        bytes.extend_from_slice(&blob);
        let end = bytes.len();
        (bytes.into(), (0..split, split..end))
    }

    fn held() -> SessionBuffers {
        SessionBuffers::new("a".parse().unwrap(), "acks".into(), "answers".into())
    }

    fn ops(spans: &[OpSpan]) -> Vec<u8> {
        let payloads = spans.iter().flat_map(|span| span.ops().iter());
        let checked = payloads.inspect(|op| {
            assert!(op.payload.iter().all(|byte| *byte == op.payload[0]));
            assert_eq!(op.payload.len(), usize::from(op.payload[0]));
        });
        checked.map(|op| op.payload[0]).collect()
    }

    #[test]
    fn slices_cut_across_batches_and_carry_their_own_payloads() {
        let mut held = held();
        let (bytes, columns) = batch(1, 5);
        held.keep(bytes, columns, 1, 0, 5);
        let (bytes, columns) = batch(3, 9);
        held.keep(bytes, columns, 6, 3, 4);
        assert_eq!(ops(&held.take(1, 2)), [1, 2]);
        assert_eq!(ops(&held.take(3, 7)), [3, 4, 5, 6, 7]);
        assert_eq!(ops(&held.take(8, 9)), [8, 9]);
        assert!(held.kept.is_empty());
    }

    #[test]
    fn times_of_events_that_nobody_acknowledges_are_bounded() {
        let mut held = held();
        let times = |ns| EventTime { event: 0, ns };
        for number in 1..=20 {
            held.keep_result(KeptResult {
                number,
                kind: ResultKind::Sync,
                total: 0,
                messages: Vec::new(),
                events: vec![times(number); limits::EVENT_TIMES],
            });
        }
        let has = |held: &SessionBuffers| -> Vec<u64> {
            let timed = held.results.iter().filter(|it| !it.events.is_empty());
            timed.map(|answer| answer.number).collect()
        };
        assert_eq!(has(&held), (5..=20).collect::<Vec<_>>(), "the newest");
        held.forget_results(18, &mut Spares::default());
        assert_eq!(
            (has(&held), held.timed),
            (vec![19, 20], 2 * limits::EVENT_TIMES)
        );
    }

    #[test]
    fn forgetting_cuts_where_it_must() {
        let mut held = held();
        let (bytes, columns) = batch(1, 5);
        held.keep(bytes, columns, 1, 0, 5);
        held.forget(2);
        assert_eq!(ops(&held.take(3, 4)), [3, 4]);
        held.forget(u64::MAX);
        assert!(held.kept.is_empty());
    }
}
