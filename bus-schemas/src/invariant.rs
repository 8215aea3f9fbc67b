//! Checks of the invariants of ARCHITECTURE.md, named at the lines that keep them. They live here
//! because this is the one crate that every core depends on, and there is nothing of theirs above it.
//!
//! A check that fails ends a debug build and a simulation. In a release build the process goes on, for
//! others' sessions may be well, and the violation is counted: the shells publish the counters.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// An invariant, by its id in ARCHITECTURE.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Invariant {
    /// A session's ops run at most once, in op order.
    I1,
    /// A GPU's grants start in gpu-position order, without gaps.
    I2,
    /// No grant of a lower epoch, nor of the same epoch under another leader.
    I3,
    /// Every granted op was submitted.
    I4,
    /// Same leader inputs, same grants.
    I5,
    /// The window is kept, and strict priority.
    I6,
    /// Tenants' shares by weight.
    I7,
    /// Quotas and capacity of memory.
    I8,
    /// A session's memory is its own.
    I9,
    /// Credits are conserved.
    I10,
}

impl Invariant {
    /// All of them.
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

    /// Its id.
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

    /// Checks that found it violated, in this process.
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

    /// A check failed. Who calls this is [`crate::invariant!`].
    ///
    /// # Panics
    /// In debug builds, and where violations are fatal.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub fn violated(self, why: fmt::Arguments<'_>) {
        self.count().fetch_add(1, Relaxed);
        let fatal = cfg!(debug_assertions) || FATAL.load(Relaxed);
        assert!(!fatal, "{} is violated: {why}", self.name());
    }

    /// From now on a violation ends this process, whatever the build: for simulations.
    pub fn make_fatal() {
        FATAL.store(true, Relaxed);
    }
}

static FATAL: AtomicBool = AtomicBool::new(false);

/// Checks an invariant where it is kept: `invariant!(I2, condition, "what is wrong: {detail}")`. The
/// condition is evaluated in every build, so it has to be cheap.
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
