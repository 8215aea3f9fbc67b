//! The interface between a worker and its device: one trait, two implementations (`device-cpu`, `device-cuda`),
//! one conformance suite (`device-conformance`).
//!
//! A device belongs to one thread, which alternates [`Device::submit`] and [`Device::poll`]. It
//! serves sessions it knows nothing of but their windows; who may run, and when, was decided
//! before.

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
    /// Its properties, as clients get them. Without a UUID of its own (all zeros) it gets one from its
    /// worker.
    pub properties: DeviceProperties,
    /// What it really runs at once, as credits count it: a GPU's multiprocessors, a CPU's threads.
    pub units: u32,
    /// Memory that sessions can be given together, bytes.
    pub capacity: u64,
    /// Whether it runs the most urgent session first and parks what that overtakes, in a kernel or
    /// between two. Only then is there a point in handing it work before the work ahead is done.
    pub preemptive: bool,
    /// Whether kernels of different sessions may run beside one another.
    pub overlaps: bool,
    /// Blocks of one launch in progress at most, each taking its [`BlockBytes`].
    pub blocks: u64,
}

/// A module as a device decoded or compiled it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedModule {
    /// Entry functions in source order; a launch names one by its index.
    pub functions: Vec<FunctionInfo>,
    /// Bytes of the host's memory that it takes while it is kept.
    pub bytes: u64,
    /// Bytes that its variables take of the memory of each session that has loaded it, as far as they
    /// lie in the memory that sessions share.
    pub variables: u64,
    /// Bytes that the heap of its kernels takes there, once for all modules of a session.
    pub heap: u64,
}

/// An entry function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionInfo {
    /// Its name in the image.
    pub name: String,
    /// Bytes of its parameter block.
    pub param_bytes: u32,
    /// What a block of it takes while it runs.
    pub block: BlockBytes,
}

/// Bytes that a block of a launch takes beside its session's allocations while it is in progress:
/// registers, local and shared memory, as far as they lie in the memory that sessions share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BlockBytes {
    /// For each warp.
    pub warp: u64,
    /// Beside them, dynamic shared memory apart.
    pub fixed: u64,
}

impl BlockBytes {
    /// Those of one block of a launch; 0 where blocks take nothing.
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
/// Larger blocks are refused.
const MOST_THREADS: u64 = 1_024;

/// Bytes of a launch's first block that are not counted, as CUDA sets memory for threads aside with a
/// context: nearly every kernel runs where a program has allocated all that it may.
pub const FIRST_BLOCK: u64 = 8 << 20;
/// Bytes of first blocks in progress that are not counted, all launches of a device together.
pub const FIRST_BLOCKS: u64 = 256 << 20;
/// Bytes that the blocks of any launch may take without being asked for.
pub const SMALL_LAUNCH: u64 = 256 << 10;

/// Time of the launches of one kernel key within a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelTime {
    /// The key.
    pub key: KernelKey,
    /// Launches.
    pub count: u64,
    /// Their device nanoseconds, added up.
    pub total_ns: u64,
    /// SMs that they could occupy times their nanoseconds, added up.
    pub sm_ns: u64,
    /// Nanoseconds of the shortest; of launches measured together, their mean.
    pub least_ns: u64,
    /// Nanoseconds of the longest, likewise.
    pub most_ns: u64,
}

/// The answer to one op that has a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpResult {
    /// The op.
    pub op: OpNumber,
    /// What it answers.
    pub kind: ResultKind,
    /// The bytes of a copy to the host, the rows of symbols; `None` for a sync.
    pub bytes: Option<Parcel>,
    /// What kernels printed since the sync before, with the answer to a sync. A device keeps a
    /// bounded amount and forgets the oldest, as CUDA's `printf` does.
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
    /// When its first op began, where the device knows.
    pub began: Option<Instant>,
    /// Device nanoseconds the slice took; the time it was parked is not among them.
    pub device_ns: u64,
    /// Launches run.
    pub launches: u64,
    /// SM-nanoseconds: SMs the launches could occupy times their nanoseconds.
    pub sm_ns: u64,
    /// Times by kernel key.
    pub kernels: Vec<KernelTime>,
    /// Bytes the session is charged now: what it holds alone, and its part of what it shares.
    pub resident: u64,
    /// What kernels printed since the last sync, where the slice failed: no sync will bring it.
    pub printed: Vec<u8>,
    /// The op that failed and why; nothing after it ran.
    pub fault: Option<(OpNumber, Failure)>,
}

impl Completion {
    /// Counts a launch that took `ns` device nanoseconds on as many SMs as `sms`.
    pub fn count(&mut self, key: KernelKey, ns: u64, sms: u64) {
        self.count_all(key, 1, ns, sms);
    }

    /// Counts launches of one key that took `ns` device nanoseconds together, each on as many SMs
    /// as `sms`.
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

/// Decodes or compiles images on other threads than the device's.
pub trait Compiler: Send + Sync {
    /// As [`Device::prepare`], as long as the watch lets it go on; what came of it is the device's.
    ///
    /// # Errors
    /// As [`Device::prepare`], and [`bus_schemas::Code::ModuleLimit`] where the watch does not let it
    /// go on.
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
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// Begins a session with addresses of its own. Bytes that it holds like other sessions of its
    /// domain may be stored once; without a sharing domain it shares with nobody.
    ///
    /// # Errors
    /// When the window overlaps another session's or cannot be reserved.
    fn open(
        &mut self,
        session: SessionId,
        window: Window,
        domain: Option<SharingDomain>,
    ) -> Result<(), Failure>;

    /// Says which tenant's an open session is, once. A device gives one tenant at most half of what the others
    /// leave of a thing that it has few of; sessions of no tenant count as one.
    fn belongs(&mut self, session: SessionId, tenant: TenantNumber) {
        let _ = (session, tenant);
    }

    /// Ends a session: drops what it has not started, frees its memory and module instances.
    /// A session that is not open is no error.
    fn close(&mut self, session: SessionId);

    /// Ends what a session has under way, soon: each of its slices that has not completed, and each
    /// that comes, completes with this fault. A kernel ends at its next jump back, call or block,
    /// where the device can stop kernels; elsewhere it runs to its end. A session that is not open is
    /// no error.
    fn stop(&mut self, session: SessionId, why: Failure) {
        let _ = (session, why);
    }

    /// Decodes or compiles an image, once; later calls with the same hash are cheap. The caller
    /// has checked that the hash is the image's.
    ///
    /// # Errors
    /// [`bus_schemas::Code::BadModule`] with line and column, or
    /// [`bus_schemas::Code::NoBinary`].
    fn prepare(&mut self, hash: ModuleHash, image: &[u8]) -> Result<PreparedModule, Failure>;

    /// Drops what came of an image. The caller vouches that no session has it in a slot or will
    /// load it before it is prepared again.
    fn forget(&mut self, hash: ModuleHash);

    /// What prepares images for this device elsewhere, if images need not wait for what runs.
    fn compiler(&self) -> Option<Arc<dyn Compiler>> {
        None
    }

    /// What ends a poll early, if something can: a preemptive device has one.
    fn interrupt(&self) -> Option<Arc<Interrupt>> {
        None
    }

    /// Where it takes the memory for answers from, and leaves that of transfers it has read, if it
    /// does: who makes and forgets those uses the same.
    fn spares(&self) -> Option<Arc<Mutex<Spares>>> {
        None
    }

    /// Where chunks of copies are to be kept, for as few bytes as can be to move when they are copied.
    fn keeper(&self) -> Arc<dyn Keeper> {
        Arc::new(HostKeeper)
    }

    /// Takes a slice to run after all earlier slices of its session. Never waits.
    fn submit(&mut self, slice: Slice);

    /// Runs, or looks what has run, for about `budget` at most or until interrupted, and appends
    /// what completed. Slices complete in the order they were submitted within a session.
    fn poll(&mut self, budget: Duration, completions: &mut Vec<Completion>);

    /// Whether a submitted slice has not completed.
    fn is_busy(&self) -> bool;

    /// Does a little of what nobody waits for, some ten microseconds and rarely a millisecond; called
    /// now and then while there is nothing to run. Gives whether there is more of it.
    fn tend(&mut self) -> bool {
        false
    }

    /// Appends sessions whose charge may have changed since this was last asked, not only by what
    /// they did themselves, with what each is charged now.
    fn recharged(&mut self, changed: &mut Vec<Recharged>) {
        let _ = changed;
    }

    /// Bytes that sessions hold and are not charged, because they share: the sum of what each saves.
    fn saved(&self) -> u64 {
        0
    }

    /// Begins to move a session's memory to the swap space. Kernels of other sessions run meanwhile; of
    /// this one the device has no slice, and gets none until it was brought in again. [`Device::moved`]
    /// tells the end; at once and with a failure where it has a slice, or there is no swap space. A session
    /// that is not open, or whose memory is not on the device, is no error: nothing is told of it.
    ///
    /// Until it is back, slices that come are kept, and run then. If it is stopped, before or meanwhile,
    /// they complete at once with that fault. Its addresses stay its own, and it can be closed.
    fn swap_out(&mut self, session: SessionId) {
        let _ = session;
    }

    /// Begins to bring a session's memory back behind its addresses. The caller vouches that the device
    /// has room for it, beside all sessions whose memory is there or on its way, in either direction;
    /// where it has none, that is told as a failure. Otherwise as [`Device::swap_out`].
    fn swap_in(&mut self, session: SessionId) {
        let _ = session;
    }

    /// Appends the moves that have ended, and gives whether others are in progress: it is then to be
    /// asked again soon. A session that is closed while it moves is told nothing of.
    fn moved(&mut self, ended: &mut Vec<Moved>) -> bool {
        let _ = ended;
        false
    }

    /// How its sessions use memory of others; none where they cannot.
    fn exports(&mut self) -> Option<&mut dyn ExportMemory> {
        None
    }

    /// Why the device serves nobody any more, where it does not: what was under way has completed with
    /// faults, and whatever else is asked of it fails. A process that starts afresh may get it back.
    fn lost(&self) -> Option<Failure> {
        None
    }

    /// How full the swap space is; none where there is none.
    fn swap_use(&self) -> Option<SwapUse> {
        None
    }
}

/// Bytes that sessions may hold together on a device of this capacity, where that is so many percent of
/// it; never less than it has.
#[must_use]
pub fn overcommitted(capacity: u64, percent: u32) -> u64 {
    let together = u128::from(capacity) * u128::from(percent) / 100;
    u64::try_from(together).unwrap_or(u64::MAX).max(capacity)
}

/// What a session that may share is charged now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recharged {
    /// The session.
    pub session: SessionId,
    /// Bytes that it is charged (as [`Completion::resident`]).
    pub charged: u64,
    /// Bytes that it holds on the device beside, for which others that share them are charged. They change
    /// only where this says so, and with a move of its memory: what moves out is all its own.
    pub saved: u64,
}

/// A move of a session's memory that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The session.
    pub session: SessionId,
    /// It was to be swapped out; else brought in.
    pub out: bool,
    /// Bytes that were moved; none where it failed.
    pub bytes: u64,
    /// How long that took.
    pub took: Duration,
    /// Bytes that the session is charged now, as [`Completion::resident`]: none while it is out.
    pub resident: u64,
    /// Why the memory is where it was before, if it is: all of it. The same may be tried again.
    pub failure: Option<Failure>,
}

/// How full a device's swap space is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SwapUse {
    /// Bytes in the host's memory, and how many may be.
    pub memory: (u64, u64),
    /// Bytes in the swap file, and how many may be.
    pub file: (u64, u64),
    /// Bytes of the moves in progress that were moved, and of all that they are to move.
    pub moving: (u64, u64),
}
