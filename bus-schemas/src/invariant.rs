//! Checks of the invariants of ARCHITECTURE.md, placed at the lines that keep them. They are in
//! this crate because every core depends on it, and they depend on nothing else.
//!
//! A failed check ends a debug build or a simulation. A release build counts the violation and goes
//! on, because other sessions may be unaffected; the shells publish the counters.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// An invariant, by its id in ARCHITECTURE.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// A session's ops run at most once, in op order.
    I1,
    /// A GPU's grants start in gpu-position order, without gaps.
    I2,
    /// No grant has a lower epoch, or the same epoch under another leader.
    I3,
    /// Every granted op was submitted.
    I4,
    /// The same leader inputs give the same grants.
    I5,
    /// The window and strict priority are kept.
    I6,
    /// Tenants get shares by weight.
    I7,
    /// Memory quotas and capacity are kept.
    I8,
    /// Each session's memory is its own.
    I9,
    /// Credits are conserved.
    I10,
}

impl Invariant {
    /// All invariants.
    pub const ALL: [Self; 10] = [
        Self::I1,
        Self::I2,
        Self::I3,
        Self::I4,
        Self::I5,
        Self::I6,
        Self::I7,
        Self::I8,
        Self::I9,
        Self::I10,
    ];

    /// Returns the id.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::I1 => "I1",
            Self::I2 => "I2",
            Self::I3 => "I3",
            Self::I4 => "I4",
            Self::I5 => "I5",
            Self::I6 => "I6",
            Self::I7 => "I7",
            Self::I8 => "I8",
            Self::I9 => "I9",
            Self::I10 => "I10",
        }
    }

    /// Returns the number of violations found in this process.
    #[must_use]
    pub fn violations(self) -> u64 {
        self.count().load(Relaxed)
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there is a count for each of the ids"
    )]
    fn count(self) -> &'static AtomicU64 {
        static COUNTS: [AtomicU64; Invariant::ALL.len()] =
            [const { AtomicU64::new(0) }; Invariant::ALL.len()];
        &COUNTS[self as usize]
    }

    /// Reports a failed check. Called by [`crate::invariant!`].
    ///
    /// # Panics
    /// In debug builds, and if violations are fatal.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub fn violated(self, why: fmt::Arguments<'_>) {
        self.count().fetch_add(1, Relaxed);
        let fatal = cfg!(debug_assertions) || FATAL.load(Relaxed);
        assert!(!fatal, "{} is violated: {why}", self.name());
    }

    /// Makes violations end this process in any build, for simulations.
    pub fn make_fatal() {
        FATAL.store(true, Relaxed);
    }
}

static FATAL: AtomicBool = AtomicBool::new(false);

/// Checks an invariant at the place that keeps it:
/// `invariant!(I2, condition, "what is wrong: {detail}")`. The condition is evaluated in every
/// build, so it must be cheap.
#[macro_export]
macro_rules! invariant {
    ($id:ident, $condition:expr, $($why:tt)+) => {
        if !$condition {
            $crate::Invariant::$id.violated(::std::format_args!($($why)+));
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_holds_counts_nothing_and_names_are_ids() {
        invariant!(I7, 1 + 1 == 2, "never");
        assert_eq!(Invariant::I7.violations(), 0);
        for (number, invariant) in (1..).zip(Invariant::ALL) {
            assert_eq!(invariant.name(), format!("I{number}"));
        }
    }

    #[test]
    fn a_violation_is_counted_and_ends_what_must_not_go_on() {
        Invariant::make_fatal();
        let violated = || invariant!(I10, false, "{} credits too many", 3);
        let panic = std::panic::catch_unwind(violated).expect_err("it is fatal");
        let text = panic.downcast::<String>().expect("a text");
        assert_eq!(*text, "I10 is violated: 3 credits too many");
        assert_eq!(Invariant::I10.violations(), 1);
    }
}
