//! The driver as a whole, and the frame of each call: who calls, what it costs, if it fails, how long it waits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Nanos;
use crate::codes::{INVALID_CONTEXT, NOT_INITIALIZED, SUCCESS};
use crate::costs::Costs;
use crate::effects::{self, Effect};
use crate::gpu::Gpu;
use crate::journal::{Journal, LoggedCall, index};
use crate::memory::Memory;
use crate::modules::{Link, LoadedFunction, LoadedModule};
use crate::objects::{Handles, Table};
use crate::threads::{Threads, this_thread};
use crate::timeline::{Timeline, Work};

/// The stream without a handle.
pub(crate) const DEFAULT_STREAM: u64 = 0;

/// The only driver of a process.
static DRIVER: Mutex<Option<Driver>> = Mutex::new(None);

/// Everything that the driver knows.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) costs: Costs,
    pub(crate) gpu: Gpu,
    pub(crate) threads: Threads,
    pub(crate) journal: Journal,
    pub(crate) timeline: Timeline<Effect>,
    pub(crate) memory: Memory,
    pub(crate) handles: Handles,
    pub(crate) streams: Table<()>,
    pub(crate) events: Table<()>,
    pub(crate) modules: Table<LoadedModule>,
    pub(crate) functions: Table<LoadedFunction>,
    pub(crate) links: Table<Link>,
    pub(crate) initialized: bool,
    /// The planned failure with which every call of the context fails.
    ended: Option<u32>,
}

impl Default for Driver {
    fn default() -> Self {
        let (costs, gpu) = (Costs::recorded(), Gpu::recorded());
        let mut timeline = Timeline::new(costs.rates, gpu.sms());
        timeline.add_stream(DEFAULT_STREAM, 0);
        let memory = Memory::new(gpu.memory.saturating_sub(costs.context_bytes));
        Self {
            costs,
            gpu,
            threads: Threads::default(),
            journal: Journal::default(),
            timeline,
            memory,
            handles: Handles::default(),
            streams: Table::default(),
            events: Table::default(),
            modules: Table::default(),
            functions: Table::default(),
            links: Table::default(),
            initialized: false,
            ended: None,
        }
    }
}

/// The driver's lock. All state of the process is behind it.
struct Locked(MutexGuard<'static, Option<Driver>>);

impl Locked {
    fn get(&mut self) -> &mut Driver {
        self.0.get_or_insert_with(Driver::default)
    }
}

fn lock() -> Locked {
    Locked(DRIVER.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Looks at the driver or changes it, outside of any call.
pub(crate) fn with<T>(look: impl FnOnce(&mut Driver) -> T) -> T {
    look(lock().get())
}

/// The scope in which a call is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Always, without a cost: it never fails.
    Always,
    /// Always.
    Process,
    /// Once the driver was initialised.
    Device,
    /// In a thread with a current context that has not ended.
    Context,
}

/// The kind of a call, from which its cost follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallKind {
    name: &'static str,
    /// The function with this call's cost.
    costly_as: &'static str,
    label: &'static str,
    bytes: u64,
    stream: Option<u64>,
    /// True if it waits for its stream; without a stream, for the device.
    waits: bool,
    scope: Scope,
}

impl CallKind {
    /// A call in a context.
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            costly_as: name,
            label: "",
            bytes: 0,
            stream: None,
            waits: false,
            scope: Scope::Context,
        }
    }

    pub(crate) fn always(mut self) -> Self {
        self.scope = Scope::Always;
        self
    }

    pub(crate) fn of_process(mut self) -> Self {
        self.scope = Scope::Process;
        self
    }

    pub(crate) fn of_device(mut self) -> Self {
        self.scope = Scope::Device;
        self
    }

    /// Takes the cost of another function.
    pub(crate) fn as_costly_as(mut self, name: &'static str) -> Self {
        self.costly_as = name;
        self
    }

    pub(crate) fn label(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }

    pub(crate) fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    pub(crate) fn on(mut self, stream: u64) -> Self {
        self.stream = Some(stream);
        self
    }

    pub(crate) fn waiting(mut self) -> Self {
        self.waits = true;
        self
    }
}

/// Makes a call. `work` gets the driver and the end of the call, unless the call fails before; a planned
/// failure comes when the call has waited and instead of its work.
pub(crate) fn call(
    kind: CallKind,
    work: impl FnOnce(&mut Driver, Nanos) -> Result<(), u32>,
) -> u32 {
    let mut locked = lock();
    let driver = locked.get();
    if kind.scope == Scope::Always {
        return work(driver, 0).err().unwrap_or(SUCCESS);
    }
    let thread = this_thread();
    let began = driver.threads.get(thread).now;
    driver.advance(began);
    let function = index(kind.name).unwrap_or_default();
    let planned = driver.journal.enter(function);
    let others = driver.timeline.busy_beside(kind.stream, began);
    let cost = driver.costs.of(kind.costly_as, kind.label, kind.bytes);
    let refused = driver.refuses(thread, kind.scope);
    let waits = (kind.waits || cost.waits) && refused.is_none();
    let waited = if waits { driver.wait(kind, began) } else { 0 };
    let over = began + waited;
    // A call that synchronizes lets the lock go while it waits. Another one takes it when it has waited.
    let from = if kind.waits { began } else { over };
    let begin = driver.threads.lock(thread, from, cost.holds).max(over);
    let end = begin + cost.ns + driver.journal.slow(function);
    // Work may have failed while the call waited for it.
    let refused = refused.or_else(|| driver.refuses(thread, kind.scope));
    let code = match (refused, planned) {
        (Some(code), _) => code,
        (None, Some((code, sticky))) => {
            if sticky {
                driver.ended = Some(code);
                driver.timeline.fail(code);
            }
            code
        }
        (None, None) => work(driver, end).err().unwrap_or(SUCCESS),
    };
    driver.journal.leave(function, end - began);
    let it = driver.threads.get(thread);
    it.now = end;
    let took = end - began;
    if let Some(log) = &mut it.log {
        log.push(LoggedCall {
            function: u32::try_from(function).unwrap_or(u32::MAX),
            code,
            began,
            took,
            waited,
            others,
            bytes: u32::try_from(kind.bytes).unwrap_or(u32::MAX),
        });
    }
    code
}

impl Driver {
    /// Runs the device to a time.
    pub(crate) fn advance(&mut self, to: Nanos) {
        let memory = &self.memory;
        self.timeline
            .advance(to, &mut |effect| effects::apply(effect, memory));
    }

    /// Runs the device until a stream is idle, or all are; returns the time of that.
    pub(crate) fn run_out(&mut self, stream: Option<u64>) -> Nanos {
        let memory = &self.memory;
        self.timeline
            .run_out(stream, &mut |effect| effects::apply(effect, memory))
    }

    /// Waits from a time on; returns how long.
    fn wait(&mut self, kind: CallKind, from: Nanos) -> Nanos {
        let stream = kind.stream.filter(|_| kind.waits);
        self.run_out(stream).saturating_sub(from)
    }

    /// The code with which a call is refused before it does anything.
    fn refuses(&mut self, thread: u64, scope: Scope) -> Option<u32> {
        match scope {
            Scope::Always | Scope::Process => None,
            Scope::Device => (!self.initialized).then_some(NOT_INITIALIZED),
            Scope::Context if !self.threads.get(thread).entered => Some(INVALID_CONTEXT),
            Scope::Context => self.ended.or(self.timeline.failed()),
        }
    }

    /// Returns a stream that exists.
    pub(crate) fn stream(&self, stream: u64) -> Result<u64, u32> {
        match stream {
            DEFAULT_STREAM => Ok(stream),
            _ => self.streams.get(stream).map(|()| stream),
        }
    }

    /// Gives a stream work.
    pub(crate) fn push(&mut self, stream: u64, ready: Nanos, work: Work, effect: Option<Effect>) {
        self.timeline.push(stream, ready, work, effect);
    }

    /// Forgets everything but the time, as if the process had just begun.
    pub(crate) fn reset(&mut self) {
        let Self {
            mut threads,
            mut memory,
            ..
        } = std::mem::take(self);
        threads.leave(this_thread());
        memory.reset();
        self.threads = threads;
        self.memory = memory;
    }

    /// Forgets counts, logs, plans and delays.
    pub(crate) fn clear(&mut self) {
        self.journal = Journal::default();
        self.threads.get(this_thread()).log = None;
    }
}
