//! Puts whole transfers into their final form on a thread of its own: copying and hashing many
//! megabytes must not keep the worker from the bus.

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use actix::Recipient;
use bus_schemas::{ModuleHash, SessionId};

/// Transfers of at most this many bytes are finished on the spot.
const SMALL: usize = 64 << 10;

/// A transfer all of whose bytes are here.
pub(super) struct Job {
    pub(super) session: SessionId,
    pub(super) transfer: u64,
    pub(super) bytes: Vec<u8>,
    /// The image's hash, if it is one.
    pub(super) module: Option<ModuleHash>,
}

/// A transfer in its final form.
pub(super) struct Finished {
    pub(super) session: SessionId,
    pub(super) transfer: u64,
    pub(super) bytes: Arc<[u8]>,
    pub(super) module: Option<ModuleHash>,
    /// Whether a module's bytes are those of its hash.
    pub(super) genuine: bool,
}

impl actix::Message for Finished {
    type Result = ();
}

impl Job {
    fn finish(self) -> Finished {
        let genuine = self
            .module
            .is_none_or(|hash| ModuleHash::of(&self.bytes) == hash);
        Finished {
            session: self.session,
            transfer: self.transfer,
            bytes: self.bytes.into(),
            module: self.module,
            genuine,
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

    /// Finishes a job at once if it is small, else soon.
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
