//! Checks: what each asks of a driver, and what it says.

use crate::bench::Bench;
use crate::finding::Outcome;

/// The process that a check runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// That of its area: initialised, with the primary context of device 0 current.
    Shared,
    /// One that it shares with others of its kind, in which the driver stays uninitialised.
    Uninitialised,
    /// One of its own, in which nothing was called.
    Alone,
}

/// A check of one documented behaviour.
pub(crate) struct Check {
    /// A sentence that holds of a driver as the manual describes it.
    pub(crate) claim: String,
    /// The function, without the suffix of a version.
    pub(crate) function: &'static str,
    /// The section of the manual.
    pub(crate) section: &'static str,
    /// The manual says it in as many words; else it is read between the lines.
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

    /// The manual leaves room for another answer.
    pub(crate) fn uncertain(self) -> Self {
        let certain = false;
        Self { certain, ..self }
    }

    /// It needs a driver that is not initialised, and leaves it so.
    pub(crate) fn uninitialised(self) -> Self {
        let place = Place::Uninitialised;
        Self { place, ..self }
    }

    /// It needs a process in which nothing was called.
    pub(crate) fn alone(self) -> Self {
        let place = Place::Alone;
        Self { place, ..self }
    }

    pub(crate) fn run(&self, bench: &Bench) -> Outcome {
        (self.run)(bench)
    }
}
