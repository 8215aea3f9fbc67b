//! Instructions with results that are the same in all lanes, or in steps: computed once, for lane
//! 0.

use super::Region;
use super::class::Class;
use super::compare::condition;
use crate::decode::form::{Bank, Compare, Inst, Int1, Int2, Int3, Logic, Op, Slot};
use crate::native::access::Access;
use crate::native::assembler::{Cc, Gpr, R14, R15, RAX, RCX, RDX, RSP, Rm};
use crate::native::def_use::Var;
use crate::native::strided::narrow_load;
use ptx::Scalar;

/// Steps from lane 0 to lane 31.
pub(super) const LAST: i64 = 31;

fn is_wide(var: Var) -> bool {
    var.bank() == Bank::Double
}

impl Region<'_> {
    /// Location of lane 0's value of a register or constant.
    pub(super) fn at(&self, var: Var) -> Rm {
        if var.is_constant() {
            let base = if is_wide(var) { R15 } else { R14 };
            return Rm::At(base, (var.1 & !Slot::CONSTANT) as i32);
        }
        match self.lower.values.scalars.get(&var) {
            Some((place, _)) => *place,
            // Unreachable: every register with a class has a place.
            None => Rm::At(RSP, 8),
        }
    }

    fn fetch(&mut self, d: Gpr, var: Var) {
        let from = self.at(var);
        self.asm().g(is_wide(var), 0x8b, d.0, from);
    }

    /// d op= a register's value: add 03, sub 2b, and 23, or 0b, xor 33, cmp 3b.
    fn combine(&mut self, opcode: u8, d: Gpr, var: Var) {
        let from = self.at(var);
        self.asm().g(is_wide(var), opcode, d.0, from);
    }

    /// d = a register's value, if a condition is true.
    fn choose(&mut self, cc: Cc, d: Gpr, var: Var) {
        let from = self.at(var);
        self.asm().g2(is_wide(var), 0x40 | cc as u8, d.0, from);
    }

    /// Assigns a new value, in rax, to a register.
    fn define(&mut self, inst: &Inst, var: Var) {
        if let Some(guard) = inst.guard {
            let bits = self.at(Var::new(Bank::Pred, Slot(guard.slot)));
            self.asm().compare_byte(bits, 0);
            let kept = if guard.negated {
                Cc::NotEqual
            } else {
                Cc::Equal
            };
            self.choose(kept, RAX, var);
        }
        let Class::Steps(step) = self.classes.of(var) else {
            return;
        };
        let place = Rm::At(RSP, self.slot());
        self.asm().g(is_wide(var), 0x89, RAX.0, place);
        self.lower.values.rename(var, Some((place, step)));
    }

    /// Leaves the code if a word wraps in any lane; a wider value would not go in steps then.
    fn check_wrap(&mut self, var: Var, signed: bool, d: Gpr) {
        let Some(step) = self.classes.step(var).filter(|step| *step != 0) else {
            return;
        };
        let deopt = self.deopt();
        let wide = is_wide(var);
        let span = (LAST * step.abs()) as i32;
        let kind = if step < 0 { 5 } else { 0 };
        let cc = if signed { Cc::Overflow } else { Cc::Below };
        let asm = self.asm();
        asm.with(wide, kind, d, span);
        asm.jump_if(cc, deopt);
    }

    /// d = a word extended to 64 bits; it must not wrap in any lane.
    fn widen(&mut self, d: Gpr, var: Var, signed: bool) {
        if self.classes.step(var).is_some_and(|step| step != 0) {
            self.fetch(d, var);
            self.check_wrap(var, signed, d);
        }
        let from = self.at(var);
        if signed {
            self.asm().g(true, 0x63, d.0, from);
        } else {
            self.asm().g(false, 0x8b, d.0, from);
        }
    }

    /// Computes an instruction once.
    pub(super) fn scalar(&mut self, inst: &Inst) {
        let s = inst.slots;
        match inst.op {
            Op::Move32 => self.copy(inst, Bank::Word),
            Op::Move64 => self.copy(inst, Bank::Double),
            Op::Int1(op, ty) => {
                let bank = Bank::of(ty);
                self.fetch(RAX, Var::new(bank, s[1]));
                let wide = bank == Bank::Double;
                let kind = if op == Int1::Neg { 3 } else { 2 };
                self.asm().g(wide, 0xf7, kind, RAX);
                self.define(inst, Var::new(bank, s[0]));
            }
            Op::Int2(Int2::MulWide, ty) => {
                self.wide_product(inst, ty);
                self.define(inst, Var::new(Bank::Double, s[0]));
            }
            Op::Int2(op, ty) => self.int2(inst, op, ty),
            Op::Int3(Int3::MadWide, ty) => {
                self.wide_product(inst, ty);
                self.combine(0x03, RAX, Var::new(Bank::Double, s[3]));
                self.define(inst, Var::new(Bank::Double, s[0]));
            }
            Op::Int3(..) => {
                self.fetch(RAX, Var::new(Bank::Word, s[1]));
                self.multiply(Var::new(Bank::Word, s[2]));
                self.combine(0x03, RAX, Var::new(Bank::Word, s[3]));
                self.define(inst, Var::new(Bank::Word, s[0]));
            }
            Op::Convert(to, from, _) => {
                let (from_var, to_var) =
                    (Var::new(Bank::of(from), s[1]), Var::new(Bank::of(to), s[0]));
                if to.size() == 8 {
                    self.widen(RAX, from_var, from.is_signed());
                } else {
                    let low = self.at(from_var);
                    self.asm().g(false, 0x8b, RAX.0, low);
                }
                self.define(inst, to_var);
            }
            Op::Setp(compare, ty, ..) => self.setp(inst, compare, ty),
            Op::Logic(logic, not_a, not_b) => self.join(inst, logic, not_a, not_b),
            Op::Select32 => self.select(inst, Bank::Word),
            Op::Select64 => self.select(inst, Bank::Double),
            _ => {}
        }
    }

    fn copy(&mut self, inst: &Inst, bank: Bank) {
        self.fetch(RAX, Var::new(bank, inst.slots[1]));
        self.define(inst, Var::new(bank, inst.slots[0]));
    }

    fn multiply(&mut self, factor: Var) {
        let from = self.at(factor);
        self.asm().g2(is_wide(factor), 0xaf, RAX.0, from);
    }

    fn wide_product(&mut self, inst: &Inst, ty: Scalar) {
        let (a, b) = (
            Var::new(Bank::Word, inst.slots[1]),
            Var::new(Bank::Word, inst.slots[2]),
        );
        self.widen(RAX, a, ty.is_signed());
        self.widen(RCX, b, ty.is_signed());
        self.asm().g2(true, 0xaf, RAX.0, RCX);
    }

    fn int2(&mut self, inst: &Inst, op: Int2, ty: Scalar) {
        let bank = Bank::of(ty);
        let wide = bank == Bank::Double;
        let [d, a, b] = [0, 1, 2].map(|at| Var::new(bank, inst.slots[at]));
        self.fetch(RAX, a);
        let opcode = match op {
            Int2::Add => 0x03,
            Int2::Sub => 0x2b,
            Int2::And => 0x23,
            Int2::Or => 0x0b,
            Int2::Xor => 0x33,
            Int2::Mul => {
                self.multiply(b);
                return self.define(inst, d);
            }
            Int2::Shl | Int2::Shr => {
                let count = Var::new(Bank::Word, inst.slots[2]);
                self.shift(op, ty.is_signed(), wide, count);
                return self.define(inst, d);
            }
            _ => {
                self.combine(0x3b, RAX, b);
                // The condition under which the other operand wins.
                let cc = match (op, ty.is_signed()) {
                    (Int2::Min, true) => Cc::Greater,
                    (Int2::Min, false) => Cc::Above,
                    (_, true) => Cc::Less,
                    (_, false) => Cc::Below,
                };
                self.choose(cc, RAX, b);
                return self.define(inst, d);
            }
        };
        self.combine(opcode, RAX, b);
        self.define(inst, d);
    }

    /// Shifts rax; counts beyond the size leave only the sign.
    fn shift(&mut self, op: Int2, signed: bool, wide: bool, count: Var) {
        let size: u32 = if wide { 64 } else { 32 };
        let kind = match (op, signed) {
            (Int2::Shl, _) => 4,
            (_, false) => 5,
            (_, true) => 7,
        };
        if let Some(bits) = self.classes.bits(count) {
            let bits = bits as u32;
            let asm = self.asm();
            if bits >= size && kind != 7 {
                asm.g(false, 0x33, RAX.0, RAX);
            } else {
                asm.g(wide, 0xc1, kind, RAX);
                asm.code.push(bits.min(size - 1) as u8);
            }
            return;
        }
        self.fetch(RCX, count);
        let asm = self.asm();
        if kind == 7 {
            asm.set(RDX, u64::from(size - 1));
            asm.g(false, 0x3b, RCX.0, RDX);
            asm.g2(false, 0x40 | Cc::Above as u8, RCX.0, RDX);
            asm.g(wide, 0xd3, kind, RAX);
        } else {
            asm.g(wide, 0xd3, kind, RAX);
            asm.set(RDX, 0);
            asm.with(false, 7, RCX, size as i32);
            asm.g2(true, 0x40 | Cc::AboveEqual as u8, RAX.0, RDX);
        }
    }

    fn select(&mut self, inst: &Inst, bank: Bank) {
        let s = inst.slots;
        self.fetch(RAX, Var::new(bank, s[1]));
        let bits = self.at(Var::new(Bank::Pred, s[3]));
        self.asm().compare_byte(bits, 0);
        self.choose(Cc::Equal, RAX, Var::new(bank, s[2]));
        self.define(inst, Var::new(bank, s[0]));
    }

    fn join(&mut self, inst: &Inst, logic: Logic, not_a: bool, not_b: bool) {
        let s = inst.slots;
        self.fetch(RAX, Var::new(Bank::Pred, s[1]));
        if not_a != (logic == Logic::Not) {
            self.asm().g(false, 0xf7, 2, RAX);
        }
        let opcode = match logic {
            Logic::And => 0x23,
            Logic::Or => 0x0b,
            Logic::Xor => 0x33,
            Logic::Not | Logic::Copy => {
                return self.define(inst, Var::new(Bank::Pred, s[0]));
            }
        };
        self.fetch(RCX, Var::new(Bank::Pred, s[2]));
        let asm = self.asm();
        if not_b {
            asm.g(false, 0xf7, 2, RCX);
        }
        asm.g(false, opcode, RAX.0, RCX);
        self.define(inst, Var::new(Bank::Pred, s[0]));
    }

    /// Emits a comparison that must be the same in all lanes; otherwise the code is left.
    fn setp(&mut self, inst: &Inst, compare: Compare, ty: Scalar) {
        let bank = Bank::of(ty);
        let [a, b] = [2, 3].map(|at| Var::new(bank, inst.slots[at]));
        let Some(cc) = condition(compare, ty) else {
            return;
        };
        let steps = [a, b].map(|var| self.classes.step(var).unwrap_or(0));
        let moving = match steps {
            [0, 0] => None,
            [0, _] => Some(b),
            _ => Some(a),
        };
        let equality = matches!(cc, Cc::Equal | Cc::NotEqual);
        match moving {
            Some(var) if equality => {
                let other = if var == a { b } else { a };
                self.apart(var, other);
                let value = if cc == Cc::Equal { 0 } else { u64::MAX };
                self.asm().set(RAX, value);
                return self.define(inst, Var::new(Bank::Pred, inst.slots[0]));
            }
            Some(var) => {
                let deopt = self.deopt();
                self.fetch(RCX, var);
                self.check_wrap(var, ty.is_signed(), RCX);
                if var == a {
                    self.combine(0x3b, RCX, b);
                } else {
                    self.fetch(RAX, a);
                    self.asm().g(is_wide(a), 0x3b, RAX.0, RCX);
                }
                // setcc dl
                self.asm().code.extend([0x0f, 0x90 | cc as u8, 0xc2]);
                self.fetch(RAX, a);
                self.combine(0x3b, RAX, b);
                // setcc al; cmp al, dl
                let asm = self.asm();
                asm.code.extend([0x0f, 0x90 | cc as u8, 0xc0, 0x38, 0xd0]);
                asm.jump_if(Cc::NotEqual, deopt);
            }
            None => {
                self.fetch(RAX, a);
                self.combine(0x3b, RAX, b);
                self.asm().code.extend([0x0f, 0x90 | cc as u8, 0xc0]);
            }
        }
        // movzx eax, al; neg eax
        self.asm().code.extend([0x0f, 0xb6, 0xc0, 0xf7, 0xd8]);
        self.define(inst, Var::new(Bank::Pred, inst.slots[0]));
    }

    /// Leaves the code unless a value is outside the range of another's lanes.
    fn apart(&mut self, moving: Var, other: Var) {
        let deopt = self.deopt();
        let up = self.classes.step(moving).is_some_and(|step| step > 0);
        let (first, last) = if up {
            (Cc::Above, Cc::Below)
        } else {
            (Cc::Below, Cc::Above)
        };
        self.fetch(RCX, moving);
        self.check_wrap(moving, false, RCX);
        self.fetch(RAX, moving);
        let fine = self.asm().label();
        self.combine(0x3b, RAX, other);
        self.asm().jump_if(first, fine);
        self.combine(0x3b, RCX, other);
        self.asm().jump_if(last, fine);
        self.asm().jump(deopt);
        self.asm().bind(fine);
    }

    /// A load from one address: its values, from the host address in rcx.
    pub(super) fn uniform_load(&mut self, inst: &Inst, it: Access, offset: i64, host: i32) {
        let size = it.ty.size() as i64;
        for part in 0..it.parts {
            let var = Var::new(Bank::of(it.ty), inst.slots[1 + part]);
            let from = Rm::At(RDX, (offset + part as i64 * size) as i32);
            let asm = self.asm();
            asm.load(RDX, Rm::At(RSP, host));
            narrow_load(asm, it, from);
            asm.load(RAX, RCX);
            self.define(inst, var);
        }
    }
}
