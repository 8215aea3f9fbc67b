//! The answers that the session waits for, each with the time at which it asks again.

use crate::event::Nanos;
use crate::retry::Retry;

/// One wait for each kind of answer.
#[derive(Debug)]
pub(super) struct Retries {
    /// For acknowledgements of batches and transfers.
    pub(super) to_worker: Retry,
    /// For acknowledgements of intents, and of the close.
    pub(super) to_leader: Retry,
    /// For results.
    pub(super) from_worker: Retry,
    /// Until the worker was told of the results.
    pub(super) tell_results: Retry,
}

impl Retries {
    pub(super) fn new(retry: Retry) -> Self {
        Self {
            to_worker: retry.clone(),
            to_leader: retry.clone(),
            from_worker: retry.clone(),
            tell_results: retry,
        }
    }

    /// The time of the first one that is due.
    pub(super) fn due(&self) -> Option<Nanos> {
        let all = [
            &self.to_worker,
            &self.to_leader,
            &self.from_worker,
            &self.tell_results,
        ];
        all.into_iter().filter_map(Retry::due).min()
    }

    /// Makes all due at once that wait.
    pub(super) fn hurry(&mut self, now: Nanos) {
        self.each(|retry| retry.hurry(now));
    }

    /// Ends all waits.
    pub(super) fn stop(&mut self) {
        self.each(|retry| retry.arm(0, false));
    }

    fn each(&mut self, change: impl FnMut(&mut Retry)) {
        let all = [
            &mut self.to_worker,
            &mut self.to_leader,
            &mut self.from_worker,
            &mut self.tell_results,
        ];
        all.into_iter().for_each(change);
    }
}
