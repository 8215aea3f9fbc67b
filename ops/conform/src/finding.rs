//! Outcomes of checks.

/// The reason why a check failed, as observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding(pub(crate) String);

/// A check's outcome.
pub(crate) type Outcome = Result<(), Finding>;

/// Fails with the observation unless a condition holds.
macro_rules! ensure {
    ($condition:expr, $($saw:tt)+) => {
        match $condition {
            true => {}
            false => return Err($crate::finding::Finding(format!($($saw)+))),
        }
    };
}
pub(crate) use ensure;
