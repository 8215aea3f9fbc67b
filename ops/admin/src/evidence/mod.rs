//! Evidence: the work that clients submitted, the work that workers started, the order of the
//! record, the killed processes; and the check that they agree. `docs/reference/evidence.md`
//! describes the files.
//!
//! Deleting, doubling or swapping any one line of any file makes the check fail. A signed manifest
//! has the hash of every file in the directory, so that files rewritten consistently are noticed as
//! well.

mod chains;
mod check;
mod file_sum;
mod folder;
mod key;
mod manifest;
mod model;

use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;

use crate::errors::ErrorCode;

pub use chains::{Chains, WorkerChain};
pub use check::EvidenceCheck;
pub use file_sum::FileSum;
pub use key::EvidenceKey;
pub use manifest::{Manifest, ManifestSignature, sign_again};
pub use model::{
    Evidence, InjectedFault, KILLED, Kill, SessionFailure, Started, Submitted, WorkerEnd,
};

/// Reads a file of one JSON object a line.
///
/// # Errors
/// If it cannot be read, or if a line is invalid.
pub fn read_lines<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    let shown = path.display();
    let file = std::fs::File::open(path)
        .with_context(|| ErrorCode::EvidenceFile.failed(format!("cannot open {shown}")))?;
    let lines = BufReader::new(file).lines().enumerate();
    lines
        .map(|(number, line)| {
            serde_json::from_str(&line?).with_context(|| {
                ErrorCode::EvidenceLine.failed(format!("{shown}, line {}", number + 1))
            })
        })
        .collect()
}

#[cfg(test)]
mod tests;
