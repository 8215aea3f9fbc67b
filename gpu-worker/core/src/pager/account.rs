//! The account of a tenant's memory beside what it is charged: what is swapped out and what sharing saves
//! over time, moves, and waits for them.

use bus_schemas::{MoveTotals, SessionId};

use crate::Nanos;

/// Of what a session holds, bytes that it is not charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Uncharged {
    /// It is swapped out.
    pub(super) out: u64,
    /// It is on the device, and others that share it are charged.
    pub(super) saved: u64,
}

/// What a session is charged, as the device says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    /// The session.
    pub session: SessionId,
    /// Bytes that it is charged.
    pub charged: u64,
    /// Bytes that it holds on the device beside, because others that share them are charged.
    pub saved: u64,
}

/// One tenant's.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Of its sessions now.
    now: Uncharged,
    since: Nanos,
    out_byte_ns: u128,
    saved_byte_ns: u128,
    /// What happened, without what passes with time.
    pub(super) events: MoveTotals,
}

impl Account {
    /// A session has this instead of that from now on.
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
