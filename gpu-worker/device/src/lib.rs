//! The interface between a worker and its device: one trait, two implementations (`device-cpu`,
//! `device-cuda`), one conformance suite (`device-conformance`).
//!
//! A device belongs to one thread, which alternates [`Device::submit`] and [`Device::poll`]. It knows only
//! the windows of the sessions that it serves; the order of their work was decided before.

mod copy_bytes;
mod export_memory;
mod feed;
mod interrupt;
mod sharing_domain;
mod slice;
mod tenant_number;
mod watch;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bus_schemas::{
    DeviceProperties, EventTime, Failure, GpuPosition, KernelKey, Launch, ModuleHash, OpNumber,
    Parcel, ResultKind, SessionId, Spares, Window,
};

pub use copy_bytes::{Chunk, CopyBytes, HostKeeper, Keeper};
pub use export_memory::ExportMemory;
pub use feed::{Feed, Gate};
pub use interrupt::Interrupt;
pub use sharing_domain::SharingDomain;
pub use slice::{OpSpan, Slice};
pub use tenant_number::TenantNumber;
pub use watch::{Halt, Unwatched, Watch};

/// The description of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its properties, as clients get them. If its UUID is all zeros, its worker gives it one.
    pub properties: DeviceProperties,
    /// Number of units that really run at once, as credits count them: a GPU's multiprocessors, a CPU's
    /// threads.
    pub units: u32,
    /// Memory that sessions can be given together, bytes.
    pub capacity: u64,
    /// True if it runs the most urgent session first and parks those that it overtakes, in a kernel or
    /// between two. Only then does it help to hand it work before earlier work is done.
    pub preemptive: bool,
    /// True if kernels of different sessions may run beside one another.
    pub overlaps: bool,
    /// Maximum number of blocks of one launch in progress, each of which takes its [`BlockBytes`].
    pub blocks: u64,
}

/// A module that a device has decoded or compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedModule {
    /// Entry functions in source order; a launch names one by its index.
    pub functions: Vec<FunctionInfo>,
    /// Bytes of the host's memory that it takes while it is kept.
    pub bytes: u64,
    /// Bytes that its variables take of the memory of each session that has loaded it, as far as they lie in
    /// the memory that sessions share.
    pub variables: u64,
    /// Bytes that the heap of its kernels takes there, once for all modules of a session.
    pub heap: u64,
    /// Begin and end of its compilation, in the answer of the call that compiled it. Machine code is loaded as
    /// it is, and not compiled.
    pub compiled: Option<(Instant, Instant)>,
}

/// An entry function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Its name in the image.
    pub name: String,
    /// Bytes of its parameter block.
    pub param_bytes: u32,
    /// Bytes that one of its blocks takes while it runs.
    pub block: BlockBytes,
}

/// Bytes that a block of a launch takes while in progress, beside its session's allocations: registers, local
/// and shared memory. They count as far as they lie in the memory that sessions share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockBytes {
    /// Bytes for each warp.
    pub warp: u64,
    /// Bytes beside those, except dynamic shared memory.
    pub fixed: u64,
}

impl BlockBytes {
    /// Returns the bytes of one block of a launch; 0 if blocks take nothing.
    #[must_use]
    pub fn of(self, launch: &Launch) -> u64 {
        if self == Self::default() {
            return 0;
        }
        let threads = launch.block.iter().map(|n| u64::from(*n));
        let threads = threads.fold(1, u64::saturating_mul).min(MOST_THREADS);
        let warps = self.warp.saturating_mul(threads.div_ceil(WARP));
        let fixed = self.fixed.saturating_add(u64::from(launch.shared));
        warps.saturating_add(fixed)
    }
}

const WARP: u64 = 32;
/// Maximum number of threads of a block; larger blocks are refused.
const MOST_THREADS: u64 = 1_024;

/// Bytes of a launch's first block that are not counted. CUDA likewise sets memory for threads aside with a
/// context. So nearly every kernel runs even if a program has allocated all that it may.
pub const FIRST_BLOCK: u64 = 8 << 20;
/// Bytes of first blocks in progress that are not counted, over all launches of a device.
pub const FIRST_BLOCKS: u64 = 256 << 20;
/// Bytes that the blocks of any launch may take without asking.
pub const SMALL_LAUNCH: u64 = 256 << 10;

/// Time of the launches of one kernel key within a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelTime {
    /// The key.
    pub key: KernelKey,
    /// Number of launches.
    pub count: u64,
    /// Sum of their device nanoseconds.
    pub total_ns: u64,
    /// Sum of the SMs that they could occupy times their nanoseconds.
    pub sm_ns: u64,
    /// Nanoseconds of the shortest launch; if launches were measured together, their mean.
    pub least_ns: u64,
    /// Nanoseconds of the longest launch, likewise.
    pub most_ns: u64,
}

/// The answer to one op that has a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpResult {
    /// The op.
    pub op: OpNumber,
    /// Kind of the answer.
    pub kind: ResultKind,
    /// The bytes of a copy to the host, the rows of symbols; `None` for a sync.
    pub bytes: Option<Parcel>,
    /// Output of kernels since the sync before, with the answer to a sync. A device keeps a bounded amount
    /// and forgets the oldest, as CUDA's `printf` does.
    pub printed: Vec<u8>,
    /// Device nanoseconds from the slice's start to this op's end.
    pub device_ns: u64,
}

impl OpResult {
    /// The bytes of a copy to the host, the rows of symbols, in one piece.
    #[must_use]
    pub fn copied(&self) -> Option<Vec<u8>> {
        self.bytes.as_ref().map(Parcel::to_vec)
    }
}

/// The end of a submitted slice.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Completion {
    /// Its gpu position.
    pub position: GpuPosition,
    /// Its session.
    pub session: SessionId,
    /// Answers in op order.
    pub results: Vec<OpResult>,
    /// Times of the timed events it recorded, by op, in op order.
    pub events: Vec<(OpNumber, EventTime)>,
    /// Start of its first op, if the device knows.
    pub began: Option<Instant>,
    /// Device nanoseconds that the slice took, without the time it was parked.
    pub device_ns: u64,
    /// Number of launches run.
    pub launches: u64,
    /// SM-nanoseconds: SMs the launches could occupy times their nanoseconds.
    pub sm_ns: u64,
    /// Times by kernel key.
    pub kernels: Vec<KernelTime>,
    /// Bytes that the session is charged now: those that it holds alone, and its part of shared ones.
    pub resident: u64,
    /// Output of kernels since the last sync, if the slice failed: no sync will bring it.
    pub printed: Vec<u8>,
    /// The op that failed, with the failure; nothing after it ran.
    pub fault: Option<(OpNumber, Failure)>,
}

impl Completion {
    /// Counts a launch that took `ns` device nanoseconds on `sms` SMs.
    pub fn count(&mut self, key: KernelKey, ns: u64, sms: u64) {
        self.count_all(key, 1, ns, sms);
    }

    /// Counts launches of one key that took `ns` device nanoseconds together, each on `sms` SMs.
    pub fn count_all(&mut self, key: KernelKey, launches: u64, ns: u64, sms: u64) {
        self.launches += launches;
        let (sm_ns, each) = (ns.saturating_mul(sms), ns / launches.max(1));
        self.sm_ns += sm_ns;
        match self.kernels.iter_mut().find(|kernel| kernel.key == key) {
            Some(kernel) => {
                kernel.count += launches;
                kernel.total_ns += ns;
                kernel.sm_ns += sm_ns;
                kernel.least_ns = kernel.least_ns.min(each);
                kernel.most_ns = kernel.most_ns.max(each);
            }
            None => self.kernels.push(KernelTime {
                key,
                count: launches,
                total_ns: ns,
                sm_ns,
                least_ns: each,
                most_ns: each,
            }),
        }
    }
}

/// A compiler that decodes or compiles images on other threads than the device's.
pub trait Compiler: Send + Sync {
    /// As [`Device::prepare`], as long as the watch lets it continue; the device uses the result.
    ///
    /// # Errors
    /// As [`Device::prepare`], and [`bus_schemas::Code::ModuleLimit`] if the watch stops it.
    fn compile(
        &self,
        hash: ModuleHash,
        image: &[u8],
        watch: &dyn Watch,
    ) -> Result<PreparedModule, Failure>;

    /// As [`Device::forget`].
    fn forget(&self, hash: ModuleHash);
}

/// A device, owned by one thread.
pub trait Device: Send {
    /// Returns its description.
    fn info(&self) -> &DeviceInfo;

    /// Begins a session with addresses of its own. Bytes that it holds like other sessions of its domain may
    /// be stored once. Without a sharing domain it shares with no other session.
    ///
    /// # Errors
    /// When the window overlaps another session's or cannot be reserved.
    fn open(
        &mut self,
        session: SessionId,
        window: Window,
        domain: Option<SharingDomain>,
    ) -> Result<(), Failure>;

    /// Sets the tenant of an open session, once. Of a scarce resource, a device gives one tenant at most half
    /// of what the others leave. Sessions without a tenant count as one tenant.
    fn belongs(&mut self, session: SessionId, tenant: TenantNumber) {
        let _ = (session, tenant);
    }

    /// Ends a session: drops slices that have not started, frees its memory and module instances. A session
    /// that is not open is no error.
    fn close(&mut self, session: SessionId);

    /// Ends a session's work under way soon: each slice that has not completed, and each later one, completes
    /// with this fault. If the device can stop kernels, a kernel ends at its next jump back, call or block.
    /// Otherwise it runs to its end. A session that is not open is no error.
    fn stop(&mut self, session: SessionId, why: Failure) {
        let _ = (session, why);
    }

    /// Decodes or compiles an image, once; later calls with the same hash are cheap. The caller has checked
    /// the image against the hash.
    ///
    /// # Errors
    /// [`bus_schemas::Code::BadModule`] with line and column, or [`bus_schemas::Code::NoBinary`].
    fn prepare(&mut self, hash: ModuleHash, image: &[u8]) -> Result<PreparedModule, Failure>;

    /// Drops the result of preparing an image. The caller vouches that no session has it in a slot or will
    /// load it before it is prepared again.
    fn forget(&mut self, hash: ModuleHash);

    /// Returns the compiler that prepares images for this device on other threads, if images need not wait
    /// for running work.
    fn compiler(&self) -> Option<Arc<dyn Compiler>> {
        None
    }

    /// Returns the interrupt that ends a poll early, if there is one: a preemptive device has one.
    fn interrupt(&self) -> Option<Arc<Interrupt>> {
        None
    }

    /// Returns the spare memory from which it takes buffers for answers, and to which it returns those of
    /// transfers that it has read. A worker that makes and forgets such buffers uses the same spares.
    fn spares(&self) -> Option<Arc<Mutex<Spares>>> {
        None
    }

    /// Returns the keeper of chunks, which puts them so that copies of them move as few bytes as possible.
    fn keeper(&self) -> Arc<dyn Keeper> {
        Arc::new(HostKeeper)
    }

    /// Takes a slice to run after all earlier slices of its session. Never waits.
    fn submit(&mut self, slice: Slice);

    /// Runs work, or checks on running work, for about `budget` at most or until interrupted, and appends
    /// completions. Slices of a session complete in the order in which they were submitted.
    fn poll(&mut self, budget: Duration, completions: &mut Vec<Completion>);

    /// True if a submitted slice has not completed.
    fn is_busy(&self) -> bool;

    /// Does a little background work that no session waits for, some ten microseconds and rarely a
    /// millisecond. Called now and then while there is nothing to run. Returns true if there is more of it, or
    /// if bytes of closed sessions are still being freed.
    fn tend(&mut self) -> bool {
        false
    }

    /// Appends sessions with charges that may have changed since the last call, also through other sessions,
    /// each with its charge now.
    fn recharged(&mut self, changed: &mut Vec<Recharged>) {
        let _ = changed;
    }

    /// Bytes that sessions hold and are not charged, because they share: the sum of each session's savings.
    fn saved(&self) -> u64 {
        0
    }

    /// Begins to move a session's memory to the swap space. Kernels of other sessions run meanwhile. The
    /// device has no slice of this session, and starts none until its memory was brought in again.
    /// [`Device::moved`] reports the end: at once and with a failure if the device has a slice of it, or
    /// there is no swap space. A session that is not open, or has its memory off the device, is no error:
    /// nothing is reported.
    ///
    /// Until the session is back, its slices are kept, and run then. If it is stopped, before or meanwhile,
    /// they complete at once with that fault. Its addresses stay its own, and it can be closed.
    fn swap_out(&mut self, session: SessionId) {
        let _ = session;
    }

    /// Begins to bring a session's memory back behind its addresses. The caller vouches that the device has
    /// room for it, beside all sessions with memory there or on its way, in either direction. If there is no
    /// room, a failure is reported. Otherwise as [`Device::swap_out`].
    fn swap_in(&mut self, session: SessionId) {
        let _ = session;
    }

    /// Appends the moves that have ended. Returns true if others are in progress; then call it again soon.
    /// Nothing is reported of a session that is closed while it moves.
    fn moved(&mut self, ended: &mut Vec<Moved>) -> bool {
        let _ = ended;
        false
    }

    /// Returns its support of exports between sessions; `None` if there is none.
    fn exports(&mut self) -> Option<&mut dyn ExportMemory> {
        None
    }

    /// Returns the failure because of which the device serves no session any more, if any. Work under way has
    /// then completed with faults, and every later call fails. A fresh process may get it back.
    fn lost(&self) -> Option<Failure> {
        None
    }

    /// Returns the use of the swap space; `None` if there is none.
    fn swap_use(&self) -> Option<SwapUse> {
        None
    }
}

/// Bytes that sessions may hold together on a device of this capacity, at this percentage of it; never less
/// than the capacity.
#[must_use]
pub fn overcommitted(capacity: u64, percent: u32) -> u64 {
    let together = u128::from(capacity) * u128::from(percent) / 100;
    u64::try_from(together).unwrap_or(u64::MAX).max(capacity)
}

/// The charge of a session that may share, as of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recharged {
    /// The session.
    pub session: SessionId,
    /// Bytes that it is charged (as [`Completion::resident`]).
    pub charged: u64,
    /// Bytes that it holds on the device beside, charged to others that share them. They change only with
    /// this report, and with a move of its memory: memory that moves out is all its own.
    pub saved: u64,
}

/// A move of a session's memory that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The session.
    pub session: SessionId,
    /// True for a swap-out, false for a swap-in.
    pub out: bool,
    /// Bytes that were moved; 0 if it failed.
    pub bytes: u64,
    /// Duration of the move.
    pub took: Duration,
    /// Bytes that the session is charged now, as [`Completion::resident`]: 0 while it is out.
    pub resident: u64,
    /// The failure, if all the memory is where it was before. The same move may be tried again.
    pub failure: Option<Failure>,
}

/// The use of a device's swap space.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapUse {
    /// Bytes in the host's memory, and their maximum.
    pub memory: (u64, u64),
    /// Bytes in the swap file, and their maximum.
    pub file: (u64, u64),
    /// Bytes moved by the moves in progress, and all bytes that they are to move.
    pub moving: (u64, u64),
}
