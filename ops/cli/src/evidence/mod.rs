//! Evidence: what clients submitted, what workers started, what the record says the order was,
//! and who was killed; and the check that they agree. `docs/reference/evidence.md` describes the
//! files.
//!
//! Deleting, doubling or swapping any one line of any file makes the check fail. A manifest with the
//! hash of each file is signed, so that files rewritten consistently are noticed as well.

mod chains;
mod key;
mod manifest;
mod verdict;

use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use chains::{Chains, WorkerChain};
pub use key::EvidenceKey;
pub use manifest::{FileSum, Manifest, WorkerEnd};
pub use verdict::Verdict;

/// A line of `submitted.jsonl`: ops a client sent for the first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Submitted {
    /// The session.
    pub session: String,
    /// Its tenant.
    pub tenant: String,
    /// It is the tenant's how manyth session.
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
    /// It is the tenant's how manyth session.
    pub ordinal: u64,
    /// `run`, `open`, `close`, `standing` or `revoke`.
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
    /// It is the tenant's how manyth session.
    pub ordinal: u64,
    /// The session.
    pub session: String,
    /// `run`, `open`, `close`, `standing` or `revoke`.
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
    /// This is the how manyth kill, from 1.
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
    /// It is the tenant's how manyth session.
    pub ordinal: u64,
    /// The error its program got, such as `E-DEVICE-LOST`; [`KILLED`] where the program was killed.
    pub code: String,
}

/// Code of a session whose program was killed.
pub const KILLED: &str = "killed";

/// A line of `faults.jsonl`: what a chaos run did to its cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
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
    pub faults: Vec<Fault>,
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

/// Reads a file of one JSON object a line.
///
/// # Errors
/// When it cannot be read or a line is not what it should be.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let shown = path.display();
    let file = std::fs::File::open(path)
        .with_context(|| format!("E-EVIDENCE-FILE: cannot open {shown}"))?;
    let lines = BufReader::new(file).lines().enumerate();
    lines
        .map(|(number, line)| {
            serde_json::from_str(&line?)
                .with_context(|| format!("E-EVIDENCE-LINE: {shown}, line {}", number + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests;
