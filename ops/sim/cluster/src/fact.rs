//! Facts that nodes tell the observer, beside the messages on the bus.

use bus_schemas::{
    Code, Epoch, Failure, GpuId, GpuPosition, GrantKind, Incarnation, OpNumber, Opened, Outcome,
    SessionId, Tenant, UsageBlock,
};

use gpu_worker_core::exports::DeviceAction;

/// An event inside a node.
#[derive(Debug, Clone, PartialEq)]
pub enum NodeFact {
    /// A fact from a leader.
    Leader(LeaderFact),
    /// A fact from a worker.
    Worker(Incarnation, WorkerFact),
    /// A fact from a client.
    Client(ClientFact),
    /// A node has finished, or only asks for sessions again.
    Finished,
    /// A node has work again.
    WentOn,
    /// A core answered with an action that its shell cannot carry out.
    Broken {
        /// The problem.
        why: String,
    },
}

impl From<LeaderFact> for NodeFact {
    fn from(fact: LeaderFact) -> Self {
        Self::Leader(fact)
    }
}

impl From<ClientFact> for NodeFact {
    fn from(fact: ClientFact) -> Self {
        Self::Client(fact)
    }
}

/// A fact from a leader.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaderFact {
    /// The leader cut a block of its record.
    Cut {
        /// Its epoch.
        epoch: Epoch,
        /// Its number.
        number: u64,
        /// Its bytes.
        bytes: u64,
        /// True if inputs after it go unrecorded.
        gap: bool,
    },
    /// The leader heard that the store has a block, and all before it.
    Recorded {
        /// Its epoch.
        epoch: Epoch,
        /// Its number.
        number: u64,
    },
}

/// A fact from a worker.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerFact {
    /// The worker's process began.
    Began {
        /// Its device.
        gpu: GpuId,
    },
    /// The worker's device began a slice.
    Started {
        /// The position.
        position: GpuPosition,
        /// The session.
        session: SessionId,
        /// First op.
        first: OpNumber,
        /// Last op.
        last: OpNumber,
    },
    /// The worker's device ran an op.
    Ran {
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
        /// Fingerprint of the op.
        print: u64,
    },
    /// The worker's device began or ended a session.
    Device {
        /// The session.
        session: SessionId,
        /// True if begun, false if ended.
        open: bool,
    },
    /// An op of a session touched memory.
    Touched {
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
        /// First address.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// A session holds this memory from now on.
    Held {
        /// The session.
        session: SessionId,
        /// Maximum bytes that it may hold.
        most: u64,
        /// Resident bytes, as the device reports once a slice has ended.
        resident: Option<u64>,
    },
    /// The memory of a session has left its device, or is about to return.
    Swapped {
        /// The session.
        session: SessionId,
        /// True if it has left.
        out: bool,
    },
    /// A session's memory has moved.
    Moved {
        /// The session.
        session: SessionId,
        /// True if it moved off the device.
        out: bool,
        /// Bytes.
        bytes: u64,
    },
    /// The worker's device acted on memory that sessions share.
    Exchanged {
        /// The session.
        session: SessionId,
        /// The action.
        action: DeviceAction,
        /// Bytes of the allocation that was exported, or 0; `None` if the device refused.
        bytes: Option<u64>,
    },
    /// The worker leaves, as a leader told it.
    Left,
    /// An export is gone: its allocation was freed, alone or with its session.
    ExportGone {
        /// Number of the export.
        export: u64,
    },
    /// The worker hears from its device that an export is gone.
    ExportForgotten {
        /// Number of the export.
        export: u64,
    },
    /// The worker refused an op its memory.
    Denied {
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
    },
    /// A slice has used the device.
    Used {
        /// The session.
        session: SessionId,
        /// Launches.
        launches: u64,
        /// Device nanoseconds.
        device_ns: u64,
        /// SM-nanoseconds.
        sm_ns: u64,
    },
    /// The worker cut a block of its usage.
    UsageCut {
        /// The block.
        block: Box<UsageBlock>,
    },
    /// The worker told its device to end the slice of a session with an accepted close.
    Stopped {
        /// The session.
        session: SessionId,
        /// Device nanoseconds of the slice so far.
        ran: u64,
    },
    /// A position ended.
    Settled {
        /// The position.
        position: GpuPosition,
        /// Kind of the grant.
        kind: GrantKind,
        /// The session.
        session: SessionId,
        /// First op.
        first: OpNumber,
        /// Last op.
        last: OpNumber,
        /// Outcome of the position.
        outcome: Outcome,
    },
}

/// A fact from a client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientFact {
    /// The client asks for sessions, for the first time or again.
    Asked {
        /// Number of the request.
        nonce: u64,
        /// The client's tenant.
        tenant: Tenant,
        /// Number of devices.
        devices: u32,
    },
    /// The client got the sessions that it asked for.
    Opened {
        /// Number of the request.
        nonce: u64,
        /// The client's tenant.
        tenant: Tenant,
        /// The sessions, one on each device.
        devices: Vec<Opened>,
        /// True if the client means the first to fail (it lies, faults, or falls silent).
        doomed: bool,
    },
    /// The client's request was refused, and the client will ask again.
    Declined {
        /// Number of the request.
        nonce: u64,
        /// The reason.
        code: Code,
    },
    /// The client could not open a session and gave up.
    Refused {
        /// The reason.
        failure: Failure,
    },
    /// The client pushed an op.
    Submitted {
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
        /// Fingerprint of the op and its payload.
        print: u64,
        /// True if the client waits for its answer.
        answered: bool,
        /// Address and bytes of an allocation, or of a free (bytes 0).
        memory: Option<(u64, u64)>,
    },
    /// The client asked its worker for memory.
    Requested {
        /// The session.
        session: SessionId,
        /// Bytes that the session would like to hold in all.
        wanted: u64,
    },
    /// The worker answered such a request.
    Promised {
        /// The session.
        session: SessionId,
        /// Bytes that the session may hold in all.
        committed: u64,
    },
    /// The client closes a session.
    Closing {
        /// The session.
        session: SessionId,
    },
    /// The client got an answer.
    Answered {
        /// The session.
        session: SessionId,
        /// The op.
        op: OpNumber,
        /// True if the bytes are those of the client's own model.
        right: bool,
    },
    /// The client was told that a session failed.
    Failed {
        /// The session.
        session: SessionId,
        /// The op, or 0 if there is none.
        op: OpNumber,
        /// The reason.
        failure: Failure,
    },
    /// The client was told that a session ended.
    Ended {
        /// The session.
        session: SessionId,
    },
}
