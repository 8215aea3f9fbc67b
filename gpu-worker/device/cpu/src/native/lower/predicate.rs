//! Predicates: masks of lanes in a register, one bit per lane in memory.

use super::Lower;
use super::logic::join;
use crate::decode::form::{Bank, Compare, GuardSlot, Inst, Logic, Slot};
use crate::native::assembler::{
    RAX, RBP, Rm, VCMPPS, VMOVAPS, VMOVMSKPS, VPAND, VPCMPEQD, VPCMPEQQ, VPCMPGTD, VPCMPGTQ,
    VPMOVSXDQ, VXORPS, Vex, Ymm,
};
use crate::native::def_use::Var;
use ptx::Scalar;

impl Lower<'_> {
    /// The lanes of a predicate as a mask.
    pub(super) fn pred(&mut self, slot: Slot) -> Ymm {
        let var = Var::new(Bank::Pred, slot);
        if self.values.known(var).is_some() || self.values.scalars.contains_key(&var) {
            let id = self.values.of(var);
            return self.values.get(id, 0);
        }
        let bits = self.bits(slot);
        let register = self.values.fresh();
        let asm = &mut self.values.asm;
        let lanes = asm.constant(std::array::from_fn(|lane| 1 << lane));
        asm.v2(Vex(1, 2, 0, 0x78), register, bits);
        asm.v3(VPAND, register, register, lanes);
        asm.v3(VPCMPEQD, register, register, lanes);
        self.values.define(var, &[register]);
        register
    }

    /// Address of a predicate's bits for these lanes.
    pub(in crate::native) fn bits(&self, slot: Slot) -> Rm {
        match self.values.scalars.get(&Var::new(Bank::Pred, slot)) {
            Some((place, _)) => *place,
            None => Rm::At(RBP, slot.0 as i32 * 4 + self.values.group),
        }
    }

    pub(in crate::native) fn guard(&mut self, guard: GuardSlot) -> Ymm {
        let mask = self.pred(Slot(guard.slot));
        if guard.negated { self.not(mask) } else { mask }
    }

    pub(super) fn not(&mut self, mask: Ymm) -> Ymm {
        let register = self.values.fresh();
        let ones = self.values.asm.constant([u32::MAX; 8]);
        self.values.asm.v3(VXORPS, register, mask, ones);
        register
    }

    /// Four lanes of a mask as masks of 64 bits.
    pub(in crate::native) fn expand(&mut self, mask: Ymm, half: usize) -> Ymm {
        let wide = self.values.fresh();
        self.extend(VPMOVSXDQ, wide, mask, half);
        wide
    }

    /// Sets a predicate's lanes: keeps them as a mask and writes them as bits.
    pub(super) fn set_pred(&mut self, inst: &Inst, mask: Ymm) {
        let var = Var::new(Bank::Pred, inst.slots[0]);
        if let Some(guard) = inst.guard {
            let old = self.pred(inst.slots[0]);
            let lanes = self.guard(guard);
            self.values.asm.blend(mask, old, mask, lanes);
        }
        let bits = self.bits(inst.slots[0]);
        let asm = &mut self.values.asm;
        asm.movmsk(VMOVMSKPS, RAX, mask);
        asm.save_byte(bits, RAX);
        self.values.define(var, &[mask]);
    }

    pub(super) fn select(&mut self, inst: &Inst, bank: Bank) {
        let a = self.values.of(Var::new(bank, inst.slots[1]));
        let b = self.values.of(Var::new(bank, inst.slots[2]));
        self.values.clean(a);
        self.values.clean(b);
        let mask = self.pred(inst.slots[3]);
        let halves = if bank == Bank::Double { 2 } else { 1 };
        let mut registers = Vec::new();
        for half in 0..halves {
            let (a, b) = (self.values.operand(a, half), self.values.get(b, half));
            let d = self.values.fresh();
            if bank == Bank::Double {
                let wide = self.expand(mask, half);
                self.values.asm.blend(d, b, a, wide);
                self.values.release(wide);
            } else {
                self.values.asm.blend(d, b, a, mask);
            }
            registers.push(d);
        }
        self.result(inst, bank, &registers);
    }

    pub(super) fn logic(&mut self, inst: &Inst, logic: Logic, not_a: bool, not_b: bool) {
        let mut a = self.pred(inst.slots[1]);
        if not_a != (logic == Logic::Not) {
            a = self.not(a);
        }
        let d = self.values.fresh();
        match join(logic) {
            Some(op) => {
                let mut b = self.pred(inst.slots[2]);
                if not_b {
                    b = self.not(b);
                }
                self.values.asm.v3(op, d, a, b);
            }
            None => self.values.asm.v2(VMOVAPS, d, a),
        }
        self.set_pred(inst, d);
    }

    /// The mask of lanes in which a comparison is true.
    pub(super) fn compare(&mut self, inst: &Inst, compare: Compare, ty: Scalar, ftz: bool) -> Ymm {
        if ty == Scalar::F32 {
            let a = self.input(inst, 2, ftz);
            let b = self.input_operand(inst, 3, ftz);
            let d = self.values.fresh();
            self.values
                .asm
                .v3i(VCMPPS, d, a, b, float_condition(compare));
            return d;
        }
        let bank = Bank::of(ty);
        let a = self.values.of(Var::new(bank, inst.slots[2]));
        let b = self.values.of(Var::new(bank, inst.slots[3]));
        self.values.clean(a);
        self.values.clean(b);
        let (equal, greater) = if bank == Bank::Double {
            (VPCMPEQQ, VPCMPGTQ)
        } else {
            (VPCMPEQD, VPCMPGTD)
        };
        // Less is greater with swapped operands; the rest are their opposites.
        let (op, swapped, opposite) = match compare {
            Compare::Eq | Compare::Equ => (equal, false, false),
            Compare::Ne | Compare::Neu => (equal, false, true),
            Compare::Lt | Compare::Ltu => (greater, true, false),
            Compare::Ge | Compare::Geu => (greater, true, true),
            Compare::Gt | Compare::Gtu => (greater, false, false),
            Compare::Le | Compare::Leu => (greater, false, true),
            Compare::Num | Compare::Nan => return self.always(compare == Compare::Num),
        };
        let halves = if bank == Bank::Double { 2 } else { 1 };
        let mut masks = Vec::new();
        for half in 0..halves {
            let (mut x, mut y) = (self.values.get(a, half), self.values.get(b, half));
            if op == greater && !ty.is_signed() {
                (x, y) = (self.turned(x, bank), self.turned(y, bank));
            }
            if swapped {
                (x, y) = (y, x);
            }
            let d = self.values.fresh();
            self.values.asm.v3(op, d, x, y);
            masks.push(d);
        }
        let mut mask = masks[0];
        if let Some(high) = masks.get(1) {
            mask = self.values.fresh();
            self.narrow(mask, masks[0], *high);
        }
        if opposite { self.not(mask) } else { mask }
    }

    pub(super) fn always(&mut self, held: bool) -> Ymm {
        let d = self.values.fresh();
        let all = self
            .values
            .asm
            .constant([if held { u32::MAX } else { 0 }; 8]);
        self.values.asm.v2(VMOVAPS, d, all);
        d
    }
}

fn float_condition(compare: Compare) -> u8 {
    match compare {
        Compare::Eq => 0x00,
        Compare::Ne => 0x0c,
        Compare::Lt => 0x11,
        Compare::Le => 0x12,
        Compare::Gt => 0x1e,
        Compare::Ge => 0x1d,
        Compare::Equ => 0x08,
        Compare::Neu => 0x04,
        Compare::Ltu => 0x19,
        Compare::Leu => 0x1a,
        Compare::Gtu => 0x16,
        Compare::Geu => 0x15,
        Compare::Num => 0x07,
        Compare::Nan => 0x03,
    }
}
