//! A tenant's allowance of a worker's memory beside the device's, as open grants carry it.

use serde::{Deserialize, Serialize};

/// Bytes of one step.
const STEP: u64 = 16 << 20;

/// Bytes in steps of 16 MiB, from one of them to 65,535 (just below 1 TiB); or no limit, which is
/// what grants say that were made before there were limits.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Allowance(u16);

impl Allowance {
    /// No limit.
    pub const NONE: Self = Self(0);

    /// So many bytes, rounded up to a step; what is more than can be said is no limit.
    #[must_use]
    pub fn of(bytes: u64) -> Self {
        u16::try_from(bytes.div_ceil(STEP).max(1)).map_or(Self::NONE, Self)
    }

    /// Whether it is no limit.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// Bytes; `u64::MAX` is no limit.
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
