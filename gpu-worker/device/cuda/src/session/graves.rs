//! What a session has freed while work under way may use it. It goes once the device has passed the free, so that
//! nobody waits for that.

use std::collections::VecDeque;

use bus_schemas::Failure;

use super::{Loaded, Session};
use crate::driver::EventKind;
use crate::pools::Mark;

/// Frees that the device has not passed, by numbers that only grow.
#[derive(Debug, Default)]
pub(super) struct Graves {
    last: u64,
    marks: VecDeque<(Mark, u64)>,
    modules: VecDeque<(u64, Loaded)>,
}

impl Session {
    /// Frees an allocation.
    pub(super) fn free(&mut self, address: u64) -> Result<(), Failure> {
        let number = self.graves.last + 1;
        self.memory.free(address, number)?;
        self.buried(number)
    }

    /// Unloads a module.
    pub(super) fn unload(&mut self, loaded: Loaded) -> Result<(), Failure> {
        let number = self.graves.last + 1;
        self.graves.modules.push_back((number, loaded));
        self.buried(number)
    }

    /// Marks the point behind which nothing uses what was freed.
    fn buried(&mut self, number: u64) -> Result<(), Failure> {
        self.graves.last = number;
        match self.mark(EventKind::Plain) {
            Ok(mark) => {
                self.graves.marks.push_back((mark, number));
                Ok(())
            }
            Err(_) => self.drop_freed(),
        }
    }

    /// Drops what was freed before a point that the device has passed.
    pub(super) fn drop_passed(&mut self) {
        // A failure is the context's, and then nothing runs.
        let passed = |(mark, _): &mut (Mark, u64)| mark.is_done().unwrap_or(true);
        let mut through = None;
        while let Some((_, number)) = self.graves.marks.pop_front_if(passed) {
            through = Some(number);
        }
        if let Some(through) = through {
            self.drop_through(through);
        }
    }

    /// Drops all that was freed, and waits for what may use it.
    pub(super) fn drop_freed(&mut self) -> Result<(), Failure> {
        let waited = self.stream.wait();
        self.graves.marks.clear();
        self.drop_through(self.graves.last);
        waited
    }

    /// As [`Session::drop_freed`], if anything was.
    pub(super) fn drop_if_freed(&mut self) -> Result<(), Failure> {
        match self.graves.marks.is_empty() {
            true => Ok(()),
            false => self.drop_freed(),
        }
    }

    fn drop_through(&mut self, number: u64) {
        self.memory.passed(number);
        while let Some(module) = self.graves.modules.pop_front_if(|it| it.0 <= number) {
            drop(module);
        }
    }
}
