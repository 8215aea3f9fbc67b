//! Evidence: what clients submitted, what workers started, what the record says the order was,
//! and who was killed; and the check that the four agree. `docs/evidence.md` describes the files.
//!
//! Deleting, doubling or swapping any one line of any file makes the check fail.

mod verdict;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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
    /// `ran`, `failed` (at its last op, and the session with it), `void` or `gone`.
    pub outcome: String,
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

/// The four files of a directory.
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
}

impl Evidence {
    /// Reads the four files.
    ///
    /// # Errors
    /// When one is missing or a line of it is not what it should be.
    pub fn read(dir: &Path) -> Result<Self> {
        Ok(Self {
            submitted: read_lines(&dir.join("submitted.jsonl"))?,
            started: read_lines(&dir.join("started.jsonl"))?,
            order: read_lines(&dir.join("order.jsonl"))?,
            kills: read_lines(&dir.join("kills.jsonl"))?,
        })
    }

    /// Writes the four files, making the directory.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write(&self, dir: &Path) -> Result<()> {
        std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        write_lines(&dir.join("submitted.jsonl"), &self.submitted)?;
        write_lines(&dir.join("started.jsonl"), &self.started)?;
        write_lines(&dir.join("order.jsonl"), &self.order)?;
        write_lines(&dir.join("kills.jsonl"), &self.kills)
    }

    /// Brings all lines into the order the files have.
    pub fn sort(&mut self) {
        self.submitted.sort_by(|a, b| a.key().cmp(&b.key()));
        self.started.sort_by(|a, b| a.key().cmp(&b.key()));
        self.order.sort_by_key(|line| (line.epoch, line.global));
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

fn write_lines<T: Serialize>(path: &Path, lines: &[T]) -> Result<()> {
    let file = std::fs::File::create(path)
        .with_context(|| format!("E-EVIDENCE-FILE: cannot write {}", path.display()))?;
    let mut out = std::io::BufWriter::new(file);
    for line in lines {
        serde_json::to_writer(&mut out, line)?;
        out.write_all(b"\n")?;
    }
    out.flush()
        .with_context(|| format!("E-EVIDENCE-FILE: cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
