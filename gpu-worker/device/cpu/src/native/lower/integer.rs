//! Integers of 32 and 64 bits.

use super::Lower;
use crate::decode::form::{Bank, Inst, Int1, Int2};
use crate::native::assembler::{
    Rm, VPADDD, VPADDQ, VPAND, VPMAXSD, VPMAXUD, VPMINSD, VPMINUD, VPMOVSXDQ, VPMOVZXDQ, VPMULDQ,
    VPMULLD, VPMULUDQ, VPOR, VPSLLVD, VPSLLVQ, VPSRAVD, VPSRLVD, VPSRLVQ, VPSUBD, VPSUBQ, VPXOR,
    Ymm,
};
use crate::native::def_use::Var;
use ptx::Scalar;

impl Lower<'_> {
    pub(super) fn negated(&mut self, inst: &Inst, op: Int1) {
        let id = self.word(inst, 1);
        self.values.clean(id);
        let (a, d) = (self.values.get(id, 0), self.values.fresh());
        let asm = &mut self.values.asm;
        if op == Int1::Not {
            let ones = asm.constant([u32::MAX; 8]);
            asm.v3(VPXOR, d, a, ones);
        } else {
            asm.v3(VPXOR, d, d, d);
            asm.v3(VPSUBD, d, d, a);
        }
        self.result(inst, Bank::Word, &[d]);
    }

    /// Two clean words (the second may be in memory), and a register for the result.
    pub(super) fn two_words(&mut self, inst: &Inst) -> (Ymm, Rm, Ymm) {
        let (a, b) = (self.word(inst, 1), self.word(inst, 2));
        self.values.clean(a);
        self.values.clean(b);
        let (a, b) = (self.values.get(a, 0), self.values.operand(b, 0));
        (a, b, self.values.fresh())
    }

    pub(super) fn product(&mut self, inst: &Inst) -> Ymm {
        let (a, b, d) = self.two_words(inst);
        self.values.asm.v3(VPMULLD, d, a, b);
        d
    }

    pub(super) fn words(&mut self, inst: &Inst, op: Int2, ty: Scalar) {
        let (a, b, d) = self.two_words(inst);
        let signed = ty.is_signed();
        let op = match op {
            Int2::Add => VPADDD,
            Int2::Sub => VPSUBD,
            Int2::Mul => VPMULLD,
            Int2::Min if signed => VPMINSD,
            Int2::Min => VPMINUD,
            Int2::Max if signed => VPMAXSD,
            Int2::Max => VPMAXUD,
            Int2::And => VPAND,
            Int2::Or => VPOR,
            Int2::Xor => VPXOR,
            Int2::Shl => VPSLLVD,
            Int2::Shr if signed => VPSRAVD,
            _ => VPSRLVD,
        };
        self.values.asm.v3(op, d, a, b);
        self.result(inst, Bank::Word, &[d]);
    }

    pub(super) fn doubles(&mut self, inst: &Inst, op: Int2) {
        let a = self.double(inst, 1);
        let shift = matches!(op, Int2::Shl | Int2::Shr);
        let b = if shift {
            self.word(inst, 2)
        } else {
            self.double(inst, 2)
        };
        self.values.clean(b);
        let vex = match op {
            Int2::Add => VPADDQ,
            Int2::Sub => VPSUBQ,
            Int2::And => VPAND,
            Int2::Or => VPOR,
            Int2::Xor => VPXOR,
            Int2::Shl => VPSLLVQ,
            _ => VPSRLVQ,
        };
        let mut registers = Vec::new();
        for half in 0..2 {
            let source = self.values.get(a, half);
            let d = self.values.fresh();
            if shift {
                let count = self.values.get(b, 0);
                self.extend(VPMOVZXDQ, d, count, half);
                self.values.asm.v3(vex, d, source, d);
            } else {
                let b = self.values.operand(b, half);
                self.values.asm.v3(vex, d, source, b);
            }
            registers.push(d);
        }
        self.result(inst, Bank::Double, &registers);
    }

    pub(super) fn wide_product(&mut self, inst: &Inst, ty: Scalar) -> Vec<Ymm> {
        let signed = ty.is_signed();
        let (extend, multiply) = if signed {
            (VPMOVSXDQ, VPMULDQ)
        } else {
            (VPMOVZXDQ, VPMULUDQ)
        };
        let (a, b) = (self.word(inst, 1), self.word(inst, 2));
        self.values.clean(a);
        self.values.clean(b);
        let factor = self.known.bits(Var::new(Bank::Word, inst.slots[2]));
        let factor = factor.filter(|bits| bits.is_power_of_two() && *bits < 1 << 31);
        let mut registers = Vec::new();
        for half in 0..2 {
            let source = self.values.get(a, 0);
            let d = self.values.fresh();
            self.extend(extend, d, source, half);
            if let Some(factor) = factor {
                let count = factor.trailing_zeros() as u8;
                self.values.asm.shift(0x73, 6, d, d, count);
            } else {
                let other = self.values.get(b, 0);
                let t = self.values.fresh();
                self.extend(extend, t, other, half);
                self.values.asm.v3(multiply, d, d, t);
                self.values.release(t);
            }
            registers.push(d);
        }
        registers
    }

    /// Maps unsigned order to signed order.
    pub(super) fn turned(&mut self, a: Ymm, bank: Bank) -> Ymm {
        let d = self.values.fresh();
        let top = if bank == Bank::Double {
            [0, 1 << 31, 0, 1 << 31, 0, 1 << 31, 0, 1 << 31]
        } else {
            [1 << 31; 8]
        };
        let top = self.values.asm.constant(top);
        self.values.asm.v3(VPXOR, d, a, top);
        d
    }
}
