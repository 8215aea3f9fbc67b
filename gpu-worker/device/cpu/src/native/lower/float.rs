//! Arithmetic and conversion of f32.

use super::Lower;
use crate::decode::form::{Bank, Float1, Float2, Inst, Mode, Round};
use crate::native::assembler::{
    Rm, VADDPS, VANDNPS, VANDPS, VCMPPS, VCVTDQ2PS, VDIVPS, VFMADD213PS, VFMADD231PS, VMAXPS,
    VMINPS, VMOVAPS, VMOVUPS, VMULPS, VORPS, VPAND, VPCMPEQD, VPMOVSXDQ, VPMOVZXDQ, VSQRTPS,
    VSUBPS, VXORPS, Ymm,
};
use crate::native::math;
use crate::native::values::NAN;
use ptx::Scalar;

impl Lower<'_> {
    /// A float result; makes it canonical first if it has a guard.
    pub(super) fn single(&mut self, inst: &Inst, mode: Mode, register: Ymm) {
        if mode.ftz {
            self.flush(register, register);
        }
        if mode.sat {
            let zero = self.values.asm.constant([0; 8]);
            let one = self.values.asm.constant([0x3f80_0000; 8]);
            self.values.asm.v3(VMAXPS, register, register, zero);
            self.values.asm.v3(VMINPS, register, register, one);
        } else if inst.guard.is_some() {
            let mask = self.values.fresh();
            let nan = self.values.asm.constant([NAN; 8]);
            self.values.asm.v3i(VCMPPS, mask, register, register, 3);
            self.values.asm.blend(register, register, nan, mask);
            self.values.release(mask);
        }
        let id = self.result(inst, Bank::Word, &[register]);
        if !mode.sat && inst.guard.is_none() {
            self.values.set_raw(id);
        }
    }

    /// d = x, with subnormals replaced by zeros.
    pub(super) fn flush(&mut self, d: Ymm, x: Ymm) {
        let (mask, sign) = (self.values.fresh(), self.values.fresh());
        let asm = &mut self.values.asm;
        let exponent = asm.constant([0x7f80_0000; 8]);
        let zero = asm.constant([0; 8]);
        let top = asm.constant([0x8000_0000; 8]);
        asm.v3(VPAND, mask, x, exponent);
        asm.v3(VPCMPEQD, mask, mask, zero);
        asm.v3(VPAND, sign, x, top);
        asm.blend(d, x, sign, mask);
        self.values.release(mask);
        self.values.release(sign);
    }

    /// A float source in a register.
    pub(super) fn input(&mut self, inst: &Inst, at: usize, ftz: bool) -> Ymm {
        let id = self.word(inst, at);
        let register = self.values.get(id, 0);
        if !ftz {
            return register;
        }
        let flushed = self.values.fresh();
        self.flush(flushed, register);
        flushed
    }

    pub(super) fn input_operand(&mut self, inst: &Inst, at: usize, ftz: bool) -> Rm {
        if ftz {
            return Rm::Ymm(self.input(inst, at, true));
        }
        let id = self.word(inst, at);
        self.values.operand(id, 0)
    }

    /// Emits code that runs under another rounding mode.
    pub(super) fn rounded(&mut self, round: Round, run: impl FnOnce(&mut Self)) {
        let bits = match round {
            Round::Down => 1 << 13,
            Round::Up => 2 << 13,
            Round::Zero => 3 << 13,
            Round::Nearest | Round::Away => return run(self),
        };
        let (mode, usual) = {
            let asm = &mut self.values.asm;
            (asm.constant([0x1f80 | bits; 8]), asm.constant([0x1f80; 8]))
        };
        self.values.asm.mxcsr(2, mode);
        run(self);
        self.values.asm.mxcsr(2, usual);
    }

    pub(super) fn float2(&mut self, inst: &Inst, op: Float2, mode: Mode) {
        let a = self.input(inst, 1, mode.ftz);
        let b = self.input_operand(inst, 2, mode.ftz);
        let d = self.values.fresh();
        let vex = match op {
            Float2::Add => VADDPS,
            Float2::Sub => VSUBPS,
            Float2::Mul => VMULPS,
            Float2::Div => VDIVPS,
            Float2::Min => VMINPS,
            _ => VMAXPS,
        };
        self.rounded(mode.round, |it| it.values.asm.v3(vex, d, a, b));
        if matches!(op, Float2::Min | Float2::Max) {
            let mask = self.values.fresh();
            let tie = self.values.fresh();
            let asm = &mut self.values.asm;
            // Equal operands may be zeros of different signs.
            asm.v3(if op == Float2::Min { VORPS } else { VANDPS }, tie, a, b);
            asm.v3i(VCMPPS, mask, a, b, 0);
            asm.blend(d, d, tie, mask);
            // The instruction returns b if one operand is NaN; if b is the NaN, the result must be
            // a.
            match b {
                Rm::Ymm(b) => asm.v3i(VCMPPS, mask, b, b, 3),
                memory => {
                    asm.v2(VMOVAPS, tie, memory);
                    asm.v3i(VCMPPS, mask, tie, tie, 3);
                }
            }
            asm.blend(d, d, a, mask);
            self.values.release(mask);
            self.values.release(tie);
        }
        self.single(inst, mode, d);
    }

    pub(super) fn float1(&mut self, inst: &Inst, op: Float1, mode: Mode) {
        if matches!(op, Float1::Abs | Float1::Neg) {
            let id = self.word(inst, 1);
            self.values.clean(id);
            let (a, d) = (self.values.get(id, 0), self.values.fresh());
            let sign = self.values.asm.constant([0x8000_0000; 8]);
            if op == Float1::Neg {
                self.values.asm.v3(VXORPS, d, a, sign);
            } else {
                self.values.asm.v2(VMOVAPS, d, sign);
                self.values.asm.v3(VANDNPS, d, d, a);
            }
            self.result(inst, Bank::Word, &[d]);
            return;
        }
        let a = self.input(inst, 1, mode.ftz);
        let d = self.values.fresh();
        let one = self.values.asm.constant([0x3f80_0000; 8]);
        match op {
            Float1::Sqrt => self.values.asm.v2(VSQRTPS, d, a),
            Float1::Ex2 => math::ex2(&mut self.values, d, a),
            _ => {
                let divisor = self.values.fresh();
                if op == Float1::Rsqrt {
                    self.values.asm.v2(VSQRTPS, divisor, a);
                } else {
                    self.values.asm.v2(VMOVAPS, divisor, a);
                }
                self.values.asm.v2(VMOVAPS, d, one);
                self.values.asm.v3(VDIVPS, d, d, divisor);
                self.values.release(divisor);
            }
        }
        self.single(inst, mode, d);
    }

    pub(super) fn fma(&mut self, inst: &Inst, mode: Mode) {
        let a = self.input(inst, 1, mode.ftz);
        let b = self.input_operand(inst, 2, mode.ftz);
        let c = self.input_operand(inst, 3, mode.ftz);
        let d = self.values.fresh();
        match (b, c) {
            (b, Rm::Ymm(c)) => {
                self.values.asm.v2(VMOVAPS, d, c);
                self.rounded(mode.round, |it| it.values.asm.v3(VFMADD231PS, d, a, b));
            }
            (Rm::Ymm(b), c) => {
                self.values.asm.v2(VMOVAPS, d, a);
                self.rounded(mode.round, |it| it.values.asm.v3(VFMADD213PS, d, b, c));
            }
            (b, c) => {
                self.values.asm.v2(VMOVUPS, d, c);
                self.rounded(mode.round, |it| it.values.asm.v3(VFMADD231PS, d, a, b));
            }
        }
        self.single(inst, mode, d);
    }

    pub(super) fn convert(&mut self, inst: &Inst, to: Scalar, from: Scalar, mode: Mode) {
        if to == Scalar::F32 && from == Scalar::F32 {
            let a = self.input(inst, 1, mode.ftz);
            let d = self.values.fresh();
            self.values.asm.v2(VMOVAPS, d, a);
            return self.single(inst, mode, d);
        }
        if to.size() == 8 {
            let id = self.word(inst, 1);
            self.values.clean(id);
            let extend = if from == Scalar::S32 {
                VPMOVSXDQ
            } else {
                VPMOVZXDQ
            };
            let registers = [0, 1].map(|half| {
                let a = self.values.get(id, 0);
                let d = self.values.fresh();
                self.extend(extend, d, a, half);
                d
            });
            self.result(inst, Bank::Double, &registers);
            return;
        }
        let d = if from.size() == 8 {
            let id = self.double(inst, 1);
            let (low, high) = (self.values.get(id, 0), self.values.get(id, 1));
            let d = self.values.fresh();
            self.narrow(d, low, high);
            d
        } else {
            let id = self.word(inst, 1);
            self.values.clean(id);
            let (a, d) = (self.values.get(id, 0), self.values.fresh());
            if from == Scalar::S32 {
                self.values.asm.v2(VCVTDQ2PS, d, a);
            } else {
                // Both halves and their product are exact, so there is one rounding.
                let low = self.values.fresh();
                let asm = &mut self.values.asm;
                let half = asm.constant([0xffff; 8]);
                let scale = asm.constant([65_536_f32.to_bits(); 8]);
                asm.v3(VPAND, low, a, half);
                asm.v2(VCVTDQ2PS, low, low);
                asm.shift(0x72, 2, d, a, 16);
                asm.v2(VCVTDQ2PS, d, d);
                asm.v3(VMULPS, d, d, scale);
                asm.v3(VADDPS, d, d, low);
                self.values.release(low);
            }
            d
        };
        self.result(inst, Bank::Word, &[d]);
    }
}
