//! Coverage: the states in which each fault met a part.

use std::collections::BTreeMap;

/// Part that a table covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Leader candidates.
    Leader,
    /// Workers.
    Worker,
    /// Sessions; a fault at any of their nodes counts.
    Session,
    /// Requests for sessions that wait for a place, or ask for several devices.
    Request,
}

/// Faults, the columns of a table.
pub const FAULTS: [&str; 22] = [
    "lost",
    "doubled",
    "late",
    "partition",
    "usurped",
    "crash",
    "leave",
    "pause",
    "stall",
    "cut",
    "broker",
    "tail lost",
    "store",
    "lease",
    "full",
    "slow",
    "refused",
    "writes lost",
    "state",
    "drain",
    "slow node",
    "hostile",
];

impl Part {
    /// All parts.
    pub const ALL: [Self; 4] = [Self::Leader, Self::Worker, Self::Session, Self::Request];

    /// Name of the part.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Worker => "worker",
            Self::Session => "session",
            Self::Request => "request",
        }
    }

    /// States of the part.
    #[must_use]
    pub fn states(self) -> &'static [&'static str] {
        match self {
            Self::Leader => &[
                "candidate",
                "campaigning",
                "sealing",
                "leading",
                "cut off",
                "deposed",
                "leaving",
            ],
            Self::Worker => &[
                "unsealed",
                "idle",
                "running",
                "waiting for a batch",
                "running, more waits",
                "waiting for memory",
                "one parked",
                "drained",
                "draining",
            ],
            Self::Session => &[
                "opening",
                "idle",
                "queued",
                "granted",
                "waits for an answer",
                "doubted",
                "closing",
                "failed",
            ],
            Self::Request => &[
                "waits for a place",
                "some begun",
                "all begun, none had",
                "several had",
                "one of several gone",
            ],
        }
    }
}

/// Number of times that each fault met each state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    cells: BTreeMap<(Part, &'static str, &'static str), u64>,
}

impl Coverage {
    /// Counts a fault that met a state.
    pub(crate) fn met(&mut self, part: Part, state: &'static str, fault: &'static str) {
        *self.cells.entry((part, state, fault)).or_default() += 1;
    }

    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (cell, count) in &other.cells {
            *self.cells.entry(*cell).or_default() += count;
        }
    }

    /// Number of times that a fault met a state.
    #[must_use]
    pub fn count(&self, part: Part, state: &'static str, fault: &'static str) -> u64 {
        let cell = (part, state, fault);
        self.cells.get(&cell).copied().unwrap_or_default()
    }

    /// Pairs of fault and state that have not met.
    #[must_use]
    pub fn missing(&self) -> Vec<(Part, &'static str, &'static str)> {
        let mut missing = Vec::new();
        for part in Part::ALL {
            for state in part.states() {
                for fault in FAULTS {
                    if self.count(part, state, fault) == 0 {
                        missing.push((part, *state, fault));
                    }
                }
            }
        }
        missing
    }
}
