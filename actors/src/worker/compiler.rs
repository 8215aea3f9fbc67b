//! The compiler: prepares images on threads of their own, if the device supports that. Neither the
//! bus nor running work waits for a new module, and no tenant waits for another's.
//!
//! Each tenant has one image in preparation at a time, on a thread that yields to the device's; the
//! system shares the processor among these threads. The cost of an image is bounded. An image that
//! no session wants any more is given up.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bus_schemas::{Code, Failure, ModuleHash, Tenant};
use device::{Compiler, Halt, PreparedModule, Watch};
use rustix::time::{ClockId, clock_gettime};

use super::device_event::DeviceEvent;

/// Maximum number of images in preparation; further tenants take turns.
const THREADS: usize = 32;
/// Niceness of the threads relative to the device's thread.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

/// Limits for the preparation of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Seconds of processor time.
    pub seconds: u64,
    /// Bytes of memory.
    pub bytes: u64,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            seconds: 60,
            bytes: 1 << 30,
        }
    }
}

/// An image to prepare.
struct Job {
    tenant: Tenant,
    hash: ModuleHash,
    image: Arc<[u8]>,
    /// Set when no session wants the image any more.
    stop: Arc<AtomicBool>,
}

#[derive(Default)]
struct Table {
    waiting: VecDeque<Job>,
    /// Tenant, image and stop flag of each image in preparation.
    running: Vec<(Tenant, ModuleHash, Arc<AtomicBool>)>,
}

impl Table {
    /// Takes the next image of a tenant that has none in preparation.
    fn next(&mut self) -> Option<Job> {
        if self.running.len() >= THREADS {
            return None;
        }
        let running = &self.running;
        let free = |job: &Job| running.iter().all(|(tenant, ..)| *tenant != job.tenant);
        let at = self.waiting.iter().position(free)?;
        let job = self.waiting.remove(at)?;
        let entry = (job.tenant.clone(), job.hash, Arc::clone(&job.stop));
        self.running.push(entry);
        Some(job)
    }
}

struct Shared {
    table: Mutex<Table>,
    compiler: Arc<dyn Compiler>,
    send: SendEvents,
    limits: CompileLimits,
}

/// Sends events to the actor.
pub(super) type SendEvents = Box<dyn Fn(&mut Vec<DeviceEvent>) + Send + Sync>;

/// The handle of the threads. Dropping it gives up all images in preparation.
pub(super) struct CompilerThreads(Arc<Shared>);

impl CompilerThreads {
    pub(super) fn new(
        compiler: Arc<dyn Compiler>,
        send: SendEvents,
        limits: CompileLimits,
    ) -> Self {
        Self(Arc::new(Shared {
            table: Mutex::default(),
            compiler,
            send,
            limits,
        }))
    }

    /// Drops the result for an image.
    pub(super) fn forget(&self, hash: ModuleHash) {
        self.0.compiler.forget(hash);
    }

    /// Prepares a tenant's image in the background; [`DeviceEvent::Prepared`] brings the result.
    pub(super) fn compile(&self, tenant: Tenant, hash: ModuleHash, image: Arc<[u8]>) {
        let stop = Arc::default();
        let job = Job {
            tenant,
            hash,
            image,
            stop,
        };
        let next = {
            let mut table = self.0.table();
            table.waiting.push_back(job);
            table.next()
        };
        let Some(job) = next else { return };
        let (tenant, hash) = (job.tenant.clone(), job.hash);
        let shared = Arc::clone(&self.0);
        let started = std::thread::Builder::new()
            .name("compiler".into())
            .spawn(move || shared.run(job));
        if let Err(error) = started {
            let why = format!("no thread to prepare the module: {error}");
            let failure = Failure::new(Code::Device, why);
            self.0.end(&tenant, hash);
            (self.0.send)(&mut vec![DeviceEvent::Prepared(hash, Err(failure))]);
        }
    }

    /// Gives an image up: it causes no more events.
    pub(super) fn cancel(&self, hash: ModuleHash) {
        self.0.table().cancel(|of| of == hash);
    }
}

impl Table {
    fn cancel(&mut self, gone: impl Fn(ModuleHash) -> bool) {
        self.waiting.retain(|job| !gone(job.hash));
        for (_, _, stop) in self.running.iter().filter(|(_, hash, _)| gone(*hash)) {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for CompilerThreads {
    fn drop(&mut self) {
        self.0.table().cancel(|_| true);
    }
}

impl Shared {
    // A thread that panicked with the lock left the table unchanged, or with one entry changed.
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, tenant: &Tenant, hash: ModuleHash) -> Option<Job> {
        let mut table = self.table();
        let this = |(of, image, _): &(Tenant, ModuleHash, _)| of == tenant && *image == hash;
        if let Some(at) = table.running.iter().position(this) {
            table.running.swap_remove(at);
        }
        table.next()
    }

    /// Prepares images one after the other until none is left for this thread.
    fn run(&self, first: Job) {
        yield_to_others();
        let mut next = Some(first);
        while let Some(job) = next {
            let began = spent();
            let answer = self.prepare(&job);
            let took = spent().saturating_sub(began);
            let mut events = vec![DeviceEvent::Compiled(job.tenant.clone(), took)];
            if !job.stop.load(Ordering::Relaxed) {
                events.push(DeviceEvent::Prepared(job.hash, answer));
            } else if answer.is_ok() {
                // It became ready after it was given up, and has no user.
                self.compiler.forget(job.hash);
            }
            (self.send)(&mut events);
            next = self.end(&job.tenant, job.hash);
        }
    }

    fn prepare(&self, job: &Job) -> Result<PreparedModule, Failure> {
        let watch = ImageWatch {
            stop: &job.stop,
            limits: self.limits,
            began: spent(),
            bytes: AtomicU64::new(job.image.len() as u64),
        };
        // An image that breaks the compiler gives its sender an error, and other images are still
        // prepared.
        let compiled = || self.compiler.compile(job.hash, &job.image, &watch);
        catch_unwind(AssertUnwindSafe(compiled)).unwrap_or_else(|_| {
            let why = "the image broke the compiler";
            Err(Failure::new(Code::BadModule, why))
        })
    }
}

/// The watch over the preparation of one image.
struct ImageWatch<'j> {
    stop: &'j AtomicBool,
    limits: CompileLimits,
    began: Duration,
    bytes: AtomicU64,
}

impl Watch for ImageWatch<'_> {
    fn goes_on(&self, bytes: u64) -> Result<(), Halt> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Halt::Unwanted);
        }
        let CompileLimits {
            seconds,
            bytes: most,
        } = self.limits;
        let held = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if held.saturating_add(bytes) > most {
            return Err(Halt::Bytes(most));
        }
        if spent().saturating_sub(self.began) >= Duration::from_secs(seconds) {
            return Err(Halt::Seconds(seconds));
        }
        Ok(())
    }
}

/// Returns the processor time of this thread.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// Lowers this thread's priority below those that run kernels and serve the bus.
fn yield_to_others() {
    // On other systems this would affect the whole process.
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::nice(NICE) {
        tracing::debug!(%error, "images are prepared as urgently as kernels run");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// A compiler that calls its watch until that stops it, for images that begin with `!`; others
    /// are ready at once.
    struct Endless;

    impl Compiler for Endless {
        fn compile(
            &self,
            _: ModuleHash,
            image: &[u8],
            watch: &dyn Watch,
        ) -> Result<PreparedModule, Failure> {
            while image.starts_with(b"!") {
                let halted = |halt: Halt| Failure::new(Code::ModuleLimit, halt.to_string());
                watch.goes_on(1 << 10).map_err(halted)?;
            }
            Ok(PreparedModule {
                functions: Vec::new(),
                bytes: 0,
                variables: 0,
                heap: 0,
                compiled: None,
            })
        }

        fn forget(&self, _: ModuleHash) {}
    }

    const TIMEOUT: Duration = Duration::from_secs(60);

    fn threads(limits: CompileLimits) -> (CompilerThreads, Receiver<DeviceEvent>) {
        let (send, events) = channel();
        let send = Box::new(move |events: &mut Vec<DeviceEvent>| {
            events.drain(..).for_each(|event| drop(send.send(event)));
        });
        (
            CompilerThreads::new(Arc::new(Endless), send, limits),
            events,
        )
    }

    fn compile(threads: &CompilerThreads, tenant: &str, image: &str) -> ModuleHash {
        let hash = ModuleHash::of(image.as_bytes());
        threads.compile(tenant.parse().unwrap(), hash, image.as_bytes().into());
        hash
    }

    /// Waits for the next answer about an image.
    fn prepared(events: &Receiver<DeviceEvent>) -> (ModuleHash, Result<(), Code>) {
        loop {
            if let DeviceEvent::Prepared(hash, answer) =
                events.recv_timeout(TIMEOUT).expect("an answer")
            {
                return (hash, answer.map(drop).map_err(|failure| failure.code));
            }
        }
    }

    const ENDLESS: CompileLimits = CompileLimits {
        seconds: u64::MAX,
        bytes: u64::MAX,
    };

    #[test]
    fn no_tenant_waits_for_anothers_image() {
        let (threads, events) = threads(ENDLESS);
        let stuck = compile(&threads, "a", "!");
        let behind = compile(&threads, "a", "behind it");
        let other = compile(&threads, "b", "another's");
        assert_eq!(prepared(&events), (other, Ok(())));
        assert_eq!(
            threads.0.table().waiting.len(),
            1,
            "one image of a tenant at a time"
        );
        threads.cancel(stuck);
        assert_eq!(
            prepared(&events),
            (behind, Ok(())),
            "and nothing of what was given up"
        );
    }

    #[test]
    fn what_was_given_up_is_charged() {
        let (threads, events) = threads(ENDLESS);
        let stuck = compile(&threads, "a", "!");
        threads.cancel(stuck);
        let event = events.recv_timeout(TIMEOUT).expect("charged");
        assert!(matches!(event, DeviceEvent::Compiled(tenant, _) if tenant.as_str() == "a"));
    }

    #[test]
    fn an_image_ends_at_its_limits_and_with_the_worker() {
        let limits = CompileLimits {
            bytes: 1 << 20,
            ..ENDLESS
        };
        let (bounded, events) = threads(limits);
        let image = compile(&bounded, "a", "!");
        assert_eq!(prepared(&events), (image, Err(Code::ModuleLimit)));
        let limits = CompileLimits {
            seconds: 0,
            ..ENDLESS
        };
        let (bounded, events) = threads(limits);
        let image = compile(&bounded, "a", "!");
        assert_eq!(prepared(&events), (image, Err(Code::ModuleLimit)));
        let (dropped, events) = threads(ENDLESS);
        compile(&dropped, "a", "!");
        drop(dropped);
        while events.recv_timeout(TIMEOUT).is_ok() {}
    }
}
