//! Patterns of the eight addresses of a register, and the check of their bounds.

use super::assembler::{
    Assembler, Cc, Label, RAX, RBX, RCX, RDX, RSI, RSP, Rm, VMOVUPS, VMOVUPS_TO, Ymm,
};
use super::site::{SITES, Site};
use super::values::Id;
use crate::decode::form::Place;
use crate::engine::context::Context;
use std::mem::offset_of;

/// Pattern of eight addresses, as the flag in a shape's second word.
pub(super) const CONTIGUOUS: u8 = 1;
pub(super) const SAME: u8 = 2;

/// Result of the check of a register's addresses: host address and flag on the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressPattern {
    pub(super) id: Id,
    pub(super) stride: i64,
    /// Offset of the lowest access.
    pub(super) least: i64,
    /// Offset behind the last byte.
    pub(super) most: i64,
    pub(super) write: bool,
    pub(super) place: Place,
    /// Number of the shape, which selects the site.
    pub(super) number: usize,
    pub(super) at: i32,
}

/// A field of the context.
pub(super) fn field(offset: usize) -> Rm {
    Rm::At(RBX, offset as i32)
}

/// Marks a shape as one to be accessed lane by lane.
pub(super) fn scatter(asm: &mut Assembler, shape: AddressPattern) {
    asm.code.extend([0xc6, 0x84, 0x24]);
    asm.code.extend((shape.at + 8).to_le_bytes());
    asm.code.push(0);
}

/// Records the pattern of a shape, with its host address in rcx.
pub(super) fn mark(asm: &mut Assembler, shape: AddressPattern, flag: u8) {
    asm.save(Rm::At(RSP, shape.at), RCX);
    asm.code.extend([0xc6, 0x84, 0x24]);
    asm.code.extend((shape.at + 8).to_le_bytes());
    asm.code.push(flag);
}

/// Checks the range from the first address in rax; leaves the host address in rcx.
pub(super) fn bounds(
    asm: &mut Assembler,
    shape: AddressPattern,
    len: i64,
    (misaligned, miss): (Label, Label),
    wide: bool,
) {
    if wide {
        asm.lea(RCX, RAX, shape.least as i32);
    } else {
        // Addresses of 32 bits wrap at 32 bits.
        asm.g(false, 0x8b, RCX.0, RAX);
        asm.with(false, 0, RCX, shape.least as i32);
    }
    let checked = !cfg!(unchecked_access);
    if checked && shape.stride > 1 {
        asm.code.extend([0xf6, 0xc1, shape.stride as u8 - 1]);
        asm.jump_if(Cc::NotEqual, misaligned);
    }
    let (limit, base) = if shape.place == Place::Shared {
        (
            offset_of!(Context<'_>, shared_len),
            offset_of!(Context<'_>, shared),
        )
    } else {
        let site = offset_of!(Context<'_>, sites) + site(shape) * size_of::<Site>();
        (
            site + offset_of!(Site, span),
            offset_of!(Context<'_>, delta),
        )
    };
    if checked {
        asm.load(RDX, field(limit));
        if shape.place == Place::Shared {
            asm.g(true, 0x2b, RDX.0, RCX);
        } else {
            asm.load(RSI, RCX);
            asm.g(true, 0x2b, RSI.0, field(limit - offset_of!(Site, span)));
            asm.g(true, 0x2b, RDX.0, RSI);
        }
        asm.jump_if(Cc::Below, miss);
        asm.with(true, 7, RDX, len as i32);
        asm.jump_if(Cc::Below, miss);
    }
    asm.g(true, 0x03, RCX.0, field(base));
}

/// Stores have separate sites: an allocation recorded for a load may be read-only.
pub(super) fn site(shape: AddressPattern) -> usize {
    shape.number % (SITES / 2) + if shape.write { SITES / 2 } else { 0 }
}

/// Saves registers, calls, restores them; the arguments are set in between.
pub(super) fn around(
    asm: &mut Assembler,
    save: i32,
    live: &[Ymm],
    call: impl FnOnce(&mut Assembler),
) {
    for (at, register) in live.iter().enumerate() {
        asm.v2(VMOVUPS_TO, *register, Rm::At(RSP, save + 32 * at as i32));
    }
    // The callee may be code without AVX.
    asm.code.extend([0xc5, 0xf8, 0x77]);
    call(asm);
    for (at, register) in live.iter().enumerate() {
        asm.v2(VMOVUPS, *register, Rm::At(RSP, save + 32 * at as i32));
    }
}
