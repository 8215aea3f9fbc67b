//! The stager: a thread that joins and hashes module images of many megabytes, and gives memory back
//! to the host. Neither must keep the worker from the bus.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use actix::Recipient;
use bus_schemas::{ModuleHash, Parcel, SessionId};

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
    GiveBack,
}

/// The thread. Dropping it ends it.
pub(super) struct Stager {
    tasks: Option<Sender<Task>>,
    thread: Option<JoinHandle<()>>,
}

impl Stager {
    pub(super) fn start(to: Recipient<Finished>) -> std::io::Result<Self> {
        let (tasks, received) = mpsc::channel::<Task>();
        let thread = std::thread::Builder::new()
            .name("stager".into())
            .spawn(move || {
                for task in received {
                    match task {
                        // Jobs are bounded by the bytes that may be staged, so their answers are.
                        Task::Finish(job) => to.do_send(job.finish()),
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
