//! What a session has freed while work under way may use it. It goes once the device has passed the free, so that
//! no tenant waits for that.

use std::collections::VecDeque;

use crate::pools::Mark;

/// Frees that the device has not passed, by numbers that only grow; `M` is a module.
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
    /// The number of the last free.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The number of a free that begins.
    pub(super) fn begin(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// A module goes with the last free.
    pub(super) fn bury(&mut self, module: M) {
        self.modules.push_back((self.last, module));
    }

    /// Behind this mark nothing uses what the last free freed.
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

    /// The last free that the device has passed since this was asked.
    pub(super) fn passed(&mut self) -> Option<u64> {
        // A failure is the context's, and then nothing runs.
        let passed = |(mark, _): &mut (Mark, u64)| mark.is_done().unwrap_or(true);
        let mut through = None;
        while let Some((_, number)) = self.marks.pop_front_if(passed) {
            through = Some(number);
        }
        through
    }

    /// Drops the modules of frees through this one.
    pub(super) fn drop_through(&mut self, number: u64) {
        while let Some(module) = self.modules.pop_front_if(|it| it.0 <= number) {
            drop(module);
        }
    }
}
