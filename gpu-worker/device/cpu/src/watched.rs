//! The watch over a build, which is asked periodically if the build may continue.

use crate::error::BuildError;
use device::{Halt, Watch};
use std::cell::Cell;

/// Steps, and bytes, between two questions to the watch.
const STEPS: u32 = 64;
const BYTES: u64 = 64 << 10;

/// A watch that is asked at most every few microseconds.
pub(crate) struct Watched<'w> {
    watch: &'w dyn Watch,
    steps: Cell<u32>,
    bytes: Cell<u64>,
    halted: Cell<Option<Halt>>,
}

impl<'w> Watched<'w> {
    pub(crate) fn new(watch: &'w dyn Watch) -> Self {
        Self {
            watch,
            steps: Cell::new(0),
            bytes: Cell::new(0),
            halted: Cell::new(None),
        }
    }

    /// Counts a step in which the program has grown by `bytes`.
    pub(crate) fn grown(&self, bytes: usize) -> Result<(), BuildError> {
        self.steps.set(self.steps.get() + 1);
        self.bytes
            .set(self.bytes.get().saturating_add(bytes as u64));
        if self.steps.get() < STEPS && self.bytes.get() < BYTES {
            return Ok(());
        }
        self.steps.set(0);
        let answer = self.watch.goes_on(self.bytes.take());
        answer.map_err(|halt| {
            self.halted.set(Some(halt));
            BuildError::Halted(halt)
        })
    }

    /// Reason why the watch halted the build, if it did.
    pub(crate) fn halted(&self) -> Option<Halt> {
        self.halted.get()
    }
}
