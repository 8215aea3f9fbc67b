//! The lines of the files of evidence.

use serde::{Deserialize, Serialize};

use crate::record::{PositionRow, With};

/// A line of `submitted.jsonl`: ops a client sent for the first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The session.
    pub session: String,
    /// Its tenant.
    pub tenant: String,
    /// The session's number among its tenant's, from 1.
    pub ordinal: u64,
    /// First op.
    pub first: u64,
    /// Last op.
    pub last: u64,
}

impl Submitted {
    /// The sort key of lines.
    #[must_use]
    pub fn key(&self) -> (&str, u64, &str, u64) {
        (&self.tenant, self.ordinal, &self.session, self.first)
    }
}

/// A line of `started.jsonl`: a position that ended on a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The device.
    pub gpu: u32,
    /// The worker.
    pub incarnation: String,
    /// The gpu position.
    pub position: u64,
    /// The session.
    pub session: String,
    /// Its tenant.
    pub tenant: String,
    /// The session's number among its tenant's, from 1.
    pub ordinal: u64,
    /// `run`, `open`, `close`, `standing`, `revoke` or `return`.
    pub kind: String,
    /// First op.
    pub first: u64,
    /// Last op.
    pub last: u64,
    /// Last op of the grant, as in the chain. It differs from `last` if an earlier op failed.
    pub granted: u64,
    /// `ran`, `failed` (at its last op, and the session with it), `void` or `gone`.
    pub outcome: String,
    /// Earlier positions that had not yet ended. Their lines come later, or never if the worker was
    /// killed.
    pub running: Vec<u64>,
}

impl Started {
    /// The sort key of lines.
    #[must_use]
    pub fn key(&self) -> (u32, &str, u64) {
        (self.gpu, &self.incarnation, self.position)
    }
}

/// A line of `kills.jsonl`: a leader that was killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kill {
    /// The number of the kill, from 1.
    pub kill: usize,
    /// The total number of kills.
    pub of: usize,
    /// Milliseconds since the demo began.
    pub at_ms: u64,
    /// Process id of the killed leader.
    pub pid: u32,
    /// Its leader id.
    pub leader: String,
    /// Its epoch.
    pub epoch: u64,
    /// Milliseconds from the kill to the successor's first grant.
    pub takeover_ms: f64,
    /// The successor's epoch.
    pub successor: u64,
}

/// A line of `failures.jsonl`: a session that its program did not close properly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFailure {
    /// The session.
    pub session: String,
    /// Its tenant.
    pub tenant: String,
    /// The session's number among its tenant's, from 1.
    pub ordinal: u64,
    /// The error that its program got, such as `E-DEVICE-LOST`; [`KILLED`] if the program was
    /// killed.
    pub code: String,
}

/// Code of a session of a killed program.
pub const KILLED: &str = "killed";

/// A line of `faults.jsonl`: a fault that a chaos run injected into its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedFault {
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// The kind of fault.
    pub fault: String,
    /// The target.
    pub target: String,
    /// The process, if the target is one.
    pub pid: Option<u32>,
}

/// The files of a directory.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Evidence {
    /// `submitted.jsonl`.
    pub submitted: Vec<Submitted>,
    /// `started.jsonl`.
    pub started: Vec<Started>,
    /// `order.jsonl`.
    pub order: Vec<PositionRow>,
    /// `kills.jsonl`.
    pub kills: Vec<Kill>,
    /// `failures.jsonl`.
    pub failures: Vec<SessionFailure>,
    /// `faults.jsonl`.
    pub faults: Vec<InjectedFault>,
    /// The launch order's digest, as the record was replayed.
    pub digest: String,
    /// The end of each worker's chain in the replayed record.
    pub workers: Vec<WorkerEnd>,
}

impl Evidence {
    /// Sorts all lines into the order of the files.
    pub fn sort(&mut self) {
        self.submitted.sort_by(|a, b| a.key().cmp(&b.key()));
        self.started.sort_by(|a, b| a.key().cmp(&b.key()));
        self.order.sort_by_key(|line| (line.epoch, line.global));
        self.failures
            .sort_by(|a, b| (&a.tenant, a.ordinal).cmp(&(&b.tenant, b.ordinal)));
    }
}

/// The end of a worker's chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerEnd {
    /// The device.
    pub gpu: u32,
    /// The worker.
    pub incarnation: String,
    /// Its last position.
    pub position: u64,
    /// The chain there, as hexadecimal digits.
    pub chain: String,
    /// True if it was declared lost: it may have written less or more than its leader knew.
    pub lost: bool,
    /// True if it was killed, as the process that gathered the evidence knows; the record need not
    /// say so. It also may have written less or more.
    #[serde(default)]
    pub dead: bool,
    /// Its fate: `here` (the record does not mention its end), `left` or `lost`.
    #[serde(default)]
    pub fate: String,
    /// The source that the replay's chain was compared with: the record of the worker, or nothing.
    #[serde(default)]
    pub with: With,
    /// The last position that was compared.
    #[serde(default)]
    pub through: u64,
    /// The last position that was cut off the record before the replay; order.jsonl begins after
    /// it. 0 if nothing was cut.
    #[serde(default)]
    pub from: u64,
    /// The chain at that position, as hexadecimal digits, from the anchor at the record's
    /// beginning.
    #[serde(default)]
    pub from_chain: String,
}
