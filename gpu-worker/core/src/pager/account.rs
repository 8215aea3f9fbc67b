//! The account of a tenant's memory beside its charge: bytes swapped out and bytes saved by sharing over
//! time, moves, and waits for moves.

use bus_schemas::MoveTotals;

use crate::Nanos;

/// Bytes that a session holds and is not charged for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Uncharged {
    /// Bytes swapped out.
    pub(super) out: u64,
    /// Bytes on the device that are charged to other sessions that share them.
    pub(super) saved: u64,
}

/// The account of one tenant.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Uncharged bytes of its sessions now.
    now: Uncharged,
    since: Nanos,
    out_byte_ns: u128,
    saved_byte_ns: u128,
    /// Totals of events; the totals over time are kept apart.
    pub(super) events: MoveTotals,
}

impl Account {
    /// Replaces a session's uncharged bytes from now on.
    pub(super) fn replace(&mut self, now: Nanos, before: Uncharged, after: Uncharged) {
        (self.out_byte_ns, self.saved_byte_ns) = self.through(now);
        self.since = now.max(self.since);
        self.now = Uncharged {
            out: self.now.out - before.out + after.out,
            saved: self.now.saved - before.saved + after.saved,
        };
    }

    /// Byte-nanoseconds up to now, swapped out and saved.
    fn through(&self, now: Nanos) -> (u128, u128) {
        let passed = u128::from(now.saturating_sub(self.since));
        (
            self.out_byte_ns + u128::from(self.now.out) * passed,
            self.saved_byte_ns + u128::from(self.now.saved) * passed,
        )
    }

    /// Everything up to now.
    pub(super) fn totals(&self, now: Nanos) -> MoveTotals {
        let ms = |byte_ns: u128| u64::try_from(byte_ns / 1_000_000).unwrap_or(u64::MAX);
        let (out, saved) = self.through(now);
        MoveTotals {
            swapped_byte_ms: ms(out),
            saved_byte_ms: ms(saved),
            ..self.events
        }
    }
}
