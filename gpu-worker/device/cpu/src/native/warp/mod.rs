//! Code for a kernel's control flow, for warps with all lanes active at one instruction.
//!
//! A value that is the same in all lanes, or goes in steps from lane to lane, is computed once, on
//! the stack. Other values are computed as in a run, eight lanes at a time. Addresses in steps are
//! checked once for all lanes, before the accesses. A block of the kernel is cut into segments like
//! runs. Everything in a segment that can fail is tried before any of its effects. If it fails, if
//! lanes diverge, or at an unsupported instruction, live values are written to their registers. The
//! interpreter then takes over at the segment's start.
//!
//! The interpreter enters this code at the starts of blocks, if all registers that the code expects
//! in steps really are.

mod blocks;
mod class;
mod compare;
mod entry;
mod flow;
mod hammock;
mod scalar;
mod segment;

use super::assembler::{Assembler, Label, RAX, RBX, RSP, Rm, VMOVUPS_TO};
use super::constants::Constants;
use super::def_use::Var;
use super::extent::Extent;
use super::lower::Lower;
use super::plan::Blocks;
use super::support::SCRATCH;
use super::values::Scalar;
use crate::decode::APART;
use crate::decode::form::{Bank, Inst};
use crate::engine::context::Context;
use blocks::Piece;
use class::Classes;
use hammock::Hammock;
use std::collections::{HashMap, HashSet};
use std::mem::offset_of;

/// Bytes of code per instruction, and values recorded for exits per instruction. Compiled kernels
/// take a sixth and a tenth of that. A function that exceeds them is not worth it, and gets only
/// runs.
const CODE: usize = 8 << 10;
const NOTED: usize = 40;

/// Reasons for a return, in the bits above the number of the instruction.
pub(super) mod ending {
    /// The interpreter continues there.
    pub(crate) const LEFT: u64 = 0;
    /// The warp's share of backward jumps is used up.
    pub(crate) const SPUN: u64 = 1;
    /// All threads of the warp are done.
    pub(crate) const ENDED: u64 = 2;
    /// The instruction faulted.
    pub(crate) const FAULT: u64 = 3;
}

/// An access's checked host address: its address register, the range of offsets, and true for a
/// write.
#[derive(Clone, Copy)]
struct Checked {
    address: Rm,
    place: crate::decode::form::Place,
    align: i64,
    least: i64,
    most: i64,
    write: bool,
    slot: i32,
    low: i64,
}

/// Position of the low bits of a fault's line start in the return value, above the ending.
pub(super) const BEGUN: u32 = 40;

/// The exit after a fault among lanes that run eight by eight. It has the values with which the
/// later lanes run up to there.
struct Blame {
    label: Label,
    begun: usize,
    values: Vec<(Var, Scalar)>,
}

/// An exit to the interpreter.
struct Exit {
    label: Label,
    ending: u64,
    pc: usize,
    /// Instructions run since the block's start.
    ran: usize,
    /// Registers that must be written to their memory.
    values: Vec<(Var, Scalar)>,
}

/// A function that is being compiled.
struct Region<'k> {
    lower: Lower<'k>,
    classes: &'k Classes<'k>,
    /// Registers that are filled from the warp's place.
    places: &'k HashSet<Var>,
    /// Registers with steps that are live at the starts of pieces.
    living: HashMap<usize, Vec<Var>>,
    /// The stack places of registers with steps, between blocks.
    homes: HashMap<Var, i32>,
    /// Blocks by their first instruction.
    labels: HashMap<usize, Label>,
    leave: Label,
    exits: Vec<Exit>,
    /// Number of values recorded for exits.
    noted: usize,
    /// Maximum bytes of its code.
    room: usize,
    blames: Vec<Blame>,
    hammocks: Vec<Hammock>,
    /// Pieces that may run for lanes that jump over them: number and end, by their start.
    harmless: HashMap<usize, (usize, usize)>,
    /// Positions of the instructions that reserve the stack.
    frames: Vec<usize>,
    checked: Vec<Checked>,
    /// Ranges of the accesses of some instructions.
    reach: (std::ops::Range<usize>, Vec<Option<Extent>>),
    /// The next free bytes of the stack, and the maximum used.
    base: i32,
    top: i32,
    most: i32,
    sites: usize,
    /// The current segment's first instruction and live values; its exit, once it has one.
    start: usize,
    begun: usize,
    held: Vec<(Var, Scalar)>,
    deopt: Option<Label>,
}

/// The code of a function and its entries.
pub(super) struct Compiled {
    pub(super) code: Vec<u8>,
    /// Instruction, position in the code.
    pub(super) entries: Vec<(usize, usize)>,
}

/// Compiles an entry's function, if the generator supports it.
pub(super) fn compile(
    blocks: &Blocks<'_>,
    kept: &[Inst],
    known: Constants<'_>,
) -> Option<Compiled> {
    // Longer functions get only runs, because their code would not be short.
    let (start, end) = blocks
        .followed()
        .filter(|(start, end)| end - start <= APART)?;
    let code = &kept[start..end];
    let classes = Classes::new(blocks.function, code, known);
    let pieces = blocks::pieces(blocks, &classes)?;
    let places = blocks.places();
    let mut region = Region::new(kept, known, (&classes, &places), &pieces);
    region.room = CODE * (end - start);
    region.whole(&pieces)
}

impl<'k> Region<'k> {
    fn new(
        kept: &'k [Inst],
        known: Constants<'k>,
        (classes, places): (&'k Classes<'k>, &'k HashSet<Var>),
        pieces: &[Piece],
    ) -> Self {
        // Two words of the runs come first.
        let mut top = 16;
        let mut homes = HashMap::new();
        for var in pieces.iter().flat_map(|piece| &piece.scalars) {
            homes.entry(*var).or_insert_with(|| {
                top += 8;
                top - 8
            });
        }
        let accesses = pieces.iter().flat_map(|piece| &piece.segments);
        let accesses = accesses.map(|it| it.end - it.start).max().unwrap_or(0);
        let shape_at = top;
        let scratch_at = shape_at + 16 * accesses as i32;
        let save_at = scratch_at + SCRATCH;
        let lower = Lower::new(kept, 0..0, known, (shape_at, scratch_at, save_at));
        // A fault leaves with the value in rax.
        let leave = lower.fault;
        Self {
            lower,
            classes,
            places,
            living: pieces
                .iter()
                .map(|piece| (piece.start, piece.scalars.clone()))
                .collect(),
            homes,
            labels: HashMap::new(),
            leave,
            exits: Vec::new(),
            noted: 0,
            room: 0,
            blames: Vec::new(),
            hammocks: Vec::new(),
            harmless: pieces
                .iter()
                .enumerate()
                .filter(|(_, piece)| hammock::is_harmless(kept, piece, classes))
                .map(|(at, piece)| (piece.start, (at, piece.end)))
                .collect(),
            frames: Vec::new(),
            checked: Vec::new(),
            reach: (0..0, Vec::new()),
            base: save_at + 16 * 32,
            top: save_at + 16 * 32,
            most: 0,
            sites: 0,
            start: 0,
            begun: 0,
            held: Vec::new(),
            deopt: None,
        }
    }

    fn asm(&mut self) -> &mut Assembler {
        &mut self.lower.values.asm
    }

    /// Eight bytes of the stack, for this block.
    fn slot(&mut self) -> i32 {
        self.top += 8;
        self.most = self.most.max(self.top);
        self.top - 8
    }

    fn field(offset: usize) -> Rm {
        Rm::At(RBX, offset as i32)
    }

    /// The exit to the interpreter at the segment's start.
    fn deopt(&mut self) -> Label {
        if let Some(label) = self.deopt {
            return label;
        }
        let values = self.held.clone();
        let label = self.exit(ending::LEFT, self.start, values);
        self.deopt = Some(label);
        label
    }

    /// A new exit to the interpreter.
    fn exit(&mut self, ending: u64, pc: usize, values: Vec<(Var, Scalar)>) -> Label {
        let label = self.asm().label();
        self.noted += values.len();
        self.lower.values.crowded |= self.noted > NOTED * self.room / CODE;
        self.exits.push(Exit {
            label,
            ending,
            pc,
            ran: pc.saturating_sub(self.begun),
            values,
        });
        label
    }

    /// Adds to the number of executed instructions.
    fn count(&mut self, instructions: usize) {
        if instructions == 0 {
            return;
        }
        let executed = Self::field(offset_of!(Context<'_>, executed));
        let asm = self.asm();
        asm.g(true, 0x81, 0, executed);
        asm.code.extend((instructions as i32).to_le_bytes());
    }

    /// Writes live values to their registers and leaves.
    fn write_exit(&mut self, exit: &Exit) {
        self.asm().bind(exit.label);
        for (var, (from, step)) in &exit.values {
            self.write_home(*var, (*from, *step));
        }
        self.count(exit.ran);
        let leave = self.leave;
        let asm = self.asm();
        asm.set(RAX, exit.ending << 32 | exit.pc as u64);
        asm.jump(leave);
    }

    /// Writes the values that were live at a segment's start, and leaves with the fault in rax.
    fn write_blame(&mut self, blame: &Blame) {
        self.asm().bind(blame.label);
        self.asm().save(on_stack(8), RAX);
        for (var, scalar) in &blame.values {
            self.write_home(*var, *scalar);
        }
        let leave = self.leave;
        let asm = self.asm();
        asm.set(RAX, (blame.begun as u64 & 0x00ff_ffff) << BEGUN);
        // or rax, [rsp + 8]
        asm.g(true, 0x0b, RAX.0, on_stack(8));
        asm.jump(leave);
    }

    /// Writes every lane of a register.
    fn write_home(&mut self, var: Var, scalar: Scalar) {
        let values = &mut self.lower.values;
        if var.bank() == Bank::Pred {
            let home = Rm::At(super::assembler::RBP, var.1 as i32 * 4);
            values.asm.g(false, 0x8b, RAX.0, scalar.0);
            values.asm.g(false, 0x89, RAX.0, home);
            return;
        }
        values.clear();
        let halves = if var.bank() == Bank::Double { 2 } else { 1 };
        for group in 0..4 {
            values.group = group;
            for half in 0..halves {
                values.unpin();
                let register = values.fresh();
                values.spread(register, var.bank(), half, scalar);
                let home = values.place(var, half);
                values.asm.v2(VMOVUPS_TO, register, home);
            }
        }
        values.group = 0;
        values.unpin();
    }

    /// True if the code takes too much room or too many registers to be useful.
    fn is_crowded(&self) -> bool {
        let values = &self.lower.values;
        values.crowded || values.asm.code.len() > self.room
    }

    fn whole(&mut self, pieces: &[Piece]) -> Option<Compiled> {
        for piece in pieces {
            let label = self.asm().label();
            self.labels.insert(piece.start, label);
        }
        let mut entries = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.entered) {
            self.asm().align();
            entries.push((piece.start, self.asm().code.len()));
            self.entry(piece, self.places);
            if self.is_crowded() {
                return None;
            }
        }
        for (at, piece) in pieces.iter().enumerate() {
            let next = pieces.get(at + 1).map(|next| next.start);
            if piece.reached {
                self.piece(piece, next)?;
            }
            if self.is_crowded() {
                return None;
            }
        }
        for hammock in std::mem::take(&mut self.hammocks) {
            let body = &pieces[hammock.body];
            self.hammock(hammock, body)?;
        }
        for exit in std::mem::take(&mut self.exits) {
            self.write_exit(&exit);
            if self.is_crowded() {
                return None;
            }
        }
        for blame in std::mem::take(&mut self.blames) {
            self.write_blame(&blame);
            if self.is_crowded() {
                return None;
            }
        }
        let leave = self.leave;
        self.asm().bind(leave);
        let at = self.lower.release();
        self.frames.push(at);
        for stub in std::mem::take(&mut self.lower.stubs) {
            let asm = self.asm();
            asm.bind(stub.entry);
            (stub.emit)(asm);
        }
        let size = (self.most.max(self.top) + 15) / 16 * 16 + 8;
        for at in std::mem::take(&mut self.frames) {
            self.asm().code[at..at + 4].copy_from_slice(&size.to_le_bytes());
        }
        if self.lower.values.crowded {
            return None;
        }
        let asm = std::mem::take(&mut self.lower.values.asm);
        Some(Compiled {
            code: asm.finish(),
            entries,
        })
    }
}

/// A register's stack place as an operand.
fn on_stack(at: i32) -> Rm {
    Rm::At(RSP, at)
}
