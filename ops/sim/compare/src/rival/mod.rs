//! Other schedulers, one file each. All see the same programs and drive the same device. None pays for a
//! bus or for its own processor time.

mod api;
mod mps;
mod native;
mod orion;
mod tgs;
mod time_slicing;
mod xsched;

pub(crate) use api::Rival;

use crate::scenario::Scenario;

/// The scheduler that decides the next launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Policy {
    /// Warploom: the real cores, over a bus.
    Ours,
    /// Launches begin in the order of their calls.
    Native,
    /// Contexts take turns.
    TimeSlicing,
    /// The first kernel of each process runs freely.
    Mps,
    /// Rate control of the jobs that are not in production.
    Tgs,
    /// Decisions by profile and duration.
    Orion,
    /// Launches are held back while a more urgent one runs.
    XSched,
}

impl Policy {
    /// All policies.
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

    /// Its model; `None` for ourselves.
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
