//! The bytes of sessions: ops and staged transfers.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use bus_schemas::{DESCRIPTOR_BYTES, Launch, Op, OpNumber, Parcel, SessionId, Spares};
use bytes::Bytes;
use device::{Chunk, CopyBytes, OpSpan};
use gpu_worker_core::dispatch::{LaunchNeeds, ModuleBytes};
use gpu_worker_core::worker::{BatchPart, Buffers, CheckedImage, SentImage};

use super::names::{Module, Names};
use super::stager::{Job, Stager};

/// Session data of this many bytes is returned to the host when the session ends.
const MUCH: usize = 64 << 20;

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

/// The bytes of one session.
#[derive(Debug, Default)]
struct Held {
    batches: VecDeque<KeptBatch>,
    transfers: HashMap<u64, CopyBytes>,
}

impl Held {
    /// Keeps `count` ops of a checked batch from index `skip` on; op `first` is the first.
    fn keep(
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
        self.batches.push_back(kept);
    }

    /// Takes the ops `first..=last` as spans; they must be the next kept ones.
    fn take(&mut self, first: OpNumber, last: OpNumber) -> Vec<OpSpan> {
        let mut spans = Vec::with_capacity(1);
        let mut next = first;
        while next <= last
            && let Some(kept) = self.batches.front_mut()
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
                self.batches.pop_front();
            }
        }
        spans
    }

    /// Drops the ops through this number.
    fn forget(&mut self, through: OpNumber) {
        while let Some(kept) = self.batches.front_mut() {
            let count = through.saturating_add(1).saturating_sub(kept.first);
            if count < u64::from(kept.count) {
                if count > 0 {
                    kept.split(count as u32);
                }
                return;
            }
            self.batches.pop_front();
        }
    }
}

/// The bytes of all sessions.
pub(super) struct SessionBuffers {
    sessions: HashMap<SessionId, Held>,
    spares: Arc<Mutex<Spares>>,
    stager: Rc<Stager>,
    names: Names,
}

impl SessionBuffers {
    pub(super) fn new(spares: Arc<Mutex<Spares>>, stager: Rc<Stager>) -> Self {
        Self {
            sessions: HashMap::new(),
            spares,
            stager,
            names: Names::default(),
        }
    }

    /// The names of the kernels that the scans have met.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// Takes the received bytes of a transfer.
    pub(super) fn take_received(&mut self, session: SessionId, transfer: u64) -> Option<Parcel> {
        let held = self.sessions.get_mut(&session)?;
        match held.transfers.remove(&transfer)? {
            CopyBytes::Sent(bytes) => Some(bytes),
            CopyBytes::Kept(_) => None,
        }
    }

    /// Takes back the memory of received bytes.
    pub(super) fn take_apart(&self, bytes: Parcel) {
        self.spares().take_apart(bytes);
    }

    fn spares(&self) -> std::sync::MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buffers for SessionBuffers {
    type Payload = Bytes;
    type Ops = Vec<OpSpan>;
    type Module = Arc<Module>;
    type Image = Arc<[u8]>;
    type Staged = Arc<CopyBytes>;
    type Chunk = Arc<dyn Chunk>;

    fn keep(&mut self, session: SessionId, part: BatchPart<'_, Bytes>) {
        let (payload, batch) = (part.payload, part.batch);
        let columns = (
            place(payload, batch.descriptors),
            place(payload, batch.blob),
        );
        debug_assert_eq!(columns.0.len(), batch.count as usize * DESCRIPTOR_BYTES);
        let held = self.sessions.entry(session).or_default();
        held.keep(payload.clone(), columns, part.first, part.skip, part.count);
    }

    fn take(&mut self, session: SessionId, first: OpNumber, last: OpNumber) -> Vec<OpSpan> {
        let held = self.sessions.get_mut(&session);
        held.map_or_else(Vec::new, |held| held.take(first, last))
    }

    fn forget(&mut self, session: SessionId, through: OpNumber) {
        if let Some(held) = self.sessions.get_mut(&session) {
            held.forget(through);
        }
    }

    fn store(&mut self, session: SessionId, transfer: u64, total: u64, offset: u64, bytes: &[u8]) {
        let Self {
            sessions, spares, ..
        } = self;
        let held = sessions.entry(session).or_default();
        let staged = held.transfers.entry(transfer).or_insert_with(|| {
            let mut spares = spares.lock().unwrap_or_else(PoisonError::into_inner);
            CopyBytes::Sent(spares.parcel(total as usize))
        });
        if let CopyBytes::Sent(parcel) = staged
            && parcel.len() as u64 == total
        {
            parcel.write(offset as usize, bytes);
        }
    }

    fn place(&mut self, session: SessionId, transfer: u64, chunks: Vec<Arc<dyn Chunk>>) {
        let held = self.sessions.entry(session).or_default();
        held.transfers.insert(transfer, CopyBytes::Kept(chunks));
    }

    fn is_used(chunk: &Arc<dyn Chunk>) -> bool {
        Arc::strong_count(chunk) > 1
    }

    fn check(&mut self, sent: SentImage) -> Option<CheckedImage<Arc<[u8]>>> {
        let held = self.sessions.get_mut(&sent.session)?;
        match held.transfers.remove(&sent.transfer)? {
            CopyBytes::Sent(bytes) => self.stager.check(Job { sent, bytes }),
            CopyBytes::Kept(_) => None,
        }
    }

    fn take_staged(&mut self, session: SessionId, transfer: u64) -> Option<Arc<CopyBytes>> {
        let held = self.sessions.get_mut(&session)?;
        held.transfers.remove(&transfer).map(Arc::new)
    }

    fn fingerprint(&self, session: SessionId, transfer: u64) -> Option<u64> {
        let held = self.sessions.get(&session)?;
        held.transfers.get(&transfer).map(CopyBytes::fingerprint)
    }

    fn drop_transfers(&mut self, session: SessionId) {
        let Some(held) = self.sessions.get_mut(&session) else {
            return;
        };
        let forgotten = std::mem::take(&mut held.transfers);
        let bytes: usize = forgotten.values().map(CopyBytes::len).sum();
        drop(forgotten);
        if bytes >= MUCH {
            self.stager.give_back();
        }
    }

    fn recycle(&mut self, message: Bytes) {
        self.spares().take_back(message);
    }

    fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    fn ops(&self, ops: &Vec<OpSpan>) -> impl Iterator<Item = Op> {
        let ops = ops.iter().flat_map(|span| span.ops().iter());
        ops.map(|op| op.op)
    }

    fn module_bytes(&self, module: &Arc<Module>) -> ModuleBytes {
        module.bytes()
    }

    fn kernel(&self, module: &Arc<Module>, launch: &Launch) -> Option<LaunchNeeds> {
        let kernel = module.kernel(launch)?;
        self.names
            .note(kernel.key, || module.name(kernel.key, launch));
        Some(kernel)
    }
}

/// Returns the place in the payload of a column that was borrowed from it.
fn place(payload: &[u8], column: &[u8]) -> Range<usize> {
    let start = (column.as_ptr() as usize).saturating_sub(payload.as_ptr() as usize);
    if column.is_empty() {
        return 0..0;
    }
    start..start + column.len()
}

#[cfg(test)]
mod tests {
    use bus_schemas::write_descriptor;

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
        let mut held = Held::default();
        let (bytes, columns) = batch(1, 5);
        held.keep(bytes, columns, 1, 0, 5);
        let (bytes, columns) = batch(3, 9);
        held.keep(bytes, columns, 6, 3, 4);
        assert_eq!(ops(&held.take(1, 2)), [1, 2]);
        assert_eq!(ops(&held.take(3, 7)), [3, 4, 5, 6, 7]);
        assert_eq!(ops(&held.take(8, 9)), [8, 9]);
        assert!(held.batches.is_empty());
    }

    #[test]
    fn forgetting_cuts_where_it_must() {
        let mut held = Held::default();
        let (bytes, columns) = batch(1, 5);
        held.keep(bytes, columns, 1, 0, 5);
        held.forget(2);
        assert_eq!(ops(&held.take(3, 4)), [3, 4]);
        held.forget(u64::MAX);
        assert!(held.batches.is_empty());
    }
}
