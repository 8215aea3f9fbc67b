//! A tenant's limit for a worker's memory, other than device memory, as in open grants.

use serde::{Deserialize, Serialize};

/// Bytes of one step.
const STEP: u64 = 16 << 20;

/// Bytes in steps of 16 MiB, from one step to 65,535 steps (just below 1 TiB), or no limit. Grants
/// from before limits existed have no limit.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Allowance(u16);

impl Allowance {
    /// No limit.
    pub const NONE: Self = Self(0);

    /// Creates an allowance of `bytes`, rounded up to a step; a value beyond the range is no limit.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        u16::try_from(bytes.div_ceil(STEP).max(1)).map_or(Self::NONE, Self)
    }

    /// True if there is no limit.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Returns the bytes; `u64::MAX` is no limit.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self.0 {
            0 => u64::MAX,
            steps => u64::from(steps) * STEP,
        }
    }

    pub(crate) fn from_number(number: u16) -> Self {
        Self(number)
    }

    pub(crate) fn number(self) -> u16 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_rounded_up_and_too_many_are_no_limit() {
        for (bytes, said) in [
            (0, STEP),
            (1, STEP),
            (STEP, STEP),
            (STEP + 1, 2 * STEP),
            (65_535 * STEP, 65_535 * STEP),
            (65_535 * STEP + 1, u64::MAX),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(Allowance::of(bytes).bytes(), said, "{bytes}");
        }
        assert_eq!(Allowance::default(), Allowance::NONE);
    }
}
