//! Checks module images on a thread of its own: joining and hashing many megabytes must not keep the
//! worker from the bus.

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

/// The thread. Dropping it ends it.
pub(super) struct Stager {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Stager {
    pub(super) fn start(told: Recipient<Finished>) -> std::io::Result<Self> {
        let (jobs, received) = mpsc::channel::<Job>();
        let thread = std::thread::Builder::new()
            .name("stager".into())
            .spawn(move || {
                for job in received {
                    // Jobs are bounded by the bytes that may be staged, so their answers are.
                    told.do_send(job.finish());
                }
            })?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Finishes an image at once if it is small, else soon.
    pub(super) fn finish(&self, job: Job) -> Option<Finished> {
        if job.bytes.len() <= SMALL {
            return Some(job.finish());
        }
        if let Some(jobs) = &self.jobs {
            // The thread ends only when this end is dropped.
            let _ = jobs.send(job);
        }
        None
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported where it happened.
            let _ = thread.join();
        }
    }
}
