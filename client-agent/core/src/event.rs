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
    /// The leader of that epoch.
    pub leader: LeaderId,
    /// A batch is sent once it has this many ops, at most [`limits::BATCH_OPS`].
    pub flush_ops: u32,
    /// A batch is sent once its descriptors and payloads have this many bytes.
    pub flush_bytes: usize,
    /// Ops may be pushed while the worker has fewer than this many bytes still to receive.
    pub unreceived_bytes: usize,
    /// Transfers may be staged while the worker has fewer than this many of their bytes still to
    /// receive.
    pub staged_bytes: u64,
    /// First wait before a message is sent again.
    pub resend_first: Nanos,
    /// Maximum wait; the wait doubles up to this.
    pub resend_most: Nanos,
    /// Additional wait for each staged byte that is on its way.
    pub byte_ns: Nanos,
    /// The session fails if the peer that it waits for is silent for so long; `Nanos::MAX` waits
    /// forever.
    pub deadline: Nanos,
}

impl OutboxSettings {
    /// The settings of the protocol's own limits.
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
        // One more op may follow after the threshold, with the largest possible payload.
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
    /// Sends the ops that were pushed. The caller does this after a push that
    /// [`crate::Outbox::wants_flush`].
    Flush,
    /// An acknowledgement from the session's worker.
    WorkerAck(&'a WorkerAck<'a>),
    /// A notice from the leader about this session.
    LeaderNotice(&'a LeaderNotice),
    /// A result from the session's worker, and the message it was decoded from. The data of a copy
    /// stays a part of that message.
    Result(DeviceResult<'a>, &'a Bytes),
    /// The worker or leader could not read a message of this session.
    Error(Failure),
    /// A leader's term began.
    Term(LeaderBeat),
    /// The connection to the broker is lost.
    Disconnected,
    /// The connection to the broker is back; messages under way may be lost.
    Reconnected,
    /// The time of [`crate::Outbox::next_wakeup`] has come. Early or additional ticks do no harm.
    Tick,
    /// Ends the session after the ops pushed so far.
    Close(CloseReason),
}

/// An action that an outbox requests from its caller; actions are done in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Publish an encoded [`bus_schemas::Batch`] to the worker.
    PublishBatch {
        /// The message. Its memory returns to the outbox when it is dropped.
        bytes: Bytes,
        /// First op.
        first: OpNumber,
        /// Last op.
        last: OpNumber,
        /// True if the batch was published before.
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
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes; 0 for an offer of a module image.
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
    /// A part of a copy to the host has arrived. All parts come before its [`Action::Result`], in
    /// any order; bytes that come twice are equal.
    Part {
        /// The op.
        op: OpNumber,
        /// Offset of the bytes within the copy.
        offset: u64,
        /// The bytes, which are a part of the message that carried them.
        bytes: Bytes,
    },
    /// An op has been answered, or ([`ResultKind::Printed`]) has failed after its session printed
    /// something. Each comes once, in op order.
    Result {
        /// The op.
        op: OpNumber,
        /// The kind of the answer.
        kind: ResultKind,
        /// Device nanoseconds of the session's ops since the previous result.
        device_ns: u64,
        /// The rows of symbols, or the output of kernels; empty for a copy to the host.
        bytes: Vec<u8>,
        /// For each timed event recorded since the previous result, the last time at which it was
        /// recorded.
        events: Vec<EventTime>,
    },
    /// The worker has said whether its device can run a staged module image. Comes once for each
    /// image.
    Image {
        /// The image's transfer.
        transfer: u64,
        /// The reason why the device cannot run it, if it cannot.
        refused: Option<Failure>,
    },
    /// The session can run no more; everything that waits fails with this. Comes at most once.
    Failed {
        /// The op that failed; 0 if no op did.
        op: OpNumber,
        /// The failure.
        failure: Failure,
    },
    /// The session has ended: the outbox does nothing more. Comes at most once.
    Ended,
}

/// The reason why an op was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// Too much is on its way. Flush, wait until [`crate::Outbox::has_room`] (for a transfer,
    /// [`crate::Outbox::has_staging_room`]), then try again.
    #[error("the outbox is full")]
    Full,
    /// The session has failed or ended.
    #[error(transparent)]
    Failed(Failure),
    /// The session is closing.
    #[error("the session is closed")]
    Closed,
    /// The op is one that no worker would accept.
    #[error("malformed op: {0}")]
    Invalid(&'static str),
}
