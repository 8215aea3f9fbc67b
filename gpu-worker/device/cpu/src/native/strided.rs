//! Loads and stores with 32 addresses in steps that were checked before, so that nothing is checked
//! here.

use super::access::Access;
use super::assembler::{Assembler, RCX, Rm};
use crate::decode::form::Inst;

/// Addresses of the lanes' accesses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// Stack place of a host address.
    pub(super) slot: i32,
    /// Lane 0's distance from it.
    pub(super) offset: i64,
    /// Distance from lane to lane.
    pub(super) step: i64,
}

/// True if there is code for an access in these steps.
pub(super) fn is_known(inst: &Inst, it: Access, step: i64) -> bool {
    let whole = it.stride();
    let follows = step == whole && it.parts == 1;
    step % whole == 0
        && (inst.guard.is_none() || !it.write || follows && matches!(it.ty.size(), 4 | 8))
}

/// rcx = the value at the address, extended to a register's size.
pub(super) fn narrow_load(asm: &mut Assembler, it: Access, from: Rm) {
    let signed = it.ty.is_signed();
    match (it.ty.size(), signed) {
        (1, true) => asm.g2(false, 0xbe, RCX.0, from),
        (1, false) => asm.g2(false, 0xb6, RCX.0, from),
        (2, true) => asm.g2(false, 0xbf, RCX.0, from),
        (2, false) => asm.g2(false, 0xb7, RCX.0, from),
        (8, _) => asm.load(RCX, from),
        _ => asm.g(false, 0x8b, RCX.0, from),
    }
}
