//! The beginning of a record after its older epochs were cut off.

use std::fmt;

use scheduler_leader_core::replay::Anchor;
use serde::{Deserialize, Serialize};

/// An anchor, as `--json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnchorLine {
    /// The first epoch after it.
    pub epoch: u64,
    /// Positions before it.
    pub positions: u64,
    /// Positions before it that are in neither record nor tail.
    pub skipped: u64,
    /// Positions before it that were not recorded, according to the record.
    pub gap_positions: u64,
    /// The launch order's digest there.
    pub digest: String,
}

impl AnchorLine {
    /// The printed form of an anchor.
    #[must_use]
    pub fn of(anchor: &Anchor) -> Self {
        Self {
            epoch: anchor.epoch,
            positions: anchor.positions,
            skipped: anchor.skipped,
            gap_positions: anchor.gap_positions,
            digest: anchor.digest.to_string(),
        }
    }
}

impl fmt::Display for AnchorLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (epoch, positions, digest) = (self.epoch, self.positions, &self.digest);
        write!(
            f,
            "begins at the anchor before epoch {epoch}: {positions} positions before it were cut \
             off, launch order {digest}, {} skipped, {} unrecorded",
            self.skipped, self.gap_positions
        )
    }
}
