//! The causes of a wait.

use serde::{Deserialize, Serialize};

/// The cause of a wait. Most causes have a tenant behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// A tenant of a higher priority was next, or ran.
    Priority,
    /// A tenant of the same priority, which had less than its share, was next.
    Share,
    /// A tenant of a lower priority was next: its floor had earned it.
    Floor,
    /// Its own tenant's cap was used up.
    Cap,
    /// Its own tenant's bound on work that is granted and not done was reached.
    Bound,
    /// The target of a tenant of higher priority, for which it was too long.
    Target,
    /// It was next and the window was full, while this tenant's work ran. Without a tenant, the
    /// work was on its way.
    Window,
    /// It was granted, and a tenant's work ran on the device before it.
    Device,
    /// Earlier work of its own session filled the window, or ran on the device.
    Own,
    /// Its memory was not on the device.
    Memory,
    /// Its tenant was suspended.
    Suspended,
    /// All grants were held.
    Hold,
    /// Its own program. For a launch, its ops had not come; for a device, no session had any work.
    Program,
    /// The grant was on its way to the worker.
    Bus,
    /// The worker and its device: the handover, or ops that the worker lacked after a failure.
    Worker,
    /// No leader existed, or it had yet to hear of the work.
    Leader,
    /// The device had no session.
    Empty,
    /// Unknown: the times were not recorded.
    Unknown,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 18] = [
        Self::Priority,
        Self::Share,
        Self::Floor,
        Self::Cap,
        Self::Bound,
        Self::Target,
        Self::Window,
        Self::Device,
        Self::Own,
        Self::Memory,
        Self::Suspended,
        Self::Hold,
        Self::Program,
        Self::Bus,
        Self::Worker,
        Self::Leader,
        Self::Empty,
        Self::Unknown,
    ];

    /// Its name in tables and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Priority => "priority",
            Self::Share => "share",
            Self::Floor => "floor",
            Self::Cap => "cap",
            Self::Bound => "bound",
            Self::Target => "target",
            Self::Window => "window",
            Self::Device => "device",
            Self::Own => "own",
            Self::Memory => "memory",
            Self::Suspended => "suspended",
            Self::Hold => "hold",
            Self::Program => "program",
            Self::Bus => "bus",
            Self::Worker => "worker",
            Self::Leader => "leader",
            Self::Empty => "empty",
            Self::Unknown => "unknown",
        }
    }
}

/// Rank of the first cause that lasts only until the next grant.
pub(super) const ORDER: usize = 6;

/// The rank of a cause: among several causes, the one with the lowest rank counts for a device.
pub(super) fn rank(cause: Cause) -> usize {
    const FIRST: [Cause; ORDER] = [
        Cause::Hold,
        Cause::Cap,
        Cause::Bound,
        Cause::Target,
        Cause::Memory,
        Cause::Suspended,
    ];
    FIRST.iter().position(|it| *it == cause).unwrap_or(ORDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_one_name() {
        let names: std::collections::BTreeSet<_> = Cause::ALL.iter().map(|it| it.name()).collect();
        assert_eq!(names.len(), Cause::ALL.len());
        for cause in Cause::ALL {
            let written = rmp_serde::to_vec(&cause).unwrap();
            let name: String = rmp_serde::from_slice(&written).unwrap();
            assert_eq!(name, cause.name());
        }
    }
}
