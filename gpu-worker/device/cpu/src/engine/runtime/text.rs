//! Strings in a kernel's memory.

#![expect(unsafe_code, reason = "reads bytes behind address checks")]

use crate::decode::form::Place;
use crate::engine::context::Context;

/// Maximum length of a string that is read from a kernel's memory.
const TEXT: u64 = 16 << 10;

/// Bytes of text with the cost of one instruction.
pub(super) const BYTES: u64 = 16;

/// A string at a generic address, without its NUL; `None` after a recorded fault.
pub(super) fn text(cx: &mut Context<'_>, address: u64, lane: u32) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for at in 0..TEXT {
        let from = cx.resolve(
            Place::Generic,
            address.wrapping_add(at),
            (1, 1),
            false,
            lane,
        )?;
        // SAFETY: `spot` returned the address of one byte.
        let byte = unsafe { from.read_volatile() };
        if byte == 0 {
            break;
        }
        out.push(byte);
    }
    cx.spent += out.len() as u64 / BYTES;
    Some(out)
}
