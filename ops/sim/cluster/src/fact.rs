//! Facts that nodes tell those who watch, beside what the bus shows.

use bus_schemas::{
    Code, Epoch, Failure, GpuId, GpuPosition, GrantKind, Incarnation, OpNumber, Opened, Outcome,
    SessionId, Tenant, UsageBlock,
};

/// One thing that happened inside a node.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact {
    /// A leader says it.
    Leader(LeaderFact),
    /// A worker says it.
    Worker(Incarnation, WorkerFact),
    /// A client says it.
    Client(ClientFact),
    /// A node has nothing left to do, or nothing but to ask for sessions again.
    Finished,
    /// It has something to do again.
    WentOn,
    /// A core answered in a way its shell cannot carry out.
    Broken {
        /// How.
        why: String,
    },
}

impl From<LeaderFact> for Fact {
    fn from(fact: LeaderFact) -> Self {
        Self::Leader(fact)
    }
}

impl From<ClientFact> for Fact {
    fn from(fact: ClientFact) -> Self {
        Self::Client(fact)
    }
}

/// What a leader says.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaderFact {
    /// It cut a block of its record.
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
    /// It heard that the store has a block, and all before it.
    Recorded {
        /// Its epoch.
        epoch: Epoch,
        /// Its number.
        number: u64,
    },
}

/// What a worker says.
#[derive(Debug, Clone, PartialEq)]
pub enum WorkerFact {
    /// Its process began.
    Began {
        /// Its device.
        gpu: GpuId,
    },
    /// Its device began a slice.
    Started {
        /// At which position.
        position: GpuPosition,
        /// The session.
        session: SessionId,
        /// First op.
        first: OpNumber,
        /// Last op.
        last: OpNumber,
    },
    /// Its device ran an op.
    Ran {
        /// The session.
        session: SessionId,
        /// The op's number.
        op: OpNumber,
        /// Fingerprint of what ran.
        print: u64,
    },
    /// Its device began or ended a session.
    Device {
        /// The session.
        session: SessionId,
        /// Begun, or ended.
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
    /// A session holds so much memory from now on.
    Held {
        /// The session.
        session: SessionId,
        /// Bytes that it may hold at most.
        most: u64,
        /// Bytes resident, as the device says once a slice has ended.
        resident: Option<u64>,
    },
    /// The memory of a session has left its device, or is about to be there.
    Swapped {
        /// The session.
        session: SessionId,
        /// It has left.
        out: bool,
    },
    /// A session's memory has moved.
    Moved {
        /// The session.
        session: SessionId,
        /// Off the device.
        out: bool,
        /// Bytes.
        bytes: u64,
    },
    /// It refused an op its memory.
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
    /// It cut a block of its usage.
    UsageCut {
        /// The block.
        block: Box<UsageBlock>,
    },
    /// It told its device to end what runs of a session whose close it has accepted.
    Stopped {
        /// The session.
        session: SessionId,
        /// Device nanoseconds that the slice has run.
        ran: u64,
    },
    /// A position ended.
    Settled {
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
}

/// What a client says.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientFact {
    /// It asks for sessions, for the first time or again.
    Asked {
        /// By this number.
        nonce: u64,
        /// Whose.
        tenant: Tenant,
        /// On so many devices.
        devices: u32,
    },
    /// It got the sessions it asked for.
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
    /// It was refused what it asked for and will ask again.
    Declined {
        /// By this number.
        nonce: u64,
        /// Why.
        code: Code,
    },
    /// It could not open a session and gave up.
    Refused {
        /// Why.
        failure: Failure,
    },
    /// It pushed an op.
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
    /// It closes a session.
    Closing {
        /// The session.
        session: SessionId,
    },
    /// It got an answer.
    Answered {
        /// The session.
        session: SessionId,
        /// The op.
        op: OpNumber,
        /// The bytes are those that the client's own model has.
        right: bool,
    },
    /// A session failed, as it was told.
    Failed {
        /// The session.
        session: SessionId,
        /// The op, 0 where it was none.
        op: OpNumber,
        /// Why.
        failure: Failure,
    },
    /// A session ended, as it was told.
    Ended {
        /// The session.
        session: SessionId,
    },
}
