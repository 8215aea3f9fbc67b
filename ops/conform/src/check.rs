//! Checks: the question that each asks of a driver, and its claim.

use crate::bench::Bench;
use crate::finding::Outcome;

/// The process in which a check runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// The process of its area: initialised, with the primary context of device 0 current.
    Shared,
    /// A process shared with checks of the same kind, in which the driver stays uninitialised.
    Uninitialised,
    /// A process of its own, in which no function was called before.
    Alone,
}

/// A check of one documented behaviour.
pub(crate) struct Check {
    /// A sentence that is true for a driver that conforms to the manual.
    pub(crate) claim: String,
    /// The function, without its version suffix.
    pub(crate) function: &'static str,
    /// The section of the manual.
    pub(crate) section: &'static str,
    /// True if the manual states the claim explicitly; false if it is only implied.
    pub(crate) certain: bool,
    pub(crate) place: Place,
    run: Box<dyn Fn(&Bench) -> Outcome>,
}

impl Check {
    pub(crate) fn new(
        (function, section): (&'static str, &'static str),
        claim: impl Into<String>,
        run: impl Fn(&Bench) -> Outcome + 'static,
    ) -> Self {
        Self {
            claim: claim.into(),
            function,
            section,
            certain: true,
            place: Place::Shared,
            run: Box::new(run),
        }
    }

    /// Marks the check as uncertain: the manual allows another answer.
    pub(crate) fn uncertain(self) -> Self {
        let certain = false;
        Self { certain, ..self }
    }

    /// Requires an uninitialised driver, which the check leaves uninitialised.
    pub(crate) fn uninitialised(self) -> Self {
        let place = Place::Uninitialised;
        Self { place, ..self }
    }

    /// Requires a process in which no function was called before.
    pub(crate) fn alone(self) -> Self {
        let place = Place::Alone;
        Self { place, ..self }
    }

    pub(crate) fn run(&self, bench: &Bench) -> Outcome {
        (self.run)(bench)
    }
}
