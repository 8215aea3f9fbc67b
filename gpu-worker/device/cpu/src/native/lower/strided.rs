//! Code of loads and stores with addresses that were checked before.

use super::Lower;
use super::access::broadcast;
use crate::decode::form::{Bank, Inst};
use crate::native::access::{Access, contiguous};
use crate::native::assembler::{RAX, RCX, RSP, Rm, VMOVUPS, VMOVUPS_TO, VPCMPEQD, Vex, Ymm};
use crate::native::def_use::Var;
use crate::native::strided::{Host, narrow_load};
use crate::native::support::VALUES;

impl Lower<'_> {
    /// Emits a load or store at checked addresses.
    pub(super) fn strided_access(&mut self, inst: &Inst, it: Access, host: Host) {
        let first = host.offset + 8 * i64::from(self.values.group) * host.step;
        let words = if it.ty.size() == 8 { 2 } else { 1 };
        let bank = Bank::of(it.ty);
        let mut registers = Vec::new();
        for part in 0..it.parts {
            let var = Var::new(bank, inst.slots[1 + part]);
            if it.write {
                let id = self.values.of(var);
                self.values.clean(id);
            }
            for half in 0..words {
                registers.push(if it.write {
                    let id = self.values.of(var);
                    self.values.get(id, half)
                } else {
                    self.values.fresh()
                });
            }
        }
        self.values.asm.load(RAX, Rm::At(RSP, host.slot));
        if it.write {
            self.put(inst, it, (host, first), &registers);
            return;
        }
        self.take(it, (host, first), &registers);
        for (part, registers) in registers.chunks(words).enumerate() {
            let mut target = *inst;
            target.slots[0] = inst.slots[1 + part];
            self.result(&target, bank, registers);
        }
    }

    fn take(&mut self, it: Access, (host, first): (Host, i64), registers: &[Ymm]) {
        let size = it.ty.size();
        let follows = host.step == it.stride();
        if follows && contiguous(&mut self.values.asm, it, registers, first as i32) {
            return;
        }
        if host.step == 0 && size >= 4 {
            return broadcast(&mut self.values.asm, it, registers, first as i32);
        }
        if size == 4 {
            let (offsets, mask) = (self.values.fresh(), self.values.fresh());
            for (part, register) in registers.iter().enumerate() {
                let asm = &mut self.values.asm;
                let steps = asm.constant(std::array::from_fn(|lane| {
                    (first + 4 * part as i64 + lane as i64 * host.step) as u32
                }));
                asm.v2(VMOVUPS, offsets, steps);
                asm.v3(VPCMPEQD, mask, mask, mask);
                asm.gather(*register, RAX, offsets, mask);
            }
            self.values.release(offsets);
            self.values.release(mask);
            return;
        }
        let scratch = self.scratch_at + VALUES;
        let asm = &mut self.values.asm;
        for lane in 0..8 {
            let from = Rm::At(RAX, (first + i64::from(lane) * host.step) as i32);
            narrow_load(asm, it, from);
            let wide = size == 8;
            let to = scratch + lane * if wide { 8 } else { 4 };
            asm.g(wide, 0x89, RCX.0, Rm::At(RSP, to));
        }
        for (at, register) in registers.iter().enumerate() {
            asm.v2(VMOVUPS, *register, Rm::At(RSP, scratch + 32 * at as i32));
        }
    }

    fn put(&mut self, inst: &Inst, it: Access, (host, first): (Host, i64), registers: &[Ymm]) {
        if let Some(guard) = inst.guard {
            let mask = self.guard(guard);
            for (half, register) in registers.iter().enumerate() {
                let at = Rm::At(RAX, first as i32 + 32 * half as i32);
                if it.ty.size() == 8 {
                    let wide = self.expand(mask, half);
                    self.values.asm.v3(Vex(1, 2, 0, 0x2f), *register, wide, at);
                    self.values.release(wide);
                } else {
                    self.values.asm.v3(Vex(1, 2, 0, 0x2e), *register, mask, at);
                }
            }
            return;
        }
        let asm = &mut self.values.asm;
        if host.step == it.stride() && contiguous(asm, it, registers, first as i32) {
            return;
        }
        let scratch = self.scratch_at + VALUES;
        for (at, register) in registers.iter().enumerate() {
            let to = Rm::At(RSP, scratch + 32 * at as i32);
            asm.v2(VMOVUPS_TO, *register, to);
        }
        let size = it.ty.size();
        for lane in 0..8 {
            for part in 0..it.parts as i32 {
                let wide = size == 8;
                let from = scratch + 32 * part + lane * if wide { 8 } else { 4 };
                asm.g(wide, 0x8b, RCX.0, Rm::At(RSP, from));
                let at = first + i64::from(lane) * host.step + i64::from(part) * size as i64;
                let to = Rm::At(RAX, at as i32);
                match size {
                    1 => asm.save_byte(to, RCX),
                    2 => {
                        asm.code.push(0x66);
                        asm.g(false, 0x89, RCX.0, to);
                    }
                    _ => asm.g(wide, 0x89, RCX.0, to),
                }
            }
        }
    }
}
