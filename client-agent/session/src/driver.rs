//! The driver of a connection's tasks: the client's own thread, or any thread that waits for an
//! answer.
//!
//! Otherwise a thread that waits for an answer would sleep while another one reads the socket and
//! wakes it. These two thread switches cost as much as a message's path through the broker. So a
//! waiting thread drives the connection itself. The client's own thread drives only if no thread
//! has waited for a while.

use std::cell::Cell;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

use crate::changes::note_memory_change;
use crate::wait;

/// Time after the last wait at which the client's own thread drives again.
const KEEP: Duration = Duration::from_micros(300);
/// Time that it sleeps while one wait goes on; the thread that ends that wait wakes it.
const DEEP: Duration = Duration::from_millis(50);

thread_local! {
    /// True if this thread drives, or waits for its turn to drive.
    static HERE: Cell<bool> = const { Cell::new(false) };
}

/// State shared by the client's own thread and the waiting threads.
struct Shared {
    // Taken out when the client is dropped; each waiting thread holds it for reading.
    runtime: RwLock<Option<Runtime>>,
    handle: Handle,
    clock: Instant,
    /// Number of threads that drive or wait for their turn.
    waiters: AtomicUsize,
    /// Number of waits begun so far.
    begun: AtomicU64,
    /// The time at which the last wait ended, nanoseconds of `clock`.
    ended: AtomicU64,
    /// True while the client's own thread drives.
    own: AtomicBool,
    /// True while it sleeps for long.
    deep: AtomicBool,
    /// True if it must drive at once.
    kicked: AtomicBool,
    stop: AtomicBool,
    /// Tells it to leave driving to another thread.
    release: Notify,
    thread: OnceLock<Thread>,
}

/// The driver of one client, shared by its channels.
#[derive(Clone)]
pub struct Driver(Arc<Shared>);

impl Driver {
    /// Starts the client's own thread. `begins` runs on each further thread that the runtime starts
    /// for name lookups, because such a thread inherits from the thread that drives at the time.
    pub fn start(
        begins: impl Fn() + Send + Sync + 'static,
    ) -> std::io::Result<(Self, JoinHandle<()>)> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_start(begins)
            .build()?;
        let shared = Arc::new(Shared {
            handle: runtime.handle().clone(),
            runtime: RwLock::new(Some(runtime)),
            clock: Instant::now(),
            waiters: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            own: AtomicBool::new(false),
            deep: AtomicBool::new(false),
            kicked: AtomicBool::new(true),
            stop: AtomicBool::new(false),
            release: Notify::new(),
            thread: OnceLock::new(),
        });
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("warploom-bus".into())
            .spawn(move || theirs.serve())?;
        // Set once, here.
        let _ = shared.thread.set(thread.thread().clone());
        Ok((Self(shared), thread))
    }

    /// Handle of the runtime on which the connection's tasks run.
    pub fn handle(&self) -> &Handle {
        &self.0.handle
    }

    /// Runs a future on the calling thread, which drives the connection meanwhile. Within a runtime
    /// of the caller, the thread sleeps instead.
    pub fn wait<F: Future>(&self, future: F) -> F::Output {
        let output = self.drive(future);
        note_memory_change();
        output
    }

    fn drive<F: Future>(&self, future: F) -> F::Output {
        let shared = &self.0;
        let within = match Handle::try_current() {
            Ok(_) => true,
            // A thread that runs the exit handlers of its process cannot drive a runtime.
            Err(error) => error.is_thread_local_destroyed(),
        };
        if within || HERE.get() {
            self.kick();
            return wait::block_on(future);
        }
        let runtime = shared
            .runtime
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(runtime) = &*runtime else {
            // The client is gone: everything is answered.
            return wait::block_on(future);
        };
        let _turn = Turn::begin(shared);
        runtime.block_on(future)
    }

    /// Makes sure that a thread drives: a message is left to be sent, and its caller does not wait.
    pub fn kick(&self) {
        let shared = &self.0;
        if shared.own.load(Ordering::SeqCst) || shared.waiters.load(Ordering::SeqCst) > 0 {
            return;
        }
        if !shared.kicked.swap(true, Ordering::SeqCst) {
            shared.wake();
        }
    }

    /// Ends the connection and all its tasks; waits for the threads that drive.
    pub fn stop(&self) {
        let shared = &self.0;
        shared.stop.store(true, Ordering::SeqCst);
        shared.release.notify_one();
        shared.wake();
        let runtime = shared
            .runtime
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(runtime) = runtime {
            // Allowed anywhere, within a runtime of the caller too.
            runtime.shutdown_background();
        }
    }
}

/// Marks a thread that drives or waits for its turn, until this is dropped. A panic drops it too;
/// otherwise no thread would ever drive again.
struct Turn<'w>(&'w Shared);

impl<'w> Turn<'w> {
    fn begin(shared: &'w Shared) -> Self {
        shared.waiters.fetch_add(1, Ordering::SeqCst);
        shared.begun.fetch_add(1, Ordering::Relaxed);
        if shared.own.load(Ordering::SeqCst) {
            shared.release.notify_one();
        }
        HERE.set(true);
        Self(shared)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let shared = self.0;
        HERE.set(false);
        shared.ended.store(shared.now(), Ordering::Relaxed);
        shared.waiters.fetch_sub(1, Ordering::SeqCst);
        if shared.deep.load(Ordering::SeqCst) {
            shared.wake();
        }
    }
}

impl Shared {
    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Runs the client's own thread.
    fn serve(&self) {
        while !self.stop.load(Ordering::SeqCst) {
            self.drive();
            self.rest();
        }
    }

    fn drive(&self) {
        let runtime = self.runtime.read().unwrap_or_else(PoisonError::into_inner);
        let Some(runtime) = &*runtime else {
            return;
        };
        self.own.store(true, Ordering::SeqCst);
        // A thread that began to wait before it could see this flag already drives when we try to.
        runtime.block_on(async {
            self.release.notified().await;
            // Messages that the waiting thread has just published leave before it takes over.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
        });
        self.own.store(false, Ordering::SeqCst);
    }

    /// Sleeps while others drive.
    fn rest(&self) {
        let mut before = u64::MAX;
        loop {
            if self.stop.load(Ordering::SeqCst) || self.kicked.swap(false, Ordering::SeqCst) {
                return;
            }
            let begun = self.begun.load(Ordering::Relaxed);
            if self.waiters.load(Ordering::SeqCst) == 0 {
                let ended = Duration::from_nanos(self.ended.load(Ordering::Relaxed));
                let idle = self.clock.elapsed().saturating_sub(ended);
                if idle >= KEEP {
                    return;
                }
                thread::park_timeout(KEEP - idle);
            } else if begun == before {
                // The same wait as last time: it may take long.
                self.deep.store(true, Ordering::SeqCst);
                if self.waiters.load(Ordering::SeqCst) > 0 {
                    thread::park_timeout(DEEP);
                }
                self.deep.store(false, Ordering::SeqCst);
            } else {
                thread::park_timeout(KEEP);
            }
            before = begun;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn a_wait_that_panics_leaves_driving_to_others() {
        let (driver, thread) = Driver::start(|| {}).expect("a thread");
        let panics = || driver.wait(async { panic!("as a test wants it") });
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(driver.0.waiters.load(Ordering::SeqCst), 0);
        // Without a wait, only the client's own thread drives.
        let (sender, receiver) = std::sync::mpsc::channel();
        let task = driver.handle().spawn(async move { sender.send(()) });
        driver.kick();
        receiver.recv().expect("it ran");
        drop(task);
        driver.stop();
        thread.join().expect("it ends");
    }
}
