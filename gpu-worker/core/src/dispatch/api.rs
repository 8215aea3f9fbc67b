//! The dispatch's interface: its events, its actions, and its view of a session.

use bus_schemas::{Failure, KernelKey, Launch, ModuleHash, Op, OpNumber, SessionId};

use super::claims::{Claim, ClaimAnswer};
use crate::sequencer::StartAction;
use crate::weights::Touch;

/// Limits on the memory that launches take on a device, beside their session's allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of blocks of one launch in progress.
    pub blocks: u64,
    /// Bytes that the blocks of any launch may take without asking the pager.
    pub small_launch: u64,
    /// Maximum bytes of a launch's blocks in progress; a single block may take more.
    pub launch_bytes: u64,
}

/// An event of the dispatch. `S` is the shell's form of a slice: its ops.
#[derive(Debug, Clone)]
pub enum Event<S> {
    /// The sequencer started a slice with these ops.
    Started(StartAction, S),
    /// A module or a transfer may have become ready.
    Changed,
    /// The pager has answered an [`Action::Ask`].
    Admitted(ClaimAnswer),
    /// A session is being closed: its work under way ends with this failure.
    Stopped {
        /// The session.
        session: SessionId,
        /// The failure of its slices.
        why: Failure,
    },
    /// A session has ended; its state is dropped.
    Gone {
        /// The session.
        session: SessionId,
    },
    /// A session's memory is to be swapped out: nothing more of the session goes to the device until the
    /// memory has returned.
    Leave {
        /// The session.
        session: SessionId,
        /// Number of its slices that were started and have not completed.
        running: usize,
    },
    /// The device has completed a slice. Required only while [`Dispatch::has_away`].
    ///
    /// [`Dispatch::has_away`]: super::Dispatch::has_away
    Completed {
        /// Its session.
        session: SessionId,
    },
    /// A session's memory is on the device.
    Returned {
        /// The session.
        session: SessionId,
    },
}

/// An action of the dispatch.
#[derive(Debug, Clone, PartialEq)]
pub enum Action<S> {
    /// Ask the pager for memory. Send [`Event::Admitted`] once it answers.
    Ask(Claim),
    /// Hand a slice to the device.
    Submit(Submission<S>),
    /// Have the device swap a session's memory out. The device has no slice of the session to run.
    SwapOut {
        /// The session.
        session: SessionId,
    },
    /// A slice waits for its session's memory. Send [`Event::Returned`] once it is back.
    Want {
        /// The session.
        session: SessionId,
        /// The slice's priority.
        priority: u8,
    },
}

/// A slice as the device gets it.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission<S> {
    /// The sequencer's start of the slice.
    pub start: StartAction,
    /// Its ops.
    pub ops: S,
    /// An op that must fail when its turn comes, with the failure. Nothing runs from there on.
    pub fail_at: Option<(OpNumber, Failure)>,
    /// Bytes that the pager grants its launches: see [`ClaimAnswer::launch_bytes`].
    pub launch_bytes: Vec<(OpNumber, u64)>,
    /// The staged transfers that its ops use up, in op order.
    pub copies: Vec<StagedCopy>,
    /// The sum of [`bus_schemas::CostRun::declared`] over its ops, before the first that fails for what it
    /// is. 0 if the slice was stopped.
    pub declared: u64,
    /// Changes of large allocations by the ops that may run, in op order.
    pub touched: Vec<(OpNumber, Touch)>,
    /// Images that its ops load into slots.
    pub loaded: Vec<ModuleHash>,
    /// Images that no slot of the session holds any more, once for each time that its ops caused that.
    pub left: Vec<ModuleHash>,
}

/// A copy from staged bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedCopy {
    /// The op.
    pub op: OpNumber,
    /// The transfer.
    pub transfer: u64,
    /// Destination address.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The state of a staged transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferState {
    /// Given back with its session's other transfers.
    Gone,
    /// Incomplete: more bytes are on their way.
    Coming,
    /// Complete, with this many bytes.
    Whole(u64),
}

/// The state of an image for a session's tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageState<M> {
    /// The tenant did not send it to this worker.
    Unknown,
    /// All its bytes have arrived, and the worker checks or prepares it.
    Preparing,
    /// The device has prepared it.
    Ready(M),
    /// The device cannot run it.
    Refused(Failure),
}

/// The needs of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchNeeds {
    /// The key of its cost.
    pub key: KernelKey,
    /// Bytes that one of its blocks takes while in progress.
    pub block: u64,
}

/// Bytes that a loaded module takes of its session's memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModuleBytes {
    /// Its variables, bytes.
    pub variables: u64,
    /// The heap of kernels, bytes, which all modules of a session share; 0 if the module needs none.
    pub heap: u64,
}

/// A session as the worker has it. The dispatch only reads it: the worker carries out a submission before it
/// asks for the next action.
pub trait SessionReader {
    /// The ops of a slice, as in [`Event::Started`].
    type Ops;
    /// The shell's form of a module that the device has; cheap to clone.
    type Module: Clone;

    /// Returns the ops of one of the session's slices, in order.
    fn ops(&self, ops: &Self::Ops) -> impl Iterator<Item = Op>;

    /// Returns the state of a transfer.
    fn transfer(&self, transfer: u64) -> TransferState;

    /// Returns the fingerprint of a whole transfer's bytes: see [`Touch::Copied`]. `None` if the worker no
    /// longer has it.
    fn fingerprint(&self, transfer: u64) -> Option<u64>;

    /// Returns the state of an image.
    fn image(&self, hash: ModuleHash) -> ImageState<Self::Module>;

    /// True if the session is charged for an image already.
    fn has_image(&self, hash: ModuleHash) -> bool;

    /// Returns the reason for which the session may not be charged for an image, beside others that it is
    /// about to be charged for.
    fn denied(&self, hash: ModuleHash, others: &[ModuleHash]) -> Option<Failure>;

    /// Returns the bytes that a module takes of its session's memory.
    fn module_bytes(&self, module: &Self::Module) -> ModuleBytes;

    /// Returns the needs of a launch of a module; `None` if the module has no such function.
    fn kernel(&self, module: &Self::Module, launch: &Launch) -> Option<LaunchNeeds>;
}
