//! `vprintf`: output is formatted at once, and kept as a record.

#![expect(unsafe_code, reason = "reads arguments behind address checks")]

use super::format::{self, Arguments};
use super::text::{BYTES, text};
use crate::decode::form::Place;
use crate::engine::context::Context;
use crate::engine::printed::Printed;

/// The arguments that a caller packed for `vprintf`, each at its natural alignment.
struct Packed<'c, 'm> {
    cx: &'c mut Context<'m>,
    lane: u32,
    address: u64,
    at: u64,
}

impl Arguments for Packed<'_, '_> {
    fn next(&mut self, size: u64) -> Option<u64> {
        self.at = self.at.next_multiple_of(size);
        let address = self.address.wrapping_add(self.at);
        self.at += size;
        let from = self
            .cx
            .resolve(Place::Generic, address, (size, size), false, self.lane)?;
        let mut bytes = [0; 8];
        // SAFETY: `spot` checked `size` bytes, which is 4 or 8.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), size as usize) };
        Some(u64::from_le_bytes(bytes))
    }

    fn text(&mut self, address: u64) -> Option<Vec<u8>> {
        text(self.cx, address, self.lane)
    }
}

/// Prints for one lane. Returns the number of arguments, -1 without a format, `None` after a fault.
pub(super) fn record(
    cx: &mut Context<'_>,
    printed: &mut Printed,
    [template, address, ..]: [u64; 5],
    lane: u32,
) -> Option<u64> {
    if template == 0 {
        return Some(u64::from(u32::MAX));
    }
    let template = text(cx, template, lane)?;
    let mut arguments = Packed {
        cx,
        lane,
        address,
        at: 0,
    };
    let (record, count) = format::format(&template, &mut arguments)?;
    cx.spent += record.len() as u64 / BYTES;
    printed.push(record.into());
    Some(u64::from(count as u32))
}
