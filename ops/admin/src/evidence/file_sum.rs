//! Checksums of files in a manifest, and the names that every directory of evidence has.

use std::path::Path;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::errors::ErrorCode;

/// Name of the manifest.
pub(super) const MANIFEST: &str = "manifest.json";
/// Name of its signature.
pub(super) const SIGNATURE: &str = "manifest.sig";
/// The files that every manifest names, in this order.
pub(super) const FILES: [&str; 6] = [
    "submitted.jsonl",
    "started.jsonl",
    "order.jsonl",
    "kills.jsonl",
    "failures.jsonl",
    "faults.jsonl",
];

/// Size and hash of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSum {
    /// Its name.
    pub name: String,
    /// Its lines.
    pub lines: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Their BLAKE3 hash, as hexadecimal digits.
    pub blake3: String,
}

impl FileSum {
    pub(super) fn of(name: &str, bytes: &[u8]) -> Self {
        Self {
            name: name.to_owned(),
            lines: bytes.iter().filter(|byte| **byte == b'\n').count() as u64,
            bytes: bytes.len() as u64,
            blake3: blake3::hash(bytes).to_string(),
        }
    }

    /// Refuses a file that differs from the manifest.
    pub(super) fn same_as(&self, named: &Self, path: &Path) -> Result<()> {
        let said = |sum: &Self| {
            let (lines, bytes, hash) = (sum.lines, sum.bytes, &sum.blake3);
            format!("{lines} lines, {bytes} bytes, hash {hash}")
        };
        ensure!(
            self == named,
            ErrorCode::EvidenceManifest.failed(format!(
                "{} has {}; the manifest says {}",
                path.display(),
                said(self),
                said(named)
            ))
        );
        Ok(())
    }
}
