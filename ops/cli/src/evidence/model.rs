//! The lines of the files of evidence.

use serde::{Deserialize, Serialize};

use crate::record::With;

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
    /// Lines are sorted by this.
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
    /// Last op of the grant, as it stands in the chain: `last`, but where an op before it failed.
    pub granted: u64,
    /// `ran`, `failed` (at its last op, and the session with it), `void` or `gone`.
    pub outcome: String,
    /// Positions before it that had not ended then: their lines come later, or never where the worker
    /// was killed.
    pub running: Vec<u64>,
}

impl Started {
    /// Lines are sorted by this.
    #[must_use]
    pub fn key(&self) -> (u32, &str, u64) {
        (self.gpu, &self.incarnation, self.position)
    }
}

/// A line of `order.jsonl`: a position as the record gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ordered {
    /// The device.
    pub gpu: u32,
    /// The worker.
    pub incarnation: String,
    /// The gpu position.
    pub position: u64,
    /// The position in the cluster's order, within the epoch.
    pub global: u64,
    /// The epoch that granted it.
    pub epoch: u64,
    /// The session's tenant.
    pub tenant: String,
    /// The session's number among its tenant's, from 1.
    pub ordinal: u64,
    /// The session.
    pub session: String,
    /// `run`, `open`, `close`, `standing`, `revoke` or `return`.
    pub kind: String,
    /// First op.
    pub first: u64,
    /// Last op.
    pub last: u64,
    /// Not recomputed: its inputs died with a leader, and the worker handed it over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
}

/// A line of `kills.jsonl`: a leader that was killed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kill {
    /// The number of the kill, from 1.
    pub kill: usize,
    /// Of how many.
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

/// A line of `failures.jsonl`: a session that its program did not close in good order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionFailure {
    /// The session.
    pub session: String,
    /// Its tenant.
    pub tenant: String,
    /// The session's number among its tenant's, from 1.
    pub ordinal: u64,
    /// The error its program got, such as `E-DEVICE-LOST`; [`KILLED`] where the program was killed.
    pub code: String,
}

/// Code of a session whose program was killed.
pub const KILLED: &str = "killed";

/// A line of `faults.jsonl`: what a chaos run did to its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InjectedFault {
    /// Milliseconds since the run began.
    pub at_ms: u64,
    /// What was done.
    pub fault: String,
    /// To whom.
    pub target: String,
    /// The process, where it is one.
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
    pub order: Vec<Ordered>,
    /// `kills.jsonl`.
    pub kills: Vec<Kill>,
    /// `failures.jsonl`.
    pub failures: Vec<SessionFailure>,
    /// `faults.jsonl`.
    pub faults: Vec<InjectedFault>,
    /// The launch order's digest, as the record was replayed.
    pub digest: String,
    /// Where each worker's chain ends, as the record was replayed.
    pub workers: Vec<WorkerEnd>,
}

impl Evidence {
    /// Brings all lines into the order the files have.
    pub fn sort(&mut self) {
        self.submitted.sort_by(|a, b| a.key().cmp(&b.key()));
        self.started.sort_by(|a, b| a.key().cmp(&b.key()));
        self.order.sort_by_key(|line| (line.epoch, line.global));
        self.failures
            .sort_by(|a, b| (&a.tenant, a.ordinal).cmp(&(&b.tenant, b.ordinal)));
    }
}

/// Where a worker's chain ends.
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
    /// It was declared lost: it may have written less or more than its leader knew of.
    pub lost: bool,
    /// It was killed, as whoever gathered the evidence knows, which the record need not say: it may
    /// have written less or more as well.
    #[serde(default)]
    pub dead: bool,
    /// What became of it: `here` (nothing is said of its going), `left` or `lost`.
    #[serde(default)]
    pub fate: String,
    /// What the replay's chain was compared with: with what is recorded of the worker, or nothing.
    #[serde(default)]
    pub with: With,
    /// Through which position.
    #[serde(default)]
    pub through: u64,
    /// Its positions through this one were cut off the record before it was replayed; order.jsonl
    /// begins behind it. 0 where nothing was cut.
    #[serde(default)]
    pub from: u64,
    /// The chain there, as hexadecimal digits, by the anchor that the record begins with.
    #[serde(default)]
    pub from_chain: String,
}
