//! Loads and stores for the generator, and the code for accesses with consecutive addresses.

use super::assembler::{
    Assembler, Label, RAX, Rm, VMOVUPS, VMOVUPS_TO, VPMOVSXBD, VPMOVSXWD, VPMOVZXBD, VPMOVZXWD, Ymm,
};
use super::def_use::Var;
use crate::decode::form::{Bank, Inst, Op, Place};
use ptx::Scalar;

/// Code outside the straight line.
pub(super) struct Stub {
    pub(super) entry: Label,
    pub(super) emit: Box<dyn FnOnce(&mut Assembler)>,
}

/// A load or store.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) place: Place,
    pub(super) ty: Scalar,
    pub(super) parts: usize,
    pub(super) wide: bool,
    pub(super) write: bool,
}

impl Access {
    pub(super) fn of(inst: &Inst) -> Option<Self> {
        let (at, ty, parts, write) = match inst.op {
            Op::Load { at, ty, lanes } => (at, ty, lanes, false),
            Op::Store { at, ty, lanes } => (at, ty, lanes, true),
            _ => return None,
        };
        Some(Self {
            place: at.place,
            ty,
            parts: usize::from(parts),
            wide: at.wide,
            write,
        })
    }

    pub(super) fn stride(self) -> i64 {
        self.ty.size() as i64 * self.parts as i64
    }

    /// The address register.
    pub(super) fn var(self, inst: &Inst) -> Var {
        let bank = if self.wide { Bank::Double } else { Bank::Word };
        Var::new(bank, inst.slots[0])
    }
}

/// True if code for a load or store can be generated.
pub(super) fn supported(inst: &Inst) -> bool {
    let Some(it) = Access::of(inst) else {
        return false;
    };
    let place = match it.place {
        Place::Global | Place::Const | Place::Generic => it.wide,
        Place::Shared => true,
        Place::Local | Place::Frame | Place::Param => false,
    };
    let size = it.ty.size();
    let fits = i32::try_from(inst.imm).is_ok_and(|imm| imm.unsigned_abs() < 1 << 28);
    let ty = it.ty != Scalar::Pred && (size == 4 || size <= 8 && it.parts == 1);
    place && fits && ty && inst.imm % it.stride() == 0
}

/// Emits the access for eight consecutive addresses; false if there is no short form.
pub(super) fn contiguous(asm: &mut Assembler, it: Access, registers: &[Ymm], offset: i32) -> bool {
    let at = Rm::At(RAX, offset);
    let next = Rm::At(RAX, offset + 32);
    match (it.ty.size(), it.parts, it.write) {
        (4, 1, false) => asm.v2(VMOVUPS, registers[0], at),
        (4, 1, true) => asm.v2(VMOVUPS_TO, registers[0], at),
        (8, _, false) => {
            asm.v2(VMOVUPS, registers[0], at);
            asm.v2(VMOVUPS, registers[1], next);
        }
        (8, _, true) => {
            asm.v2(VMOVUPS_TO, registers[0], at);
            asm.v2(VMOVUPS_TO, registers[1], next);
        }
        (1, _, false) if it.ty.is_signed() => asm.v2(VPMOVSXBD, registers[0], at),
        (1, _, false) => asm.v2(VPMOVZXBD, registers[0], at),
        (2, _, false) if it.ty.is_signed() => asm.v2(VPMOVSXWD, registers[0], at),
        (2, _, false) => asm.v2(VPMOVZXWD, registers[0], at),
        _ => return false,
    }
    true
}
