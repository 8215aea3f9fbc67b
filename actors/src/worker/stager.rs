//! The stager: a thread that joins and hashes module images of many megabytes, hashes and keeps the
//! chunks of large copies, and gives memory back to the host. None of it must keep the worker from the bus.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use actix::Recipient;
use bus_schemas::limits::CONTENT_BYTES;
use bus_schemas::{ContentHash, ModuleHash, Parcel, SessionId};
use device::{Chunk, Keeper, SharingDomain};
use gpu_worker_core::content::ChunkId;

use super::copy_chunks::CopyChunks;

/// Images of at most this many bytes are checked on the spot.
const SMALL: usize = 64 << 10;

/// An image all of whose bytes are here.
pub(super) struct Job {
    pub(super) session: SessionId,
    pub(super) transfer: u64,
    pub(super) bytes: Parcel,
    pub(super) module: ModuleHash,
}

/// An image in its final form.
pub(super) struct Finished {
    pub(super) session: SessionId,
    pub(super) transfer: u64,
    pub(super) bytes: Arc<[u8]>,
    pub(super) module: ModuleHash,
    /// Whether the bytes are those of its hash.
    pub(super) genuine: bool,
}

impl actix::Message for Finished {
    type Result = ();
}

/// A transfer all of whose bytes are here, to be kept by its chunks.
pub(super) struct KeepJob {
    pub(super) session: SessionId,
    pub(super) transfer: u64,
    pub(super) bytes: Parcel,
    pub(super) chunks: CopyChunks,
    /// Of each chunk, one with its id that is kept already, maybe of others: to compare with.
    pub(super) candidates: Vec<Option<Arc<dyn Chunk>>>,
    pub(super) domain: Option<SharingDomain>,
    pub(super) keeper: Arc<dyn Keeper>,
}

/// A transfer's chunks.
pub(super) struct Kept {
    pub(super) session: SessionId,
    pub(super) transfer: u64,
    /// What came.
    pub(super) bytes: Parcel,
    /// None where the bytes are not those of the hashes.
    pub(super) chunks: Option<Vec<Arc<dyn Chunk>>>,
    /// Those of them that were sent: the others are no proof that the tenant has them.
    pub(super) sent: Vec<(ChunkId, Arc<dyn Chunk>)>,
}

impl actix::Message for Kept {
    type Result = ();
}

impl KeepJob {
    fn finish(self) -> Kept {
        let mut sent = Vec::new();
        let CopyChunks { ids, here } = &self.chunks;
        let starts = (0..).step_by(CONTENT_BYTES);
        let chunks = ids.iter().zip(here).zip(&self.candidates).zip(starts);
        let chunks = chunks.map(|(((id, here), candidate), start)| {
            if here.is_some() {
                return here.clone();
            }
            let chunk = self.check(id, start, candidate.as_ref())?;
            sent.push((*id, Arc::clone(&chunk)));
            Some(chunk)
        });
        Kept {
            chunks: chunks.collect(),
            sent,
            session: self.session,
            transfer: self.transfer,
            bytes: self.bytes,
        }
    }

    /// The chunk that came at an offset, if it has the bytes of its hash.
    fn check(
        &self,
        id: &ChunkId,
        start: usize,
        candidate: Option<&Arc<dyn Chunk>>,
    ) -> Option<Arc<dyn Chunk>> {
        let pieces = || self.bytes.slices(start, id.bytes as usize);
        if ContentHash::of(pieces()) != id.hash {
            return None;
        }
        let same = candidate.filter(|chunk| is_equal(chunk.bytes(), pieces()));
        let keep = || self.keeper.keep(self.domain, &mut pieces());
        Some(same.map_or_else(keep, Arc::clone))
    }
}

fn is_equal<'p>(mut bytes: &[u8], pieces: impl Iterator<Item = &'p [u8]>) -> bool {
    for piece in pieces {
        match bytes.strip_prefix(piece) {
            Some(rest) => bytes = rest,
            None => return false,
        }
    }
    bytes.is_empty()
}

impl Job {
    fn finish(self) -> Finished {
        let bytes = self.bytes.to_vec();
        Finished {
            session: self.session,
            transfer: self.transfer,
            genuine: ModuleHash::of(&bytes) == self.module,
            bytes: bytes.into(),
            module: self.module,
        }
    }
}

/// What the thread does.
enum Task {
    Finish(Job),
    Keep(KeepJob),
    Drop(Vec<Arc<dyn Chunk>>),
    GiveBack,
}

/// The thread. Dropping it ends it.
pub(super) struct Stager {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Stager {
    pub(super) fn start(to: Recipient<Finished>, kept: Recipient<Kept>) -> std::io::Result<Self> {
        let (tasks, received) = mpsc::channel::<Task>();
        let thread = std::thread::Builder::new()
            .name("stager".into())
            .spawn(move || {
                for task in received {
                    match task {
                        // Jobs are bounded by the bytes that may be staged, so their answers are.
                        Task::Finish(job) => to.do_send(job.finish()),
                        Task::Keep(job) => kept.do_send(job.finish()),
                        Task::Drop(chunks) => drop(chunks),
                        Task::GiveBack => give_back(),
                    }
                }
            })?;
        Ok(Self {
            tasks: Some(tasks),
            thread: Some(thread),
        })
    }

    /// Finishes an image at once if it is small, else soon.
    pub(super) fn finish(&self, job: Job) -> Option<Finished> {
        if job.bytes.len() <= SMALL {
            return Some(job.finish());
        }
        self.send(Task::Finish(job));
        None
    }

    /// Checks a transfer's chunks and keeps them, soon.
    pub(super) fn keep(&self, job: KeepJob) {
        self.send(Task::Keep(job));
    }

    /// Lets go of chunks, soon: their memory goes back to the host, which takes a while.
    pub(super) fn drop_chunks(&self, chunks: Vec<Arc<dyn Chunk>>) {
        if !chunks.is_empty() {
            self.send(Task::Drop(chunks));
        }
    }

    /// Much that was staged is not needed any more: the host gets its memory back, soon.
    pub(super) fn give_back(&self) {
        self.send(Task::GiveBack);
    }

    fn send(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // The thread ends only when this end is dropped.
            let _ = tasks.send(task);
        }
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported where it happened.
            let _ = thread.join();
        }
    }
}

/// Has the C library's allocator return to the host what is free: chunks of transfers are too small for
/// it to do so by itself while anything behind them is in use.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "the allocator's memory maps are the C library's"
)]
fn give_back() {
    // SAFETY: it takes no pointers, and may be called at any time by any thread.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Other allocators return what is free by themselves.
#[cfg(not(target_env = "gnu"))]
fn give_back() {}
