//! Compiles one run of instructions to code for eight lanes, repeated for the four groups of a
//! warp.

mod access;
mod address_pattern;
mod float;
mod integer;
mod logic;
mod predicate;
mod strided;
mod uses;

use super::access::Stub;
use super::address_pattern::AddressPattern;
use super::assembler::{
    Cc, Gpr, Label, R12, R13, R14, R15, RAX, RBP, RBX, RDI, RSP, Rm, VEXTRACTF128, VMOVAPS,
    VMOVUPS, VMOVUPS_TO, VPADDD, VPADDQ, VPERMQ, VSHUFPS, Vex, Ymm,
};
use super::constants::Constants;
use super::def_use::Var;
use super::extent::Extent;
use super::plan::Run;
use super::strided::Host;
use super::support::SCRATCH;
use super::values::{Id, Scalar as Stepped, Values};
use crate::decode::form::{Bank, Inst, Int2, Int3, Op, Slot};
use crate::engine::context::Context;
use std::collections::HashMap;
use std::mem::offset_of;
use std::ops::Range;

use logic::join;

/// A run that is being compiled.
pub(super) struct Lower<'k> {
    pub(super) values: Values,
    pub(super) kept: &'k [Inst],
    pub(super) first: usize,
    pub(super) code: &'k [Inst],
    pub(super) shapes: Vec<AddressPattern>,
    /// Ranges of the accesses, by instruction of the code; empty until first needed.
    pub(super) extents: Vec<Option<Extent>>,
    pub(super) stubs: Vec<Stub>,
    pub(super) fault: Label,
    pub(super) shape_at: i32,
    pub(super) scratch_at: i32,
    pub(super) save_at: i32,
    known: Constants<'k>,
    /// Accesses with addresses that are checked for the whole warp, by their instruction.
    pub(super) hosts: HashMap<usize, Host>,
    /// The return value for a fault, without the number of the instruction in the run.
    pub(super) blame: u64,
    /// Lanes in which results count, if not all: those with a false, or a true, predicate.
    pub(super) blend: Option<(Slot, bool)>,
    /// Instructions computed once for the warp, and the contents of registers after them.
    pub(super) once: HashMap<usize, Vec<(Var, Stepped)>>,
}

const SAVED: [Gpr; 6] = [RBX, RBP, R12, R13, R14, R15];

/// Generates a run: `fn(context) -> 0`, or one more than the number of the instruction at fault.
/// `None` if it needs more registers at once than there are.
pub(super) fn lower(kept: &[Inst], run: &Run, known: Constants<'_>) -> Option<Vec<u8>> {
    let code = &kept[run.start..run.start + run.len];
    let accesses = code
        .iter()
        .filter(|inst| matches!(inst.op, Op::Load { .. } | Op::Store { .. }));
    let shape_at = 16;
    let scratch_at = shape_at + 16 * accesses.count() as i32;
    let save_at = scratch_at + SCRATCH;
    let range = run.start..run.start + run.len;
    let mut it = Lower::new(kept, range, known, (shape_at, scratch_at, save_at));
    it.whole(run);
    (!it.values.crowded).then(|| it.values.asm.finish())
}

impl<'k> Lower<'k> {
    /// An empty compilation, with the stack places of shapes, scratch and saved registers.
    pub(super) fn new(
        kept: &'k [Inst],
        range: Range<usize>,
        known: Constants<'k>,
        (shape_at, scratch_at, save_at): (i32, i32, i32),
    ) -> Self {
        let mut values = Values::new(save_at + 16 * 32);
        let fault = values.asm.label();
        Self {
            values,
            kept,
            first: range.start,
            code: &kept[range],
            shapes: Vec::new(),
            extents: Vec::new(),
            stubs: Vec::new(),
            fault,
            shape_at,
            scratch_at,
            save_at,
            known,
            hosts: HashMap::new(),
            blame: 1,
            blend: None,
            once: HashMap::new(),
        }
    }
}

impl Lower<'_> {
    /// Saves registers, reserves the stack and sets the bases. Returns the position for the stack's
    /// size.
    pub(super) fn reserve(&mut self) -> usize {
        let asm = &mut self.values.asm;
        SAVED.iter().for_each(|register| asm.push(*register));
        asm.with(true, 5, RSP, 0);
        let frame = asm.code.len() - 4;
        asm.load(RBX, RDI);
        let field = |offset: usize| Rm::At(RBX, offset as i32);
        let (words, doubles) = (
            offset_of!(Context<'_>, words),
            offset_of!(Context<'_>, doubles),
        );
        asm.load(R12, field(words));
        asm.load(R14, field(words + 8));
        asm.load(R13, field(doubles));
        asm.load(R15, field(doubles + 8));
        asm.load(RBP, field(offset_of!(Context<'_>, preds)));
        frame
    }

    /// Frees the stack and returns from the function. Returns the position for the stack's size.
    pub(super) fn release(&mut self) -> usize {
        let asm = &mut self.values.asm;
        asm.with(true, 0, RSP, 0);
        let release = asm.code.len() - 4;
        SAVED.iter().rev().for_each(|register| asm.pop(*register));
        asm.ret();
        release
    }

    pub(super) fn whole(&mut self, run: &Run) {
        let frame = self.reserve();
        let asm = &mut self.values.asm;
        asm.lea(RAX, RBP, 4);
        asm.save(Rm::At(RSP, 0), RAX);
        let top = asm.label();
        asm.bind(top);
        let last = self.last_uses(run);
        let needed = self.needed(run);
        self.group(run, &last, &needed);
        let asm = &mut self.values.asm;
        for (register, step) in [(R12, 32), (R14, 32), (R13, 64), (R15, 64), (RBP, 1)] {
            asm.with(true, 0, register, step);
        }
        asm.g(true, 0x3b, RBP.0, Rm::At(RSP, 0));
        asm.jump_if(Cc::NotEqual, top);
        asm.code.extend([0x31, 0xc0]);
        asm.bind(self.fault);
        let release = self.release();
        let asm = &mut self.values.asm;
        for stub in std::mem::take(&mut self.stubs) {
            asm.bind(stub.entry);
            (stub.emit)(asm);
        }
        // With the return address and six registers, calls need 8 more than a multiple of 16.
        let size = (self.values.stack + 15) / 16 * 16 + 8;
        for at in [frame, release] {
            self.values.asm.code[at..at + 4].copy_from_slice(&size.to_le_bytes());
        }
    }

    /// Emits one group of eight lanes.
    pub(super) fn group(&mut self, run: &Run, last: &[Vec<Var>], needed: &[bool]) {
        for index in 0..self.code.len() {
            self.values.unpin();
            if needed[index] {
                self.instruction(index);
            }
            for (var, scalar) in self.once.get(&index).into_iter().flatten() {
                self.values.rename(*var, Some(*scalar));
            }
            for var in &last[index] {
                self.values.forget(*var);
            }
        }
        let mut live: Vec<Var> = run.live.iter().copied().collect();
        live.sort_unstable();
        live.retain(|var| var.bank() != Bank::Pred && !self.values.scalars.contains_key(var));
        let mut stores = Vec::new();
        for var in live {
            let Some(id) = self.values.known(var) else {
                continue;
            };
            if !self.values.is_home(var, id) {
                stores.push((var, id));
            }
        }
        for (_, id) in &stores {
            self.values.unpin();
            self.values.detach(*id);
        }
        for (var, id) in stores {
            self.values.unpin();
            self.values.clean(id);
            if let Some((slot, skipped)) = self.blend {
                self.store_some(var, id, slot, skipped);
                continue;
            }
            self.values.store(var, id);
        }
        self.values.clear();
        self.shapes.clear();
    }

    /// Writes a register in the lanes that did not jump over the code.
    fn store_some(&mut self, var: Var, id: Id, slot: Slot, skipped: bool) {
        let mask = self.pred(slot);
        let halves = if var.bank() == Bank::Double { 2 } else { 1 };
        for half in 0..halves {
            let wide = if halves == 2 {
                self.expand(mask, half)
            } else {
                mask
            };
            let (new, d) = (self.values.get(id, half), self.values.fresh());
            let home = self.values.place(var, half);
            self.values.asm.v2(VMOVUPS, d, home);
            let (a, b) = if skipped { (new, d) } else { (d, new) };
            self.values.asm.blend(d, a, b, wide);
            self.values.asm.v2(VMOVUPS_TO, d, home);
            self.values.release(d);
            self.values.release(new);
        }
    }

    /// Return value of the code if an instruction faults.
    pub(super) fn failed(&self, index: usize) -> u64 {
        self.blame + index as u64
    }

    pub(super) fn word(&mut self, inst: &Inst, at: usize) -> Id {
        self.values.of(Var::new(Bank::Word, inst.slots[at]))
    }

    pub(super) fn double(&mut self, inst: &Inst, at: usize) -> Id {
        self.values.of(Var::new(Bank::Double, inst.slots[at]))
    }

    /// Stores a result; with a guard, only in the lanes where it is true.
    pub(super) fn result(&mut self, inst: &Inst, bank: Bank, registers: &[Ymm]) -> Id {
        let var = Var::new(bank, inst.slots[0]);
        if let Some(guard) = inst.guard {
            let old = self.values.of(var);
            self.values.clean(old);
            let mask = self.guard(guard);
            for (half, register) in registers.iter().enumerate() {
                let old = self.values.get(old, half);
                if bank == Bank::Double {
                    let wide = self.expand(mask, half);
                    self.values.asm.blend(*register, old, *register, wide);
                    self.values.release(wide);
                } else {
                    self.values.asm.blend(*register, old, *register, mask);
                }
                self.values.release(old);
            }
        }
        self.values.define(var, registers)
    }

    /// Extends four of eight words.
    pub(super) fn extend(&mut self, op: Vex, d: Ymm, a: Ymm, half: usize) {
        if half == 0 {
            self.values.asm.v2(op, d, a);
        } else {
            self.values.asm.v2i_to(VEXTRACTF128, d, a, 1);
            self.values.asm.v2(op, d, d);
        }
    }

    /// Takes the low words of two registers of doubles.
    pub(super) fn narrow(&mut self, d: Ymm, low: Ymm, high: Ymm) {
        self.values.asm.v3i(VSHUFPS, d, low, high, 0x88);
        self.values.asm.v2i(VPERMQ, d, d, 0xd8);
    }

    pub(super) fn instruction(&mut self, index: usize) {
        let inst = self.code[index];
        match inst.op {
            Op::Load { .. } | Op::Store { .. } => self.access(index),
            Op::Move32 => self.moved(&inst, Bank::Word),
            Op::Move64 => self.moved(&inst, Bank::Double),
            Op::Select32 => self.select(&inst, Bank::Word),
            Op::Select64 => self.select(&inst, Bank::Double),
            Op::Logic(logic, not_a, not_b) => self.logic(&inst, logic, not_a, not_b),
            Op::Int1(op, _) => self.negated(&inst, op),
            Op::Int2(Int2::MulWide, ty) => {
                let product = self.wide_product(&inst, ty);
                self.result(&inst, Bank::Double, &product);
            }
            Op::Int2(op, ty) if ty.size() == 8 => self.doubles(&inst, op),
            Op::Int2(op, ty) => self.words(&inst, op, ty),
            Op::Int3(Int3::MadWide, ty) => {
                let product = self.wide_product(&inst, ty);
                let c = self.double(&inst, 3);
                for (half, register) in product.iter().enumerate() {
                    let c = self.values.operand(c, half);
                    self.values.asm.v3(VPADDQ, *register, *register, c);
                }
                self.result(&inst, Bank::Double, &product);
            }
            Op::Int3(..) => {
                let d = self.product(&inst);
                let c = self.word(&inst, 3);
                self.values.clean(c);
                let c = self.values.operand(c, 0);
                self.values.asm.v3(VPADDD, d, d, c);
                self.result(&inst, Bank::Word, &[d]);
            }
            Op::Float2(op, _, mode) => self.float2(&inst, op, mode),
            Op::Float1(op, _, mode) => self.float1(&inst, op, mode),
            Op::Fma(_, mode, _) => self.fma(&inst, mode),
            Op::Convert(to, from, mode) => self.convert(&inst, to, from, mode),
            Op::Setp(compare, ty, ftz, with) => {
                let mut mask = self.compare(&inst, compare, ty, ftz);
                if let Some((logic, negated)) = with {
                    let mut other = self.pred(inst.slots[4]);
                    if negated {
                        other = self.not(other);
                    }
                    if let Some(op) = join(logic) {
                        let d = self.values.fresh();
                        self.values.asm.v3(op, d, mask, other);
                        mask = d;
                    }
                }
                self.set_pred(&inst, mask);
            }
            _ => {}
        }
    }

    pub(super) fn moved(&mut self, inst: &Inst, bank: Bank) {
        let (from, to) = (Var::new(bank, inst.slots[1]), Var::new(bank, inst.slots[0]));
        let id = self.values.of(from);
        if inst.guard.is_none() {
            self.values.detach(id);
            return self.values.name(to, id);
        }
        self.values.clean(id);
        let halves = if bank == Bank::Double { 2 } else { 1 };
        let registers: Vec<Ymm> = (0..halves)
            .map(|half| {
                let (d, a) = (self.values.fresh(), self.values.get(id, half));
                self.values.asm.v2(VMOVAPS, d, a);
                d
            })
            .collect();
        self.result(inst, bank, &registers);
    }
}
