//! What nodes tell the checkers beside what the bus shows.

use bus_schemas::{
    Code, Epoch, Failure, GpuId, GpuPosition, GrantKind, Incarnation, OpNumber, Opened, Outcome,
    SessionId, Tenant, UsageBlock,
};

/// One thing that happened inside a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fact {
    /// A worker process began.
    WorkerStarted {
        /// Its incarnation.
        incarnation: Incarnation,
        /// Its device.
        gpu: GpuId,
    },
    /// A client asks for sessions, for the first time or again.
    Asked {
        /// By this number.
        nonce: u64,
        /// Whose.
        tenant: Tenant,
        /// On so many devices.
        devices: u32,
    },
    /// A client got the sessions it asked for.
    Opened {
        /// The number it asked by.
        nonce: u64,
        /// Whose.
        tenant: Tenant,
        /// One on each device.
        devices: Vec<Opened>,
        /// The client means the first to fail (it lies, faults, or falls silent).
        doomed: bool,
    },
    /// A client was refused what it asked for and will ask again.
    Declined {
        /// By this number.
        nonce: u64,
        /// Why.
        code: Code,
    },
    /// A client pushed an op.
    Submitted {
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
        /// Fingerprint of the op and its payload.
        print: u64,
        /// Whether the client waits for its answer.
        answered: bool,
        /// What it allocates, or frees (no bytes): address and bytes.
        memory: Option<(u64, u64)>,
    },
    /// A client closes a session.
    Closing {
        /// The session.
        session: SessionId,
    },
    /// A device began a slice.
    Started {
        /// On which worker.
        incarnation: Incarnation,
        /// At which position.
        position: GpuPosition,
        /// The session.
        session: SessionId,
        /// First op.
        first: OpNumber,
        /// Last op.
        last: OpNumber,
    },
    /// A device ran an op.
    Ran {
        /// On which worker.
        incarnation: Incarnation,
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
        /// Fingerprint of what ran.
        print: u64,
    },
    /// A device began or ended a session.
    Device {
        /// On which worker.
        incarnation: Incarnation,
        /// The session.
        session: SessionId,
        /// Begun, or ended.
        open: bool,
    },
    /// An op of a session touched memory.
    Touched {
        /// On which worker.
        incarnation: Incarnation,
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// A session holds so much memory from now on.
    Held {
        /// On which worker.
        incarnation: Incarnation,
        /// The session.
        session: SessionId,
        /// Bytes that it may hold at most.
        most: u64,
        /// Bytes resident, as the device says once a slice has ended.
        resident: Option<u64>,
    },
    /// A worker refused an op its memory.
    Denied {
        /// On which worker.
        incarnation: Incarnation,
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
    },
    /// A slice has used the device.
    Used {
        /// On which worker.
        incarnation: Incarnation,
        /// The session.
        session: SessionId,
        /// Launches.
        launches: u64,
        /// Device nanoseconds.
        device_ns: u64,
        /// SM-nanoseconds.
        sm_ns: u64,
    },
    /// A worker cut a block of its accounts.
    Accounted {
        /// The block.
        block: Box<UsageBlock>,
    },
    /// A worker told its device to end what runs of a session whose close it has accepted.
    Stopped {
        /// On which worker.
        incarnation: Incarnation,
        /// The session.
        session: SessionId,
        /// Device nanoseconds that the slice has run.
        ran: u64,
    },
    /// A worker's position ended.
    Settled {
        /// On which worker.
        incarnation: Incarnation,
        /// The position.
        position: GpuPosition,
        /// What the grant did.
        kind: GrantKind,
        /// The session.
        session: SessionId,
        /// First op.
        first: OpNumber,
        /// Last op.
        last: OpNumber,
        /// How it ended.
        outcome: Outcome,
    },
    /// A leader cut a block of its record.
    Cut {
        /// Its epoch.
        epoch: Epoch,
        /// Its number.
        number: u64,
        /// Its bytes.
        bytes: u64,
        /// It says that what follows goes unrecorded.
        gap: bool,
    },
    /// A leader heard that the store has a block, and all before it.
    Recorded {
        /// Its epoch.
        epoch: Epoch,
        /// Its number.
        number: u64,
    },
    /// A client got an answer.
    Answered {
        /// The session.
        session: SessionId,
        /// The op.
        op: OpNumber,
        /// The bytes are those that the client's own model has.
        right: bool,
    },
    /// A session failed, as its client was told.
    Failed {
        /// The session.
        session: SessionId,
        /// The op, 0 where it was none.
        op: OpNumber,
        /// Why.
        failure: Failure,
    },
    /// A session ended, as its client was told.
    Ended {
        /// The session.
        session: SessionId,
    },
    /// A client could not open a session and gave up.
    Refused {
        /// Why.
        failure: Failure,
    },
    /// A client has nothing left to do, or nothing but to ask for sessions again.
    Finished,
    /// It has something to do again.
    WentOn,
    /// A core answered in a way its shell cannot carry out.
    Broken {
        /// How.
        why: String,
    },
}
