//! Resident bytes over time, the basis of VRAM credits.

use crate::Nanos;

/// Memory that a session holds, by the device's report, and has held over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ByteTime {
    /// Bytes resident now.
    pub resident: u64,
    since: Nanos,
    byte_ns: u128,
}

impl ByteTime {
    /// Creates an empty residency that begins at `now`.
    pub(super) fn since(now: Nanos) -> Self {
        Self {
            since: now,
            ..Self::default()
        }
    }

    pub(super) fn set(&mut self, now: Nanos, resident: u64) {
        self.byte_ns += u128::from(self.resident) * u128::from(now.saturating_sub(self.since));
        self.since = now.max(self.since);
        self.resident = resident;
    }

    /// Byte-milliseconds up to now.
    #[must_use]
    pub fn byte_ms(&self, now: Nanos) -> u64 {
        let open = u128::from(self.resident) * u128::from(now.saturating_sub(self.since));
        u64::try_from((self.byte_ns + open) / 1_000_000).unwrap_or(u64::MAX)
    }
}
