//! The dispatch's interface: its events, its actions, and what it reads of its shell.

use bus_schemas::{Failure, KernelKey, Launch, ModuleHash, Op, OpNumber, SessionId};

use super::claims::{Claim, ClaimAnswer};
use crate::sequencer::StartAction;
use crate::weights::Touch;

/// The memory that launches take on a device, beside their session's allocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Blocks of one launch in progress at most.
    pub blocks: u64,
    /// Bytes that the blocks of any launch may take without asking the pager.
    pub small_launch: u64,
    /// Bytes that the blocks in progress of a launch take at most, where one does not take more.
    pub launch_bytes: u64,
}

/// An event of the dispatch. `S` is what the shell keeps of a slice: its ops.
#[derive(Debug, Clone)]
pub enum Event<S> {
    /// The sequencer started a slice; these are its ops.
    Started(StartAction, S),
    /// A module or a transfer may have become ready.
    Changed,
    /// The pager has answered an [`Action::Ask`].
    Admitted(ClaimAnswer),
    /// A session is being closed: what it has under way is to end, for this reason.
    Stopped {
        /// The session.
        session: SessionId,
        /// What its slices fail with.
        why: Failure,
    },
    /// A session has ended: nothing of it is kept.
    Gone {
        /// The session.
        session: SessionId,
    },
    /// A session's memory is to be swapped out: nothing more of it goes to the device until it has
    /// returned.
    Leave {
        /// The session.
        session: SessionId,
        /// Slices of it that were started and have not completed.
        running: usize,
    },
    /// The device has completed a slice. Needs to be said only while [`Dispatch::has_away`].
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
    /// Ask the pager for memory; answer with [`Event::Admitted`] once there is an answer.
    Ask(Claim),
    /// The session's claim needs no answer any more.
    Withdraw {
        /// The session.
        session: SessionId,
    },
    /// Hand a slice to the device.
    Submit(Submission<S>),
    /// Have the device swap a session's memory out: it has nothing of the session to run.
    SwapOut {
        /// The session.
        session: SessionId,
    },
    /// A slice waits for its session's memory: answer with [`Event::Returned`].
    Want {
        /// The session.
        session: SessionId,
        /// The slice's priority.
        priority: u8,
    },
}

/// A slice as the device is to have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission<S> {
    /// As the sequencer started it.
    pub start: StartAction,
    /// Its ops.
    pub ops: S,
    /// An op that must fail when its turn comes, and why: nothing runs from there on.
    pub fail_at: Option<(OpNumber, Failure)>,
    /// What the pager lets its launches take: see [`ClaimAnswer::launch_bytes`].
    pub launch_bytes: Vec<(OpNumber, u64)>,
    /// The staged transfers that its ops use up, in op order.
    pub copies: Vec<StagedCopy>,
    /// The sum of [`bus_schemas::CostRun::declared`] over its ops, before the first that fails for
    /// what it is; 0 of a slice that was stopped.
    pub declared: u64,
    /// What the ops that may run do to large allocations, in op order.
    pub touched: Vec<(OpNumber, Touch)>,
    /// Images that its ops put into slots.
    pub loaded: Vec<ModuleHash>,
    /// Images that no slot of the session holds any more, as often as its ops have made that so.
    pub left: Vec<ModuleHash>,
}

/// A copy whose bytes were staged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StagedCopy {
    /// The op.
    pub op: OpNumber,
    /// The transfer.
    pub transfer: u64,
    /// Where to.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// The state of a staged transfer, as the shell has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferState {
    /// Nothing: it was given back with its session's other transfers.
    Gone,
    /// Not all of it yet.
    Coming,
    /// So many bytes: all of it.
    Whole(u64),
}

/// The state of an image, as a session's tenant has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageState<M> {
    /// The tenant did not give it to this worker.
    Unknown,
    /// It is here whole, and is being checked or prepared.
    Preparing,
    /// The device has it.
    Ready(M),
    /// The device cannot run it.
    Refused(Failure),
}

/// What there is to know of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchNeeds {
    /// What its cost is known by.
    pub key: KernelKey,
    /// Bytes that one block of it takes while it is in progress.
    pub block: u64,
}

/// What a module takes of its session's memory as long as it is loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModuleBytes {
    /// Its variables, bytes.
    pub variables: u64,
    /// The heap of kernels, which all modules of a session share, bytes; 0 where it needs none.
    pub heap: u64,
}

/// A session as the shell has it. The dispatch reads it and changes nothing: what a submission
/// says is the shell's to do before the next action is asked for.
pub trait SessionReader {
    /// The ops of a slice, as [`Event::Started`] brings them.
    type Ops;
    /// A module that the device has, as the shell knows it; cheap to clone.
    type Module: Clone;

    /// The ops of one of its slices, in order.
    fn ops(&self, ops: &Self::Ops) -> impl Iterator<Item = Op>;

    /// How much of a transfer is here.
    fn transfer(&self, transfer: u64) -> TransferState;

    /// The fingerprint of a whole transfer's bytes: see [`Touch::Copied`]. `None` where it is not
    /// here any more.
    fn fingerprint(&self, transfer: u64) -> Option<u64>;

    /// What is known of an image.
    fn image(&self, hash: ModuleHash) -> ImageState<Self::Module>;

    /// Whether the session is charged for an image already.
    fn has_image(&self, hash: ModuleHash) -> bool;

    /// Why the session may not be charged for an image, beside others that it is about to be.
    fn denied(&self, hash: ModuleHash, others: &[ModuleHash]) -> Option<Failure>;

    /// What a module takes of its session's memory.
    fn module_bytes(&self, module: &Self::Module) -> ModuleBytes;

    /// What a launch of a module is; `None` where the module has no such function.
    fn kernel(&self, module: &Self::Module, launch: &Launch) -> Option<LaunchNeeds>;
}
