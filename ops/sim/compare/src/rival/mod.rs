//! Other schedulers, one file each. All see the same programs and drive the same device; none
//! pays for a bus, and none for its own processor time.

mod api;
mod mps;
mod native;
mod orion;
mod tgs;
mod time_slicing;
mod xsched;

pub(crate) use api::Rival;

use crate::scenario::Scenario;

/// Who decides what runs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Warploom: the real cores, over a bus.
    Ours,
    /// The order in which launches were called.
    Native,
    /// Contexts take turns.
    TimeSlicing,
    /// Everybody's first kernel, freely.
    Mps,
    /// Rate control of who is not in production.
    Tgs,
    /// By profile and duration.
    Orion,
    /// Launches held back while something more urgent runs.
    XSched,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Ours,
        Self::Native,
        Self::TimeSlicing,
        Self::Mps,
        Self::Tgs,
        Self::Orion,
        Self::XSched,
    ];

    /// Its name in tables, plots and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "warploom",
            Self::Native => "native FIFO",
            Self::TimeSlicing => "time-slicing",
            Self::Mps => "MPS-like",
            Self::Tgs => "TGS-like",
            Self::Orion => "Orion-like",
            Self::XSched => "XSched-like",
        }
    }

    /// The model of it; none of ourselves.
    pub(crate) fn rival(self, scenario: &Scenario) -> Option<Box<dyn Rival>> {
        Some(match self {
            Self::Ours => return None,
            Self::Native => Box::new(native::Native::new(scenario)),
            Self::TimeSlicing => Box::new(time_slicing::TimeSlicing::new(scenario)),
            Self::Mps => Box::new(mps::Mps::new(scenario)),
            Self::Tgs => Box::new(tgs::Tgs::new(scenario)),
            Self::Orion => Box::new(orion::Orion::new(scenario)),
            Self::XSched => Box::new(xsched::XSched::new(scenario)),
        })
    }
}
