//! Events that the sequencer takes, and actions that it returns.

use std::ops::Range;

use bus_schemas::{
    ClientState, Compilation, Epoch, Failure, GpuId, GpuPosition, GrantBatch, GrantKind,
    Incarnation, LeaderId, Leave, Lost, ModuleHash, OpNumber, Outcome, Refusal, Seal, SealReply,
    SessionId, Tenant, Window,
};

use super::images::ImageReadiness;
use super::messages::{AckMessage, DoneMessage};
use crate::Nanos;

/// The worker's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Its incarnation.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// Memory that a tenant can be given, bytes: the device's capacity minus the reserve.
    pub capacity: u64,
}

/// An event of the sequencer.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Grants from a leader.
    GrantBatch(&'a GrantBatch<'a>),
    /// A request from a leader, answered at once by [`Action::SealReply`].
    Seal(&'a Seal),
    /// A message from a leader that the worker is lost.
    Lost(&'a Lost),
    /// A message from a leader: the worker is drained and, as far as that leader knows, has no session.
    Leave(&'a Leave),
    /// A batch from a client; its ops were checked.
    Batch(BatchEvent<'a>),
    /// A state message from a client.
    ClientState {
        /// The tenant that sent it, from the subject.
        tenant: &'a Tenant,
        /// The session.
        session: SessionId,
        /// The message.
        state: ClientState,
    },
    /// A part of a staged transfer from a client.
    Chunk(ChunkEvent<'a>),
    /// A copy that a client offers before it sends it.
    Offer(OfferEvent<'a>),
    /// The device carried out [`Action::Open`], or failed to.
    Opened {
        /// The session.
        session: SessionId,
        /// The failure, if it failed.
        failure: Option<&'a Failure>,
    },
    /// [`Action::Return`] was carried out: the session's memory is on the device, or the session is
    /// being closed.
    Returned {
        /// The session.
        session: SessionId,
    },
    /// The device carried out [`Action::Start`].
    Completed(CompletedEvent<'a>),
    /// The device carried out [`Action::Close`].
    Closed {
        /// The session.
        session: SessionId,
    },
    /// The worker found that the session must fail: a wrong cost, or a transfer with a wrong hash. A slice's
    /// completion reports other faults.
    Fault {
        /// The session.
        session: SessionId,
        /// The op; 0 if it is none.
        op: OpNumber,
        /// The failure.
        failure: &'a Failure,
    },
    /// The worker found that the image which a session sent matches its hash.
    Image {
        /// The session.
        session: SessionId,
        /// The transfer that brought it.
        transfer: u64,
        /// The image.
        hash: ModuleHash,
        /// State of the image on the device.
        image: ImageReadiness<'a>,
    },
    /// The device has answered about an image.
    Prepared {
        /// The image.
        hash: ModuleHash,
        /// The failure, if the device cannot run it.
        refused: Option<&'a Failure>,
    },
    /// A time returned by [`Sequencer::next_wakeup`](super::Sequencer::next_wakeup) has come. Any other event
    /// serves as well.
    Timer,
    /// The worker drains: finish accepted grants, accept no more, then leave.
    Drain,
}

/// A batch, without its bytes.
#[derive(Debug, Clone, Copy)]
pub struct BatchEvent<'a> {
    /// The tenant that sent it, from the subject.
    pub tenant: &'a Tenant,
    /// The session.
    pub session: SessionId,
    /// First op.
    pub first: OpNumber,
    /// Number of ops.
    pub count: u32,
    /// Number of results that the client has received without a gap.
    pub results: u64,
    /// Bytes that the shell keeps if it keeps the batch.
    pub bytes: u64,
    /// Ops that have a result, in op order: op and maximum bytes of the result.
    pub outs: &'a [(OpNumber, u64)],
    /// Copies from staged transfers, in op order: op and transfer.
    pub staged: &'a [(OpNumber, u64)],
    /// Loads of images that the tenant did not send yet, in op order: op and image.
    pub loads: &'a [(OpNumber, ModuleHash)],
}

/// A part of a staged transfer, without its bytes.
#[derive(Debug, Clone, Copy)]
pub struct ChunkEvent<'a> {
    /// The tenant that sent it, from the subject.
    pub tenant: &'a Tenant,
    /// The session.
    pub session: SessionId,
    /// The transfer.
    pub transfer: u64,
    /// Bytes of the whole transfer.
    pub total: u64,
    /// Offset of the part.
    pub offset: u64,
    /// Bytes of the part.
    pub bytes: u64,
    /// The module's hash, if the transfer is an image.
    pub module: Option<ModuleHash>,
    /// State of that image on the device.
    pub image: ImageReadiness<'a>,
}

/// An offered copy, without its hashes.
#[derive(Debug, Clone, Copy)]
pub struct OfferEvent<'a> {
    /// The tenant that sent it, from the subject.
    pub tenant: &'a Tenant,
    /// The session.
    pub session: SessionId,
    /// The first of its transfers.
    pub transfer: u64,
    /// Bytes of the copy.
    pub total: u64,
    /// For each of its chunks, true if the worker holds it for this tenant.
    pub held: &'a [bool],
}

/// The end of a started slice on the device.
#[derive(Debug, Clone, Copy)]
pub struct CompletedEvent<'a> {
    /// Its position.
    pub position: GpuPosition,
    /// Its session.
    pub session: SessionId,
    /// Start of its first op, if the device knows.
    pub began: Option<Nanos>,
    /// Device nanoseconds it took.
    pub device_ns: u64,
    /// Bytes of each result, in op order.
    pub results: &'a [u64],
    /// Compilations of modules that it was the first to load.
    pub compiled: &'a [Compilation],
    /// The sum of [`bus_schemas::CostRun::declared`] over its ops, if they were started without a declared
    /// sum to check.
    pub declared: u64,
    /// The op that failed, with the failure; nothing after it ran.
    pub fault: Option<(OpNumber, &'a Failure)>,
}

/// An action of the sequencer; actions are carried out in their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Bring a session's memory to the device; answer with [`Event::Returned`].
    Return {
        /// The session.
        session: SessionId,
        /// The priority of the return.
        priority: u8,
    },
    /// Begin a session on the device; answer with [`Event::Opened`].
    Open(OpenAction),
    /// Run a slice, or the next part of a standing grant, on the device. Answer with [`Event::Completed`], in
    /// the order of a session's starts. All its ops were kept, and all its transfers are whole.
    Start(StartAction),
    /// End a session's work on the device soon: its close is accepted, and no more of the work is needed.
    /// Started slices complete with a fault.
    Stop {
        /// The session.
        session: SessionId,
    },
    /// End a session on the device, which runs nothing of it; answer with [`Event::Closed`].
    Close {
        /// The session.
        session: SessionId,
    },
    /// Keep the ops `first .. first + count` of the current batch, which begin at index `skip` of it. This
    /// comes at most once for a batch; without it, nothing of the batch is kept. It may come before the
    /// session's [`Action::Open`], because a client may send once its open grant is accepted.
    Keep {
        /// The session.
        session: SessionId,
        /// First op kept.
        first: OpNumber,
        /// Number of ops kept.
        count: u32,
        /// Index of the first op kept.
        skip: u32,
    },
    /// Forget ops through this number; they are not needed any more.
    Forget {
        /// The session.
        session: SessionId,
        /// Last op.
        through: OpNumber,
    },
    /// Store the current part into its transfer's buffer of `total` bytes. It, too, may come before the
    /// session's [`Action::Open`].
    Store {
        /// The session.
        session: SessionId,
        /// The transfer.
        transfer: u64,
        /// Bytes of the whole transfer.
        total: u64,
        /// Offset of the part.
        offset: u64,
    },
    /// Begin a new transfer of the current offer: keep the hashes of its chunks, and take the chunks that the
    /// worker has.
    Offered {
        /// The session.
        session: SessionId,
        /// The transfer.
        transfer: u64,
        /// Bytes of the whole transfer.
        total: u64,
        /// Range of its chunks among those of the offer.
        chunks: Range<usize>,
        /// Chunks that it takes: a bit for each, the lowest for the first.
        taken: u64,
        /// True if they are the whole transfer.
        whole: bool,
    },
    /// The transfer is complete. A module's image must be checked against its hash and prepared, and the
    /// module cache owns its buffer from now on. With `known`, no bytes were sent: the tenant sent the image
    /// before.
    Whole {
        /// The session.
        session: SessionId,
        /// The transfer.
        transfer: u64,
        /// The image's hash, if it is an image.
        module: Option<ModuleHash>,
        /// True if the worker has the image already.
        known: bool,
    },
    /// Number the results of the current completion from `first` on, keep them, and publish them now.
    Results {
        /// The session.
        session: SessionId,
        /// Number of the first result.
        first: u64,
    },
    /// Publish the kept results from this number on again.
    ResendResults {
        /// The session.
        session: SessionId,
        /// Number of the first result.
        from: u64,
    },
    /// Forget the results through this number; they are acknowledged.
    ForgetResults {
        /// The session.
        session: SessionId,
        /// Number of the last result.
        through: u64,
    },
    /// Forget everything of the session: ops, transfers, results.
    Ended {
        /// The session.
        session: SessionId,
    },
    /// Log for the evidence that a position has ended.
    Settled(Settled),
    /// Send this to the leader.
    SendDone(DoneMessage),
    /// Send this to the session's client.
    SendAck(Box<AckMessage>),
    /// Answer the current seal.
    SealReply(Box<SealReply>),
    /// Send this to the leader of a refused grant batch.
    Refuse(Refusal),
    /// Send a client a failure about a session that it may not speak for, or that is gone.
    Reject {
        /// The client's tenant.
        tenant: Tenant,
        /// The session that it named.
        session: SessionId,
        /// The failure.
        failure: Failure,
    },
    /// Send leaders a heartbeat, which is due.
    Beat(BeatAction),
    /// Leave the cluster.
    Exit(ExitReason),
}

/// See [`Action::Open`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenAction {
    /// The open grant's position.
    pub position: GpuPosition,
    /// The session.
    pub session: SessionId,
    /// Its tenant.
    pub tenant: Tenant,
    /// Its address window.
    pub window: Window,
    /// Memory that the tenant may hold, bytes.
    pub quota: u64,
    /// The tenant's priority.
    pub priority: u8,
}

/// See [`Action::Start`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartAction {
    /// The grant's position.
    pub position: GpuPosition,
    /// The session.
    pub session: SessionId,
    /// The priority of the grant; 0 is the most urgent.
    pub priority: u8,
    /// First op.
    pub first: OpNumber,
    /// Last op.
    pub last: OpNumber,
    /// The sum of [`bus_schemas::CostRun::declared`] that the ops must have. `None` for a part of a standing
    /// grant, which was not declared: its completion reports the sum.
    pub declared: Option<u64>,
    /// Charged device nanoseconds; estimated ones for a part.
    pub cost: u64,
    /// The epoch of the grant.
    pub epoch: Epoch,
}

/// The end of a position, in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The position.
    pub position: GpuPosition,
    /// The session.
    pub session: SessionId,
    /// Its tenant; `None` for a session that was never opened on this worker.
    pub tenant: Option<Tenant>,
    /// Its ordinal.
    pub ordinal: u64,
    /// The kind of the grant.
    pub kind: GrantKind,
    /// First op.
    pub first: OpNumber,
    /// Last op. If a slice failed, the op that did.
    pub last: OpNumber,
    /// Last op of the grant, as it stands in the chain: `last` if nothing failed.
    pub granted: OpNumber,
    /// Its outcome.
    pub outcome: Outcome,
    /// True if its last op failed, and the session with it.
    pub failed: bool,
}

/// See [`Action::Beat`]; the worker adds the other parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeatAction {
    /// The epoch that the worker is sealed to; 0 before the first.
    pub epoch: Epoch,
    /// Leader of that epoch.
    pub leader: LeaderId,
    /// True if the worker is draining.
    pub draining: bool,
}

/// The reason for which the worker leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// It was asked to leave, and everything accepted has ended.
    Drained,
    /// A leader declared it lost.
    Lost,
    /// A live worker has its gpu number.
    NumberTaken,
}
