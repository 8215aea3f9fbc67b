//! The checkers: they watch the bus and the facts, and know nothing of the cores.

mod credits;
mod drains;
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

pub(crate) use credits::Credits;
pub(crate) use drains::Drains;
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

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which: `I1` … `I10`, `placement`, `record` (what a leader keeps, and leaves unrecorded), `stop` (of what
    /// a closed session runs), `steady` (a leader or worker lost its place without cause), `liveness`, `honest` (an honest session failed without
    /// cause) or `shell` (a core asked for something impossible).
    pub invariant: &'static str,
    /// What was seen.
    pub what: String,
}

impl Violation {
    /// What was seen of an invariant.
    pub fn new(invariant: &'static str, what: impl Into<String>) -> Self {
        Self {
            invariant,
            what: what.into(),
        }
    }
}

/// Whether what was just seen is as it should be.
pub(crate) type CheckResult = Result<(), Violation>;
