//! The bytes of a simulated worker's sessions.

use std::collections::BTreeMap;
use std::rc::Rc;

use bus_schemas::limits::CONTENT_BYTES;
use bus_schemas::{ContentHash, Launch, ModuleHash, Op, OpNumber, SessionId};
use bytes::Bytes;
use gpu_worker_core::content::CopyChunks;
use gpu_worker_core::dispatch::{LaunchNeeds, ModuleBytes};
use gpu_worker_core::worker::{
    ArrivedChunks, BatchPart, Buffers, CheckedChunks, CheckedImage, SentImage,
};

use super::device::SimDevice;

/// The bytes of a transfer.
enum Staged {
    /// As they were received.
    Sent(Vec<u8>),
    /// All chunks of an offered copy.
    Kept(Vec<Rc<[u8]>>),
}

/// The bytes of one session.
struct Kept<O> {
    ops: BTreeMap<OpNumber, O>,
    transfers: BTreeMap<u64, Staged>,
}

impl<O> Default for Kept<O> {
    fn default() -> Self {
        Self {
            ops: BTreeMap::new(),
            transfers: BTreeMap::new(),
        }
    }
}

/// The bytes of all sessions. On the modelled device a module has any number of functions, and their blocks
/// take no memory.
pub(super) struct SimBuffers<D: SimDevice> {
    sessions: BTreeMap<SessionId, Kept<D::Op>>,
    /// The form of an op in which a mutant shows it to the dispatch.
    bend: fn(Op) -> Op,
    /// A broken promise of the worker.
    broken: Option<&'static str>,
}

impl<D: SimDevice> SimBuffers<D> {
    pub(super) fn new(bend: fn(Op) -> Op) -> Self {
        Self {
            sessions: BTreeMap::new(),
            bend,
            broken: None,
        }
    }

    /// Takes the promise that the worker has broken, if it has.
    pub(super) fn take_broken(&mut self) -> Option<&'static str> {
        self.broken.take()
    }

    /// Checks the chunks of an offered transfer once all of its bytes have arrived.
    pub(super) fn check_chunks(
        &mut self,
        arrived: ArrivedChunks<Rc<[u8]>>,
    ) -> CheckedChunks<Rc<[u8]>> {
        let (session, transfer) = (arrived.session, arrived.transfer);
        let received = self.take_staged(session, transfer).unwrap_or_default();
        if received.len() as u64 != arrived.chunks.bytes() {
            self.broken = Some("checked other bytes than were offered");
        }
        let mut sent = Vec::new();
        let CopyChunks { ids, here } = arrived.chunks;
        let rows = ids.iter().zip(here).zip(arrived.candidates);
        let chunks = rows.enumerate().map(|(index, ((id, here), candidate))| {
            if here.is_some() {
                return here;
            }
            let bytes = received.chunks(CONTENT_BYTES).nth(index)?;
            if ContentHash::of([bytes]) != id.hash {
                return None;
            }
            let same = candidate.filter(|chunk| **chunk == *bytes);
            let chunk = same.unwrap_or_else(|| bytes.into());
            sent.push((*id, Rc::clone(&chunk)));
            Some(chunk)
        });
        CheckedChunks {
            chunks: chunks.collect(),
            session,
            transfer,
            sent,
        }
    }
}

impl<D: SimDevice> Buffers for SimBuffers<D> {
    type Payload = Rc<[u8]>;
    type Ops = Vec<D::Op>;
    type Module = ModuleHash;
    // The device has no use for the bytes of an image, only for their number.
    type Image = u64;
    type Staged = Vec<u8>;
    type Chunk = Rc<[u8]>;
    const SCANS: bool = D::SCANS;

    fn keep(&mut self, session: SessionId, part: BatchPart<'_, Rc<[u8]>>) {
        let kept = self.sessions.entry(session).or_default();
        let before = kept.ops.len();
        let ops = part.ops.iter().skip(part.skip as usize);
        let ops = ops.take(part.count as usize).map(|op| D::keep(&op));
        kept.ops.extend((part.first..).zip(ops));
        if kept.ops.len() != before + part.count as usize {
            self.broken = Some("kept what was not sent, or twice");
        }
    }

    fn take(&mut self, session: SessionId, first: OpNumber, last: OpNumber) -> Vec<D::Op> {
        let kept = self.sessions.entry(session).or_default();
        let ops: Vec<_> = (first..=last)
            .map_while(|number| kept.ops.get(&number).cloned())
            .collect();
        if ops.len() as u64 != last + 1 - first {
            self.broken = Some("started a slice of ops that are not all kept");
        }
        ops
    }

    fn forget(&mut self, session: SessionId, through: OpNumber) {
        if let Some(kept) = self.sessions.get_mut(&session) {
            let later = kept.ops.split_off(&through.saturating_add(1));
            kept.ops = if through == OpNumber::MAX {
                BTreeMap::new()
            } else {
                later
            };
        }
    }

    fn store(&mut self, session: SessionId, transfer: u64, total: u64, offset: u64, bytes: &[u8]) {
        let kept = self.sessions.entry(session).or_default();
        let empty = || Staged::Sent(Vec::new());
        let staged = kept.transfers.entry(transfer).or_insert_with(empty);
        let Staged::Sent(buffer) = staged else {
            self.broken = Some("stored a part of a transfer that was whole");
            return;
        };
        buffer.resize(total as usize, 0);
        match buffer.get_mut(offset as usize..offset as usize + bytes.len()) {
            Some(part) => part.copy_from_slice(bytes),
            None => self.broken = Some("stored a chunk outside its transfer"),
        }
    }

    fn place(&mut self, session: SessionId, transfer: u64, chunks: Vec<Rc<[u8]>>) {
        let kept = self.sessions.entry(session).or_default();
        kept.transfers.insert(transfer, Staged::Kept(chunks));
    }

    fn is_used(chunk: &Rc<[u8]>) -> bool {
        Rc::strong_count(chunk) > 1
    }

    fn check(&mut self, sent: SentImage) -> Option<CheckedImage<u64>> {
        let bytes = self.take_staged(sent.session, sent.transfer)?;
        let len = bytes.len() as u64;
        Some(CheckedImage {
            sent,
            is_genuine: ModuleHash::of(&bytes) == sent.hash,
            len,
            bytes: len,
        })
    }

    fn take_staged(&mut self, session: SessionId, transfer: u64) -> Option<Vec<u8>> {
        let kept = self.sessions.get_mut(&session)?;
        Some(match kept.transfers.remove(&transfer)? {
            Staged::Sent(bytes) => bytes,
            Staged::Kept(chunks) => chunks.concat(),
        })
    }

    fn fingerprint(&self, _: SessionId, _: u64) -> Option<u64> {
        None
    }

    fn drop_transfers(&mut self, session: SessionId) {
        if let Some(kept) = self.sessions.get_mut(&session) {
            kept.transfers.clear();
        }
    }

    fn recycle(&mut self, _: Bytes) {}

    fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
    }

    fn ops(&self, ops: &Vec<D::Op>) -> impl Iterator<Item = Op> {
        ops.iter().map(|op| (self.bend)(D::op(op)))
    }

    fn module_bytes(&self, _: &ModuleHash) -> ModuleBytes {
        ModuleBytes::default()
    }

    fn kernel(&self, module: &ModuleHash, launch: &Launch) -> Option<LaunchNeeds> {
        Some(LaunchNeeds {
            key: D::key(module, launch),
            block: 0,
        })
    }
}
