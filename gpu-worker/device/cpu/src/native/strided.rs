//! Loads and stores whose 32 addresses are in steps and were checked before, so that nothing is checked here.

use super::access::Access;
use super::assembler::{Assembler, RCX, Rm};
use crate::decode::form::Inst;

/// Where the lanes' accesses lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// Stack place of a host address.
    pub(super) slot: i32,
    /// Lane 0's distance from it.
    pub(super) offset: i64,
    /// From lane to lane.
    pub(super) step: i64,
}

/// Whether an access in these steps has code here.
pub(super) fn is_known(inst: &Inst, it: Access, step: i64) -> bool {
    let whole = it.stride();
    let follows = step == whole && it.parts == 1;
    step % whole == 0
        && (inst.guard.is_none() || !it.write || follows && matches!(it.ty.size(), 4 | 8))
}

/// rcx = what lies there, extended to a register's size.
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
