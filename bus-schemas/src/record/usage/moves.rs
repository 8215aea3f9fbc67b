//! What tenants' memory did beside being charged: swapped out and in, waited for, shared, not sent.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::id::Tenant;

/// Sums of what happened to memory. None goes beyond what it holds, as of [`super::UseTotals`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveTotals {
    /// Times that a session was swapped out.
    pub outs: u64,
    /// Bytes that these moved.
    pub out_bytes: u64,
    /// Times that a session was brought back.
    pub ins: u64,
    /// Bytes that these moved.
    pub in_bytes: u64,
    /// Nanoseconds that sessions with work waited for their memory, added up over sessions.
    pub waited_ns: u64,
    /// Byte-milliseconds held and swapped out.
    pub swapped_byte_ms: u64,
    /// Byte-milliseconds held on the device and not charged, because they were shared.
    pub saved_byte_ms: u64,
    /// Bytes of copies that need not be sent, because the worker had them.
    pub unsent_bytes: u64,
}

/// How many numbers there are.
const COUNT: usize = 8;

impl MoveTotals {
    /// Its numbers, in the order of its fields.
    fn numbers(&self) -> [u64; COUNT] {
        [
            self.outs,
            self.out_bytes,
            self.ins,
            self.in_bytes,
            self.waited_ns,
            self.swapped_byte_ms,
            self.saved_byte_ms,
            self.unsent_bytes,
        ]
    }

    fn of(numbers: [u64; COUNT]) -> Self {
        let [outs, out_bytes, ins, in_bytes, waited_ns, rest @ ..] = numbers;
        let [swapped_byte_ms, saved_byte_ms, unsent_bytes] = rest;
        Self {
            outs,
            out_bytes,
            ins,
            in_bytes,
            waited_ns,
            swapped_byte_ms,
            saved_byte_ms,
            unsent_bytes,
        }
    }

    /// Adds other sums.
    pub fn add(&mut self, other: &Self) {
        let mut sums = self.numbers();
        for (sum, more) in sums.iter_mut().zip(other.numbers()) {
            *sum = sum.saturating_add(more);
        }
        *self = Self::of(sums);
    }

    /// What these are more than others; `None` where one is less.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Option<Self> {
        let mut more = self.numbers();
        for (mine, theirs) in more.iter_mut().zip(other.numbers()) {
            *mine = mine.checked_sub(theirs)?;
        }
        Some(Self::of(more))
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// Whether something happened, beside time that passed.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.outs > 0 || self.ins > 0 || self.waited_ns > 0 || self.unsent_bytes > 0
    }
}

/// What one tenant's memory did since the block before (in a status: since the worker's start): a row of
/// 96 bytes, the tenant and the numbers in their order, each of 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantMoves {
    /// The tenant.
    pub tenant: Tenant,
    /// What happened.
    pub moves: MoveTotals,
}

impl Row for TenantMoves {
    const SIZE: usize = 96;

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.tenant.padded());
        put(out, &self.moves.numbers());
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let tenant = fields.tenant()?;
        let mut numbers = [0; COUNT];
        for number in &mut numbers {
            *number = fields.u64()?;
        }
        let moves = MoveTotals::of(numbers);
        Some(Self { tenant, moves })
    }
}
