//! Loads and stores. One check of the pattern and the bounds of a register's eight addresses serves
//! every access through that register.

use super::Lower;
use crate::decode::form::{Bank, Inst, Place, Slot};
use crate::engine::context::Context;
use crate::native::access::{Access, Stub, contiguous};
use crate::native::address_pattern::{AddressPattern, CONTIGUOUS, SAME, around, field};
use crate::native::assembler::{
    Assembler, Cc, Label, R8, RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP, Rm, VBROADCASTSD,
    VBROADCASTSS, VMOVAPS, VMOVMSKPS, VMOVUPS, VMOVUPS_TO, VPADDD, VPAND, VPBROADCASTD, VPCMPEQD,
    VPMINUD, Ymm,
};
use crate::native::def_use::Var;
use crate::native::support::{self, SCRATCH, VALUES};
use std::mem::offset_of;

impl Lower<'_> {
    /// A load or store.
    pub(super) fn access(&mut self, index: usize) {
        let inst = self.code[index];
        let Some(it) = Access::of(&inst) else { return };
        if let Some(host) = self.hosts.get(&index).copied() {
            return self.strided_access(&inst, it, host);
        }
        let shape = self.shape(index, it);
        let registers = self.registers(&inst, it);
        let address: Vec<Ymm> = (0..if it.wide { 2 } else { 1 })
            .map(|half| self.values.get(shape.id, half))
            .collect();
        let offset = (inst.imm - shape.least) as i32;
        let bits = self.bits(Slot(inst.guard.map_or(0, |guard| guard.slot)));
        let asm = &mut self.values.asm;
        let labels = Labels {
            other: asm.label(),
            slow: asm.label(),
            masked: asm.label(),
            back: asm.label(),
        };
        if let Some(guard) = inst.guard {
            let entry = asm.label();
            let all = if guard.negated { 0 } else { 0xff };
            asm.compare_byte(bits, all);
            asm.jump_if(Cc::NotEqual, entry);
            self.stubs
                .push(guarded(entry, (bits, guard.negated), labels));
        }
        let asm = &mut self.values.asm;
        asm.load(RAX, Rm::At(RSP, shape.at));
        asm.compare_byte(Rm::At(RSP, shape.at + 8), CONTIGUOUS);
        asm.jump_if(Cc::NotEqual, labels.other);
        if !contiguous(asm, it, &registers, offset) {
            asm.jump(labels.slow);
        }
        asm.bind(labels.back);
        let mut live: Vec<Ymm> = self.values.busy();
        live.retain(|it| !registers.contains(it));
        if !it.write {
            let words = if it.ty.size() == 8 { 2 } else { 1 };
            for (part, registers) in registers.chunks(words).enumerate() {
                let var = Var::new(Bank::of(it.ty), inst.slots[1 + part]);
                self.values.define(var, registers);
            }
        }
        self.lane_by_lane(
            index,
            labels,
            Lanes {
                it,
                registers,
                address,
                live,
                shape,
                offset,
            },
        );
    }

    /// The registers with the values of a store, or the target registers of a load. The latter have
    /// the old values if a guard may leave them.
    fn registers(&mut self, inst: &Inst, it: Access) -> Vec<Ymm> {
        let words = if it.ty.size() == 8 { 2 } else { 1 };
        let mut registers = Vec::new();
        for part in 0..it.parts {
            let var = Var::new(Bank::of(it.ty), inst.slots[1 + part]);
            if it.write {
                let id = self.values.of(var);
                self.values.clean(id);
                registers.extend((0..words).map(|half| self.values.get(id, half)));
                continue;
            }
            let old = inst.guard.map(|_| self.values.of(var));
            for half in 0..words {
                let old = old.map(|id| {
                    self.values.clean(id);
                    self.values.get(id, half)
                });
                let register = self.values.fresh();
                if let Some(old) = old {
                    self.values.asm.v2(VMOVAPS, register, old);
                }
                registers.push(register);
            }
        }
        registers
    }

    /// Emits the code for addresses that are not consecutive: one address for all, or lane by lane.
    fn lane_by_lane(&mut self, index: usize, labels: Labels, lanes: Lanes) {
        let (scratch, save, fault) = (self.scratch_at, self.save_at, self.fault);
        let imm = self.code[index].imm as i32;
        let inst = &raw const self.kept[self.first + index];
        let inst = inst as u64;
        let group = self.values.group;
        let failed = self.failed(index);
        let Labels { slow, back, .. } = labels;
        self.stubs.push(Stub {
            entry: labels.other,
            emit: Box::new(move |asm| {
                let (it, registers) = (lanes.it, &lanes.registers);
                if !it.write && it.ty.size() >= 4 {
                    asm.compare_byte(Rm::At(RSP, lanes.shape.at + 8), SAME);
                    asm.jump_if(Cc::NotEqual, slow);
                    broadcast(asm, it, registers, lanes.offset);
                    asm.jump(back);
                }
                asm.bind(slow);
                if it.place == Place::Shared && !it.wide && straight_word(it) {
                    spread(asm, (registers[0], lanes.address[0]), imm, save, back);
                }
                asm.set(RCX, 0xff);
                asm.bind(labels.masked);
                for (half, register) in lanes.address.iter().enumerate() {
                    let to = Rm::At(RSP, scratch + 32 * half as i32);
                    asm.v2(VMOVUPS_TO, *register, to);
                }
                let values = |at: usize| Rm::At(RSP, scratch + VALUES + 32 * at as i32);
                for (at, register) in registers.iter().enumerate() {
                    asm.v2(VMOVUPS_TO, *register, values(at));
                }
                around(asm, save, &lanes.live, |asm| {
                    asm.load(RDI, RBX);
                    asm.set(RSI, inst);
                    asm.load(RDX, RBP);
                    asm.g(true, 0x2b, RDX.0, field(offset_of!(Context<'_>, preds)));
                    if group != 0 {
                        asm.with(true, 0, RDX, group);
                    }
                    asm.lea(R8, RSP, scratch);
                    asm.set(RAX, support::access as *const () as u64);
                    asm.call(RAX);
                });
                for (at, register) in registers.iter().enumerate() {
                    asm.v2(VMOVUPS, *register, values(at));
                }
                asm.code.extend([0x85, 0xc0]);
                asm.jump_if(Cc::NotEqual, back);
                asm.set(RAX, failed);
                asm.jump(fault);
            }),
        });
        const { assert!(SCRATCH >= VALUES + 128) };
    }
}

/// Labels in the code of one access.
#[derive(Clone, Copy)]
struct Labels {
    /// The addresses are not consecutive.
    other: Label,
    /// Handles all lanes one by one.
    slow: Label,
    /// Handles the lanes in rcx one by one.
    masked: Label,
    /// The end of the access.
    back: Label,
}

/// Registers and state of the code of one access.
struct Lanes {
    it: Access,
    registers: Vec<Ymm>,
    /// The registers of the addresses.
    address: Vec<Ymm>,
    /// Other registers that are needed after it.
    live: Vec<Ymm>,
    shape: AddressPattern,
    offset: i32,
}

/// Code for a guard that is not true in all lanes: handles those with a true guard lane by lane.
fn guarded(entry: Label, (bits, negated): (Rm, bool), labels: Labels) -> Stub {
    Stub {
        entry,
        emit: Box::new(move |asm| {
            // movzx ecx, byte
            asm.g2(false, 0xb6, RCX.0, bits);
            if negated {
                asm.with(false, 6, RCX, 0xff);
            }
            asm.code.extend([0x85, 0xc9]);
            asm.jump_if(Cc::NotEqual, labels.masked);
            asm.jump(labels.back);
        }),
    }
}

/// Registers with the value at one address, in rax, in every lane.
pub(super) fn broadcast(asm: &mut Assembler, it: Access, registers: &[Ymm], offset: i32) {
    for (part, register) in registers.iter().enumerate() {
        if it.ty.size() == 8 {
            asm.v2(VBROADCASTSD, *register, Rm::At(RAX, offset));
        } else {
            let at = Rm::At(RAX, offset + 4 * part as i32);
            asm.v2(VBROADCASTSS, *register, at);
        }
    }
}

/// True if a load reads one word per lane.
fn straight_word(it: Access) -> bool {
    !it.write && it.parts == 1 && it.ty.size() == 4
}

/// Loads eight words from any aligned addresses within shared memory. For other addresses,
/// execution continues behind this code.
fn spread(asm: &mut Assembler, (d, address): (Ymm, Ymm), imm: i32, save: i32, back: Label) {
    let mut others = (0..16).map(Ymm).filter(|it| *it != d && *it != address);
    let (Some(offsets), Some(mask)) = (others.next(), others.next()) else {
        return;
    };
    let no = asm.label();
    let field = |offset: usize| Rm::At(RBX, offset as i32);
    asm.load(RDX, field(offset_of!(Context<'_>, shared_len)));
    asm.with(true, 5, RDX, 4);
    let crossed = asm.label();
    asm.jump_if(Cc::Below, crossed);
    asm.v2(VMOVUPS_TO, offsets, Rm::At(RSP, save));
    asm.v2(VMOVUPS_TO, mask, Rm::At(RSP, save + 32));
    let (imm, low, zero) = (
        asm.constant([imm as u32; 8]),
        asm.constant([3; 8]),
        asm.constant([0; 8]),
    );
    asm.v3(VPADDD, offsets, address, imm);
    asm.v3(VPAND, mask, offsets, low);
    asm.v3(VPCMPEQD, mask, mask, zero);
    asm.movmsk(VMOVMSKPS, RCX, mask);
    asm.with(false, 7, RCX, 255);
    asm.jump_if(Cc::NotEqual, no);
    asm.movd_to(mask, RDX);
    asm.v2(VPBROADCASTD, mask, mask);
    asm.v3(VPMINUD, mask, mask, offsets);
    asm.v3(VPCMPEQD, mask, mask, offsets);
    asm.movmsk(VMOVMSKPS, RCX, mask);
    asm.with(false, 7, RCX, 255);
    asm.jump_if(Cc::NotEqual, no);
    asm.load(RCX, field(offset_of!(Context<'_>, shared)));
    asm.gather(d, RCX, offsets, mask);
    asm.v2(VMOVUPS, offsets, Rm::At(RSP, save));
    asm.v2(VMOVUPS, mask, Rm::At(RSP, save + 32));
    asm.jump(back);
    asm.bind(no);
    asm.v2(VMOVUPS, offsets, Rm::At(RSP, save));
    asm.v2(VMOVUPS, mask, Rm::At(RSP, save + 32));
    asm.bind(crossed);
}
