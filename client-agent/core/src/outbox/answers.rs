//! The results that the program waits for.

use bus_schemas::{DeviceResult, OpNumber, ResultKind};
use bytes::Bytes;

use crate::event::Action;
use crate::result::{Part, Results};

/// Results from the worker, and the worker's knowledge of them.
#[derive(Debug, Default)]
pub(super) struct Answers {
    results: Results,
    /// Number of results that the worker was last told of.
    told: u64,
}

impl Answers {
    /// Notes that an op was pushed with an expected answer of `total` bytes.
    #[inline]
    pub(super) fn expect(&mut self, op: OpNumber, kind: ResultKind, total: u64) {
        self.results.expect(op, kind, total);
    }

    /// Number of results delivered.
    pub(super) fn delivered(&self) -> u64 {
        self.results.delivered()
    }

    /// The first op that waits for a result.
    pub(super) fn first_waiting(&self) -> Option<OpNumber> {
        self.results.first_waiting()
    }

    /// Takes a part of a result, and delivers the results that are whole.
    pub(super) fn take(
        &mut self,
        (part, message): (&DeviceResult<'_>, &Bytes),
        actions: &mut Vec<Action>,
    ) -> Part {
        let taken = self.results.take(part, message, actions);
        if let Part::Old = taken {
            // The worker resends results that it believes are missing here: tell it again.
            let before = self.delivered().saturating_sub(1);
            self.told = self.told.min(before);
        }
        taken
    }

    /// True if the worker does not know all that was delivered.
    pub(super) fn are_untold(&self) -> bool {
        self.delivered() > self.told
    }

    /// Notes that a message tells the worker of all that was delivered.
    pub(super) fn tell(&mut self) {
        self.told = self.delivered();
    }

    /// Drops all expected results.
    pub(super) fn clear(&mut self) {
        self.results.clear();
    }
}
