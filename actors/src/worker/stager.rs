//! The stager: a thread that joins and hashes module images of many megabytes, hashes and keeps the
//! chunks of large copies, and returns memory to the host. None of that may keep the worker from
//! the bus.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use actix::Recipient;
use bus_schemas::limits::CONTENT_BYTES;
use bus_schemas::{ContentHash, ModuleHash, Parcel};
use device::{Chunk, Keeper};
use gpu_worker_core::content::{ChunkId, CopyChunks};
use gpu_worker_core::worker::{ArrivedChunks, CheckedChunks, CheckedImage, SentImage};

/// Maximum bytes of an image that is checked at once.
const SMALL: usize = 64 << 10;

/// An image with all of its bytes received.
pub(super) struct Job {
    pub(super) sent: SentImage,
    pub(super) bytes: Parcel,
}

/// An image in its final form.
pub(super) struct Checked(pub(super) CheckedImage<Arc<[u8]>>);

impl actix::Message for Checked {
    type Result = ();
}

/// A transfer with all of its bytes received, to be kept in chunks.
pub(super) struct KeepJob {
    pub(super) bytes: Parcel,
    pub(super) arrived: ArrivedChunks<Arc<dyn Chunk>>,
    pub(super) keeper: Arc<dyn Keeper>,
}

/// A transfer's chunks.
pub(super) struct Kept {
    /// The received bytes.
    pub(super) bytes: Parcel,
    pub(super) checked: CheckedChunks<Arc<dyn Chunk>>,
}

impl actix::Message for Kept {
    type Result = ();
}

impl KeepJob {
    fn finish(self) -> Kept {
        let mut sent = Vec::new();
        let CopyChunks { ids, here } = &self.arrived.chunks;
        let candidates = &self.arrived.candidates;
        // The core has compared the number of bytes with that of the ids.
        let starts = (0..).step_by(CONTENT_BYTES);
        let chunks = ids.iter().zip(here).zip(candidates).zip(starts);
        let chunks = chunks.map(|(((id, here), candidate), start)| {
            if here.is_some() {
                return here.clone();
            }
            let chunk = self.check(id, start, candidate.as_ref())?;
            sent.push((*id, Arc::clone(&chunk)));
            Some(chunk)
        });
        let chunks = chunks.collect();
        Kept {
            checked: CheckedChunks {
                session: self.arrived.session,
                transfer: self.arrived.transfer,
                chunks,
                sent,
            },
            bytes: self.bytes,
        }
    }

    /// Returns the chunk received at an offset, if its bytes match its hash.
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
        let keep = || self.keeper.keep(self.arrived.domain, &mut pieces());
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
    fn check(self) -> CheckedImage<Arc<[u8]>> {
        let bytes = self.bytes.to_vec();
        CheckedImage {
            sent: self.sent,
            is_genuine: ModuleHash::of(&bytes) == self.sent.hash,
            len: bytes.len() as u64,
            bytes: bytes.into(),
        }
    }
}

/// A task of the thread.
enum Task {
    Check(Job),
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
    pub(super) fn start(to: Recipient<Checked>, kept: Recipient<Kept>) -> std::io::Result<Self> {
        let (tasks, received) = mpsc::channel::<Task>();
        let thread = std::thread::Builder::new()
            .name("stager".into())
            .spawn(move || {
                for task in received {
                    match task {
                        // The bytes that may be staged bound the number of jobs, and so that of
                        // their answers.
                        Task::Check(job) => to.do_send(Checked(job.check())),
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

    /// True if the thread has died: a check panicked.
    pub(super) fn is_dead(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }

    /// Checks a small image at once, others in the background.
    pub(super) fn check(&self, job: Job) -> Option<CheckedImage<Arc<[u8]>>> {
        if job.bytes.len() <= SMALL {
            return Some(job.check());
        }
        self.send(Task::Check(job));
        None
    }

    /// Checks and keeps a transfer's chunks in the background.
    pub(super) fn keep(&self, job: KeepJob) {
        self.send(Task::Keep(job));
    }

    /// Drops chunks in the background, because returning their memory to the host takes a while.
    pub(super) fn drop_chunks(&self, chunks: Vec<Arc<dyn Chunk>>) {
        if !chunks.is_empty() {
            self.send(Task::Drop(chunks));
        }
    }

    /// Returns memory of staged data to the host in the background.
    pub(super) fn give_back(&self) {
        self.send(Task::GiveBack);
    }

    fn send(&self, task: Task) {
        if let Some(tasks) = &self.tasks {
            // The thread ends only when this sender is dropped.
            let _ = tasks.send(task);
        }
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported.
            let _ = thread.join();
        }
    }
}

/// Has the C library's allocator return free memory to the host. Chunks of transfers are too small
/// for it to do so by itself while anything behind them is in use.
#[cfg(target_env = "gnu")]
#[expect(
    unsafe_code,
    reason = "the allocator's memory maps are the C library's"
)]
fn give_back() {
    // SAFETY: it takes no pointers, and may be called at any time by any thread.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Other allocators return free memory by themselves.
#[cfg(not(target_env = "gnu"))]
fn give_back() {}

#[cfg(test)]
mod tests {
    use actix::{Actor, Context, Handler};
    use bus_schemas::SessionId;
    use device::HostKeeper;

    use super::*;

    struct Deaf;

    impl Actor for Deaf {
        type Context = Context<Self>;
    }

    impl Handler<Checked> for Deaf {
        type Result = ();

        fn handle(&mut self, _: Checked, _: &mut Self::Context) {}
    }

    impl Handler<Kept> for Deaf {
        type Result = ();

        fn handle(&mut self, _: Kept, _: &mut Self::Context) {}
    }

    #[test]
    fn a_check_that_panics_is_noticed() {
        actix::System::new().block_on(async {
            let deaf = Deaf.start();
            let stager = Stager::start(deaf.clone().recipient(), deaf.recipient()).unwrap();
            assert!(!stager.is_dead());
            let id = ChunkId {
                hash: ContentHash::of([&[1, 2][..]]),
                bytes: 2,
            };
            // The core lets no such job through: fewer bytes than the ids say.
            stager.keep(KeepJob {
                bytes: Parcel::from(&[1][..]),
                arrived: ArrivedChunks {
                    session: SessionId(1),
                    transfer: 1,
                    chunks: CopyChunks {
                        ids: vec![id],
                        here: vec![None],
                    },
                    candidates: vec![None],
                    domain: None,
                },
                keeper: Arc::new(HostKeeper),
            });
            while !stager.is_dead() {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        });
    }
}
