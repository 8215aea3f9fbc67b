//! Frees of a session, which do not wait for work under way.

use bus_schemas::Failure;

use super::{Loaded, Session};
use crate::driver::EventKind;

impl Session {
    /// Frees an allocation.
    pub(super) fn free(&mut self, address: u64) -> Result<(), Failure> {
        let number = self.graves.begin();
        self.memory.free(address, number)?;
        self.mark_free()
    }

    /// Unloads a module.
    pub(super) fn unload(&mut self, loaded: Loaded) -> Result<(), Failure> {
        self.graves.begin();
        self.graves.bury(loaded);
        self.mark_free()
    }

    /// Marks the point behind which nothing uses the memory freed last.
    fn mark_free(&mut self) -> Result<(), Failure> {
        match self.mark(EventKind::Plain) {
            Ok(mark) => {
                self.graves.mark(mark);
                Ok(())
            }
            Err(_) => self.drop_freed(),
        }
    }

    /// Drops memory that was freed before a point which the device has passed.
    pub(super) fn drop_passed(&mut self) {
        if let Some(through) = self.graves.passed() {
            self.drop_through(through);
        }
    }

    /// Drops all freed memory, after a wait for work that may use it.
    pub(super) fn drop_freed(&mut self) -> Result<(), Failure> {
        let waited = self.stream.wait();
        self.graves.forget_marks();
        self.drop_through(self.graves.last());
        waited
    }

    /// As [`Session::drop_freed`], if there is freed memory.
    pub(super) fn drop_if_freed(&mut self) -> Result<(), Failure> {
        match self.graves.is_empty() {
            true => Ok(()),
            false => self.drop_freed(),
        }
    }

    fn drop_through(&mut self, number: u64) {
        self.memory.passed(number);
        self.graves.drop_through(number);
    }
}
