//! The events that an outbox takes and the actions it answers with.

use bus_schemas::{
    CloseReason, DeviceResult, Epoch, EventTime, Failure, LeaderBeat, LeaderId, LeaderNotice,
    OpNumber, ResultKind, SessionId, WorkerAck, limits,
};
use bytes::Bytes;

/// Nanoseconds of a monotonic clock that the caller reads.
pub type Nanos = u64;

/// The settings of an outbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxSettings {
    /// The session.
    pub session: SessionId,
    /// The epoch that opened it.
    pub epoch: Epoch,
    /// That epoch's leader.
    pub leader: LeaderId,
    /// A batch is sent when it has this many ops, at most [`limits::BATCH_OPS`].
    pub flush_ops: u32,
    /// A batch is sent when its descriptors and payloads have this many bytes.
    pub flush_bytes: usize,
    /// Ops may be pushed while fewer bytes than this are not received by the worker.
    pub unreceived_bytes: usize,
    /// Transfers may be staged while fewer bytes than this are not received by the worker.
    pub staged_bytes: u64,
    /// First wait before something is sent again.
    pub resend_first: Nanos,
    /// The wait doubles up to this.
    pub resend_most: Nanos,
    /// How long it waits beside for each staged byte that is on its way.
    pub byte_ns: Nanos,
    /// The session fails when whom it waits for is silent so long; `Nanos::MAX` waits for ever.
    pub deadline: Nanos,
}

impl OutboxSettings {
    /// The protocol's own numbers.
    #[must_use]
    pub fn new(session: SessionId, epoch: Epoch, leader: LeaderId) -> Self {
        Self {
            session,
            epoch,
            leader,
            flush_ops: 256,
            flush_bytes: 64 << 10,
            unreceived_bytes: 4 << 20,
            staged_bytes: 16 << 20,
            resend_first: 5_000_000,
            resend_most: 200_000_000,
            byte_ns: 10,
            deadline: Nanos::MAX,
        }
    }

    pub(crate) fn checked(mut self) -> Self {
        self.flush_ops = self.flush_ops.clamp(1, limits::BATCH_OPS);
        // One more op may follow behind the threshold, with the largest payload there is.
        let largest = limits::BATCH_BYTES - limits::PARAM_BYTES - bus_schemas::DESCRIPTOR_BYTES;
        self.flush_bytes = self.flush_bytes.clamp(1, largest);
        self.unreceived_bytes = self.unreceived_bytes.max(1);
        self.staged_bytes = self.staged_bytes.max(1);
        self.resend_first = self.resend_first.max(1);
        self.resend_most = self.resend_most.max(self.resend_first);
        self
    }
}

/// An event of an outbox.
#[derive(Debug, Clone)]
pub enum Event<'a> {
    /// Send what was pushed. The caller does this after a push that [`crate::Outbox::wants_flush`].
    Flush,
    /// From the session's worker.
    WorkerAck(&'a WorkerAck<'a>),
    /// From the leader, about this session.
    LeaderNotice(&'a LeaderNotice),
    /// From the session's worker; and the message it was decoded from, which what a copy brought
    /// stays a part of.
    Result(DeviceResult<'a>, &'a Bytes),
    /// Worker or leader could not read a message of this session.
    Error(Failure),
    /// A leader's term began.
    Term(LeaderBeat),
    /// The connection to the broker is gone.
    Disconnected,
    /// The connection to the broker is back: whatever was under way may be lost.
    Reconnected,
    /// The time of [`crate::Outbox::next_wakeup`] has come. Early or spare ticks do no harm.
    Tick,
    /// End the session after the ops pushed so far.
    Close(CloseReason),
}

/// An action that an outbox asks of its caller; actions are done in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Publish an encoded [`bus_schemas::Batch`] to the worker.
    PublishBatch {
        /// The message. Dropping it gives its memory back to the outbox.
        bytes: Bytes,
        /// First op.
        first: OpNumber,
        /// Last op.
        last: OpNumber,
        /// Whether the batch was published before.
        again: bool,
    },
    /// Publish an encoded [`bus_schemas::Intent`] to the leader.
    PublishIntent {
        /// The message.
        bytes: Bytes,
    },
    /// Publish an encoded [`bus_schemas::ClientState`] to the worker.
    PublishState {
        /// The message.
        bytes: Bytes,
    },
    /// Publish a part of a transfer to the worker: [`crate::Outbox::chunk`] is the message.
    PublishChunk {
        /// The transfer.
        transfer: u64,
        /// Where the bytes begin.
        offset: u64,
        /// Bytes; 0 for an offer of a module image.
        len: u32,
    },
    /// Publish an encoded [`bus_schemas::CopyOffer`] to the worker.
    PublishOffer {
        /// The message.
        bytes: Bytes,
    },
    /// Publish an encoded [`bus_schemas::CloseRequest`] to the leader; the answer, a notice, goes
    /// to the session's own leader subject.
    PublishClose {
        /// The message.
        bytes: Bytes,
    },
    /// A part of what a copy to the host brings is here. All come before its [`Action::Result`],
    /// in any order; bytes that come twice are the same.
    Part {
        /// The op.
        op: OpNumber,
        /// Where the bytes lie among those asked for.
        offset: u64,
        /// The bytes: a part of the message that brought them.
        bytes: Bytes,
    },
    /// An op has been answered, or ([`ResultKind::Printed`]) has failed after its session printed
    /// something. Each comes once, in op order.
    Result {
        /// The op.
        op: OpNumber,
        /// What kind of answer.
        kind: ResultKind,
        /// Device nanoseconds of the session's ops since the previous result.
        device_ns: u64,
        /// The rows of symbols, or what kernels printed; nothing for a copy to the host.
        bytes: Vec<u8>,
        /// Of each timed event recorded since the previous result, when it was recorded last.
        events: Vec<EventTime>,
    },
    /// The worker has said whether its device can run a module image that was staged. Comes once for
    /// each.
    Image {
        /// The image's transfer.
        transfer: u64,
        /// Why it cannot.
        refused: Option<Failure>,
    },
    /// The session can run no more; everything waiting fails with this. Comes once at most.
    Failed {
        /// The op that failed, 0 where it was none.
        op: OpNumber,
        /// Why.
        failure: Failure,
    },
    /// The session has ended: the outbox does nothing more. Comes once at most.
    Ended,
}

/// The reason why an op was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Too much is on its way: flush, wait until [`crate::Outbox::has_room`] (for a transfer,
    /// [`crate::Outbox::has_staging_room`]), then try again.
    #[error("the outbox is full")]
    Full,
    /// The session has failed or ended.
    #[error(transparent)]
    Failed(Failure),
    /// The session is closing.
    #[error("the session is closed")]
    Closed,
    /// No worker would take the op.
    #[error("malformed op: {0}")]
    Invalid(&'static str),
}
