//! Changes of tenants' memory other than charges: swapped out and in, waited for, shared, not sent.

use serde::{Deserialize, Serialize};

use crate::codec::column::{Fields, Row, put};
use crate::id::Tenant;

/// Sums of changes of memory. They saturate, like those of [`super::UseTotals`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveTotals {
    /// Number of swap-outs.
    pub outs: u64,
    /// Bytes that these moved.
    pub out_bytes: u64,
    /// Number of swap-ins.
    pub ins: u64,
    /// Bytes that these moved.
    pub in_bytes: u64,
    /// Nanoseconds that sessions with work waited for their memory, summed over sessions.
    pub waited_ns: u64,
    /// Byte-milliseconds held and swapped out.
    pub swapped_byte_ms: u64,
    /// Byte-milliseconds held on the device and not charged, because they were shared.
    pub saved_byte_ms: u64,
    /// Bytes of copies that were not sent, because the worker had them.
    pub unsent_bytes: u64,
}

/// Number of fields.
const COUNT: usize = 8;

impl MoveTotals {
    /// Returns the numbers in the order of the fields.
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

    /// Returns the difference to smaller sums; `None` if one of these is less.
    #[must_use]
    pub fn beyond(&self, other: &Self) -> Option<Self> {
        let mut more = self.numbers();
        for (mine, theirs) in more.iter_mut().zip(other.numbers()) {
            *mine = mine.checked_sub(theirs)?;
        }
        Some(Self::of(more))
    }

    /// True if all numbers are zero.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// True if there were events, not only time that passed.
    #[must_use]
    pub fn has_events(&self) -> bool {
        self.outs > 0 || self.ins > 0 || self.waited_ns > 0 || self.unsent_bytes > 0
    }
}

/// Changes of one tenant's memory since the previous block (in a status: since the worker's start).
/// A row of 96 bytes: the tenant and the numbers in their order, each of 8 bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantMoves {
    /// The tenant.
    pub tenant: Tenant,
    /// The changes.
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
