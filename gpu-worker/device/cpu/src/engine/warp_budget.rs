//! The budget of a warp, and the reason why it stopped.

#![cfg_attr(
    all(target_arch = "x86_64", unix),
    expect(unsafe_code, reason = "calls into generated code")
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

#[cfg(all(target_arch = "x86_64", unix))]
use super::context::Context;
#[cfg(all(target_arch = "x86_64", unix))]
use crate::native::{Ending, Warp};

/// Reason why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// All its splits wait, or all its threads are done.
    Waits,
    /// It used up its share of backward jumps. If some are left, it was stopped from outside.
    Spun,
    /// A fault was recorded; the instruction at fault.
    Fault(u32),
}

/// Budget of a warp before it stops.
pub(crate) struct WarpBudget<'a> {
    /// Backward jumps, calls and yields.
    pub(crate) jumps: u32,
    /// Instructions run so far.
    pub(crate) executed: u64,
    /// Number of instructions after which it stops at the next backward jump.
    pub(crate) until: u64,
    /// Set from outside: it stops at the next backward jump.
    pub(crate) stop: &'a AtomicBool,
    /// End of its turn, for work that takes long without jumps.
    pub(crate) until_time: Option<Instant>,
}

impl WarpBudget<'_> {
    /// Counts a backward jump; true if the warp must stop.
    #[inline]
    pub(super) fn jump(&mut self) -> bool {
        self.jumps = self.jumps.saturating_sub(1);
        self.jumps == 0 || self.is_over()
    }

    /// Runs a warp's native code within this budget. Returns how it ended, where, and the number of
    /// instructions that it ran.
    ///
    /// # Safety
    /// As [`Warp::call`].
    #[cfg(all(target_arch = "x86_64", unix))]
    #[inline]
    pub(super) unsafe fn native(
        &mut self,
        native: Warp,
        cx: &mut Context<'_>,
    ) -> (Ending, (u32, u32), u64) {
        cx.jumps = self.jumps;
        cx.executed = self.executed;
        cx.until = self.until;
        cx.stop = self.stop;
        // SAFETY: the caller vouches for the context.
        let (ending, at, begun) = unsafe { native.call(cx) };
        let ran = cx.executed - self.executed;
        self.jumps = cx.jumps;
        self.executed = cx.executed;
        (ending, (at, begun), ran)
    }

    /// True if its turn is over, also by the clock.
    pub(super) fn is_late(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.until_time.is_some_and(|at| Instant::now() >= at)
    }

    /// True if the warp must not run any further now.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.executed >= self.until || self.stop.load(Ordering::Relaxed)
    }
}
