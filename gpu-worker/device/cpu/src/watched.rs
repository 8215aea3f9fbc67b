//! The watch over a preparation: it is asked now and then whether to go on.

use crate::error::BuildError;
use device::{Halt, Watch};
use std::cell::Cell;

/// Steps, and bytes, between two questions.
const STEPS: u32 = 64;
const BYTES: u64 = 64 << 10;

/// A watch that is asked every few microseconds and not more often.
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

    /// A step, by which the program has grown so much.
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

    /// Why it was not to go on.
    pub(crate) fn halted(&self) -> Option<Halt> {
        self.halted.get()
    }
}
