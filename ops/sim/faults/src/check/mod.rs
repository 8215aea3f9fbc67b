//! The checkers: they watch the bus and the facts, and know nothing of the cores.

mod copies;
mod credits;
mod drains;
mod exports;
mod keeping;
mod memory;
mod moves;
mod places;
mod positions;
mod sessions;
mod steady;
mod stops;
mod targets;
mod usage;
mod window;

pub(crate) use copies::Copies;
pub(crate) use credits::Credits;
pub(crate) use drains::Drains;
pub(crate) use exports::Exports;
pub(crate) use keeping::Keeping;
pub(crate) use memory::Memory;
pub(crate) use moves::Moves;
pub(crate) use places::Places;
pub(crate) use positions::Positions;
pub(crate) use sessions::Sessions;
pub(crate) use steady::Steady;
pub(crate) use stops::Stops;
pub(crate) use usage::UsageBlocks;
pub(crate) use window::Windows;

/// A violated invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The invariant. `I1` … `I10` are those of the protocol; `placement` and `liveness` are the checkers'.
    /// `record` is about inputs that a leader keeps or leaves unrecorded, and `stop` about slices of a
    /// closed session. `copies` means that a worker answered an offer wrongly, and `exports` that memory was
    /// shared wrongly. `steady` means that a leader or worker lost its place without cause. `honest` means
    /// that an honest session failed without cause. `shell` means that a core asked for something
    /// impossible.
    pub invariant: &'static str,
    /// The observation.
    pub what: String,
}

impl Violation {
    /// Makes a violation of an invariant from an observation.
    pub fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self {
            invariant,
            what: what.into(),
        }
    }
}

/// Result of checking an observation.
pub(crate) type CheckResult = Result<(), Violation>;
