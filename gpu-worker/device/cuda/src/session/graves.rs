//! Freed memory and modules of a session that work under way may use. They are dropped once the device has
//! passed the free, so that no tenant waits for that.

use std::collections::VecDeque;

use crate::pools::Mark;

/// Frees that the device has not passed, by ascending numbers; `M` is a module.
#[derive(Debug)]
pub(super) struct Graves<M> {
    last: u64,
    marks: VecDeque<(Mark, u64)>,
    modules: VecDeque<(u64, M)>,
}

impl<M> Default for Graves<M> {
    fn default() -> Self {
        Self {
            last: 0,
            marks: VecDeque::new(),
            modules: VecDeque::new(),
        }
    }
}

impl<M> Graves<M> {
    /// Number of the last free.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// Returns the number of a new free.
    pub(super) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Buries a module with the last free.
    pub(super) fn bury(&mut self, module: M) {
        self.modules.push_back((self.last, module));
    }

    /// Adds the mark behind which nothing uses the memory of the last free.
    pub(super) fn mark(&mut self, mark: Mark) {
        self.marks.push_back((mark, self.last));
    }

    /// True if no free is marked that the device has not passed.
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Forgets all marks: the device has passed them.
    pub(super) fn forget_marks(&mut self) {
        self.marks.clear();
    }

    /// Returns the last free that the device has passed since the last call.
    pub(super) fn passed(&mut self) -> Option<u64> {
        // A failure says nothing of the work. If it is the context's, the session's end drops everything.
        let passed = |(mark, _): &mut (Mark, u64)| mark.is_done().unwrap_or(false);
        let mut through = None;
        while let Some((_, number)) = self.marks.pop_front_if(passed) {
            through = Some(number);
        }
        through
    }

    /// Drops the modules of frees through this one, which wait for nothing.
    pub(super) fn drop_through(&mut self, number: u64) {
        while let Some(module) = self.modules.pop_front_if(|it| it.0 <= number) {
            drop(module);
        }
    }
}
