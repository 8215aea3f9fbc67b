//! `warploom order`: works on launch orders.

use std::path::Path;

use anyhow::{Result, bail};

use crate::evidence::Evidence;
use crate::output;

/// Checks a directory of evidence.
///
/// # Errors
/// When the files cannot be read or do not agree.
pub fn verify(dir: &Path, json: bool) -> Result<()> {
    let verdict = Evidence::read(dir)?.verify();
    if json {
        output::line(serde_json::to_string(&verdict)?)?;
    } else {
        output::line(format_args!(
            "{} ops submitted, {} ran, at {} positions; lost {}, run twice {}, out of order {}",
            verdict.submitted,
            verdict.ran,
            verdict.positions,
            verdict.lost,
            verdict.duplicated,
            verdict.reordered
        ))?;
        for what in &verdict.disagreements {
            output::line(what)?;
        }
    }
    if !verdict.is_clean() {
        bail!(
            "E-EVIDENCE-DISAGREES: the evidence in {} does not agree",
            dir.display()
        );
    }
    Ok(())
}
