//! The interrupt by which another thread ends a device's poll early, because more urgent work has come.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The priority while nothing runs: less urgent than any real one.
const NOTHING: u8 = u8::MAX;

/// A flag shared by a device and the owner of its thread's commands.
///
/// The device's thread lowers it and then takes its commands; the other side hands a command over and then
/// raises it. So a command is either taken before the device runs on, or the device sees that it is raised.
#[derive(Debug)]
pub struct Interrupt {
    raised: AtomicBool,
    running: AtomicU8,
}

impl Default for Interrupt {
    fn default() -> Self {
        Self {
            raised: AtomicBool::new(false),
            running: AtomicU8::new(NOTHING),
        }
    }
}

impl Interrupt {
    /// Notes that a command was handed over that must not wait for running work.
    pub fn raise(&self) {
        self.raised.store(true, Ordering::SeqCst);
    }

    /// Notes that a slice of this priority was handed over, which interrupts less urgent work.
    pub fn raise_for(&self, priority: u8) {
        if priority < self.running.load(Ordering::SeqCst) {
            self.raise();
        }
    }

    /// Lowers the flag before the commands are taken.
    pub fn lower(&self) {
        self.raised.store(false, Ordering::SeqCst);
    }

    /// Notes that the device runs work of this priority; `None` if it has stopped.
    pub fn runs(&self, priority: Option<u8>) {
        self.running
            .store(priority.unwrap_or(NOTHING), Ordering::SeqCst);
    }

    /// True if the device should stop soon and look at its commands.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Relaxed)
    }

    /// The flag itself, for loops that look at nothing else.
    #[must_use]
    pub fn flag(&self) -> &AtomicBool {
        &self.raised
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_less_urgent_is_interrupted() {
        let interrupt = Interrupt::default();
        for (running, come, raised) in [
            (Some(2), 1, true),
            (Some(2), 2, false),
            (Some(2), 3, false),
            (Some(0), 0, false),
            (None, 4, true),
        ] {
            interrupt.lower();
            interrupt.runs(running);
            interrupt.raise_for(come);
            assert_eq!(interrupt.is_raised(), raised, "{come} while {running:?}");
        }
    }
}
