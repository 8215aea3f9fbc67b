//! Events that the sequencer takes, and actions that it answers with.

use std::ops::Range;

use bus_schemas::{
    ClientState, Epoch, Failure, GpuId, GpuPosition, GrantBatch, GrantKind, Incarnation, LeaderId,
    Leave, Lost, ModuleHash, OpNumber, Outcome, Refusal, Seal, SealReply, SessionId, Tenant,
    Window,
};

use super::images::ImageState;
use super::messages::{AckMessage, DoneMessage};
use crate::Nanos;

/// The worker's identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// This start of it.
    pub incarnation: Incarnation,
    /// Its device.
    pub gpu: GpuId,
    /// Memory a tenant can be given, bytes: the device's capacity minus the reserve.
    pub capacity: u64,
}

/// An event of the sequencer.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// From a leader.
    GrantBatch(&'a GrantBatch<'a>),
    /// From a leader, a request; answered at once by [`Action::SealReply`].
    Seal(&'a Seal),
    /// From a leader.
    Lost(&'a Lost),
    /// From a leader: the worker is drained and, as far as that leader knows, has no session.
    Leave(&'a Leave),
    /// From a client: a batch whose ops were checked.
    Batch(BatchEvent<'a>),
    /// From a client.
    ClientState {
        /// Who says so, from the subject.
        tenant: &'a Tenant,
        /// The session.
        session: SessionId,
        /// The message.
        state: ClientState,
    },
    /// From a client: a part of a staged transfer.
    Chunk(ChunkEvent<'a>),
    /// A copy that a client offers before it sends it.
    Offer(OfferEvent<'a>),
    /// The device carried out [`Action::Open`], or failed to.
    Opened {
        /// The session.
        session: SessionId,
        /// Why not.
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
    /// The shell found that the session may not go on (a wrong cost, a transfer with a wrong
    /// hash), beside what a slice's completion says.
    Fault {
        /// The session.
        session: SessionId,
        /// The op, 0 where it is none.
        op: OpNumber,
        /// Why.
        failure: &'a Failure,
    },
    /// The image that a session gave is what its hash says.
    Image {
        /// The session.
        session: SessionId,
        /// The transfer that it came in.
        transfer: u64,
        /// The image.
        hash: ModuleHash,
        /// What the device says of it.
        image: ImageState<'a>,
    },
    /// The device has answered about an image.
    Prepared {
        /// The image.
        hash: ModuleHash,
        /// Why it cannot run it.
        refused: Option<&'a Failure>,
    },
    /// A time named by [`Sequencer::next_wakeup`](super::Sequencer::next_wakeup) has come. Any
    /// other event serves as well.
    Tick,
    /// Finish what is accepted, accept no more, then leave.
    Drain,
}

/// A batch, without its bytes.
#[derive(Debug, Clone, Copy)]
pub struct BatchEvent<'a> {
    /// Who sent it, from the subject.
    pub tenant: &'a Tenant,
    /// The session.
    pub session: SessionId,
    /// First op.
    pub first: OpNumber,
    /// Ops.
    pub count: u32,
    /// Results the client has received without a gap.
    pub results: u64,
    /// Bytes the shell keeps if it keeps the batch.
    pub bytes: u64,
    /// Ops among them that have a result: op and the most bytes it can have, in op order.
    pub outs: &'a [(OpNumber, u64)],
    /// Copies from staged transfers among the ops: op and transfer, in op order.
    pub staged: &'a [(OpNumber, u64)],
    /// Loads among the ops of images that the tenant did not give yet: op and image, in op order.
    pub loads: &'a [(OpNumber, ModuleHash)],
}

/// A part of a staged transfer, without its bytes.
#[derive(Debug, Clone, Copy)]
pub struct ChunkEvent<'a> {
    /// Who sent it, from the subject.
    pub tenant: &'a Tenant,
    /// The session.
    pub session: SessionId,
    /// The transfer.
    pub transfer: u64,
    /// Bytes of the whole transfer.
    pub total: u64,
    /// Where the part lies.
    pub offset: u64,
    /// Bytes of the part.
    pub bytes: u64,
    /// The module's hash, if the transfer is an image.
    pub module: Option<ModuleHash>,
    /// What the device says of that image.
    pub image: ImageState<'a>,
}

/// An offered copy, without its hashes.
#[derive(Debug, Clone, Copy)]
pub struct OfferEvent<'a> {
    /// Who sent it, from the subject.
    pub tenant: &'a Tenant,
    /// The session.
    pub session: SessionId,
    /// The first of its transfers.
    pub transfer: u64,
    /// Bytes of the copy.
    pub total: u64,
    /// Of each of its chunks whether the worker holds it for this tenant.
    pub held: &'a [bool],
}

/// The end of a started slice on the device.
#[derive(Debug, Clone, Copy)]
pub struct CompletedEvent<'a> {
    /// Its position.
    pub position: GpuPosition,
    /// Its session.
    pub session: SessionId,
    /// When its first op began, where the device knows.
    pub began: Option<Nanos>,
    /// Device nanoseconds it took.
    pub device_ns: u64,
    /// Bytes of each result, in op order.
    pub results: &'a [u64],
    /// The sum of [`bus_schemas::CostRun::declared`] over its ops, where they were started without
    /// one to hold it against.
    pub declared: u64,
    /// The op that failed and why; nothing after it ran.
    pub fault: Option<(OpNumber, &'a Failure)>,
}

/// An action of the sequencer; actions are done in their order.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Have a session's memory on the device; answer with [`Event::Returned`].
    Return {
        /// The session.
        session: SessionId,
        /// The priority that it returns at.
        priority: u8,
    },
    /// Begin a session on the device; answer with [`Event::Opened`].
    Open(OpenAction),
    /// Run a slice, or the next part of a standing grant, on the device; answer with
    /// [`Event::Completed`], in the order of a session's starts. All its ops were kept, all its
    /// transfers are whole.
    Start(StartAction),
    /// End what a session has on the device, soon: its close is accepted, and nothing more of it is
    /// wanted. What was started completes with a fault.
    Stop {
        /// The session.
        session: SessionId,
    },
    /// End a session on the device (nothing of it is running); answer with [`Event::Closed`].
    Close {
        /// The session.
        session: SessionId,
    },
    /// Of the batch just told of, keep the ops `first .. first + count`, which begin at index
    /// `skip` of it. Said at most once for a batch; not said, nothing of it is kept. It may come
    /// before the session's [`Action::Open`]: a client may send once its open grant is accepted.
    Keep {
        /// The session.
        session: SessionId,
        /// First op kept.
        first: OpNumber,
        /// Ops kept.
        count: u32,
        /// Index of the first op kept.
        skip: u32,
    },
    /// Ops through this number are not needed any more.
    Forget {
        /// The session.
        session: SessionId,
        /// Last op.
        through: OpNumber,
    },
    /// Store the part just told of into its transfer's buffer of `total` bytes. It, too, may come
    /// before the session's [`Action::Open`].
    Store {
        /// The session.
        session: SessionId,
        /// The transfer.
        transfer: u64,
        /// Bytes of the whole transfer.
        total: u64,
        /// Where the part lies.
        offset: u64,
    },
    /// A transfer of the offer at hand is new: keep the hashes of its chunks, and take those chunks that
    /// are here.
    Offered {
        /// The session.
        session: SessionId,
        /// The transfer.
        transfer: u64,
        /// Bytes of the whole transfer.
        total: u64,
        /// Its chunks among those of the offer.
        chunks: Range<usize>,
        /// Which of them it takes: a bit for each, the lowest for the first.
        taken: u64,
        /// They are all of it.
        whole: bool,
    },
    /// Every byte of the transfer is stored. A module's image is to be checked against its hash
    /// and prepared, and its buffer is the module cache's from now on. With `known`, nothing
    /// was sent: the tenant gave the image before.
    Whole {
        /// The session.
        session: SessionId,
        /// The transfer.
        transfer: u64,
        /// The image's hash, if it is one.
        module: Option<ModuleHash>,
        /// The image is already here.
        known: bool,
    },
    /// The completion just told of has results: number them from `first` on, keep them, and
    /// publish them now.
    Results {
        /// The session.
        session: SessionId,
        /// Number of the first.
        first: u64,
    },
    /// Publish the kept results from this number on again.
    ResendResults {
        /// The session.
        session: SessionId,
        /// Number of the first.
        from: u64,
    },
    /// Results through this number are acknowledged.
    ForgetResults {
        /// The session.
        session: SessionId,
        /// Number of the last.
        through: u64,
    },
    /// Everything of the session can be forgotten: ops, transfers, results.
    Ended {
        /// The session.
        session: SessionId,
    },
    /// A position has ended: for the evidence log.
    Settled(Settled),
    /// To the leader.
    SendDone(DoneMessage),
    /// To the session's client.
    SendAck(Box<AckMessage>),
    /// The answer to the seal just told of.
    SealReply(Box<SealReply>),
    /// To the leader whose grant batch was refused.
    Refuse(Refusal),
    /// To a client: a failure about a session it may not speak for, or that is gone.
    Reject {
        /// The client's tenant.
        tenant: Tenant,
        /// The session it named.
        session: SessionId,
        /// Why.
        failure: Failure,
    },
    /// To leaders: a beat is due.
    Beat(BeatAction),
    /// Leave.
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
    /// Its addresses.
    pub window: Window,
    /// Memory the tenant may hold, bytes.
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
    /// The priority it was granted at; 0 is the most urgent.
    pub priority: u8,
    /// First op.
    pub first: OpNumber,
    /// Last op.
    pub last: OpNumber,
    /// The sum of [`bus_schemas::CostRun::declared`] that the ops must have. `None` for a part of a
    /// standing grant, which was declared to nobody: its completion says the sum.
    pub declared: Option<u64>,
    /// Charged device nanoseconds; of a part, estimated ones.
    pub cost: u64,
    /// The epoch that granted it.
    pub epoch: Epoch,
}

/// The end of a position, in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settled {
    /// The position.
    pub position: GpuPosition,
    /// The session.
    pub session: SessionId,
    /// Its tenant; `None` for a session that was never opened here.
    pub tenant: Option<Tenant>,
    /// Its ordinal.
    pub ordinal: u64,
    /// What the grant does.
    pub kind: GrantKind,
    /// First op.
    pub first: OpNumber,
    /// Last op. Where a slice failed, the op that did.
    pub last: OpNumber,
    /// Last op of the grant, as it stands in the chain: `last` where nothing failed.
    pub granted: OpNumber,
    /// How it ended.
    pub outcome: Outcome,
    /// Its last op failed, and the session with it.
    pub failed: bool,
}

/// See [`Action::Beat`]; the shell adds what does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BeatAction {
    /// The epoch the worker is sealed to, 0 before the first.
    pub epoch: Epoch,
    /// That epoch's leader.
    pub leader: LeaderId,
    /// The worker is draining.
    pub draining: bool,
}

/// The reason why the worker leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitReason {
    /// It was asked to, and everything accepted has ended.
    Drained,
    /// A leader declared it lost.
    Lost,
}
