//! Moves, loads, stores, atomics, addresses.

use super::builder::Symbol;
use super::form::{
    Bank, Constant, Int2, LOCAL_WINDOW, Logic, Op, Place, Pointer, SHARED_WINDOW, Slot,
};
use super::operand::{Body, Named};
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Address, FunctionKind, Instruction, Operand, Scalar, Space};

/// A decoded address operand: its register, its offset, and its memory space.
pub(super) struct MemoryOperand {
    pub(super) slot: Slot,
    pub(super) offset: i64,
    pub(super) at: Pointer,
}

impl<'a> Body<'_, 'a> {
    /// Decodes it if it belongs to this family.
    pub(super) fn data(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        match parts.head {
            "mov" => self.moving(i, parts)?,
            "ld" | "ldu" => self.load(i, parts)?,
            "st" => self.store(i, parts)?,
            "cvta" => self.address_space(i, parts)?,
            "isspacep" => {
                let place = match parts.pick(Space::from_text) {
                    Some(Space::Shared) => Place::Shared,
                    Some(Space::Local) => Place::Local,
                    Some(Space::Global) => Place::Global,
                    Some(Space::Param) => Place::Param,
                    Some(Space::Const) => Place::Const,
                    _ => return self.fail("`isspacep` needs a space"),
                };
                let operands = self.exactly(i, 2)?;
                let a = self.source(&operands[1], Scalar::U64)?;
                let p = self.target(&operands[0], Scalar::Pred)?;
                self.emit(Op::IsSpace(place), &[p, a]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn moving(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let lanes = parts.lanes();
        if lanes > 1 {
            return self.move_vector(i, parts, usize::from(lanes));
        }
        let ty = self.ty(parts)?;
        let operands = self.exactly(i, 2)?;
        if ty == Scalar::B128 {
            return self.move_wide(&operands[0], &operands[1]);
        }
        match (&operands[0], &operands[1]) {
            (to, Operand::Vector(list)) => self.pack(ty, to, list),
            (Operand::Vector(list), from) => self.unpack(ty, list, from),
            (to, from) if ty == Scalar::Pred => {
                let (a, negated) = self.signed_predicate(from)?;
                let to = self.target(to, ty)?;
                self.emit(Op::Logic(Logic::Copy, negated, false), &[to, a, a]);
                Ok(())
            }
            (to, from) => {
                let a = self.source(from, ty)?;
                let to = self.target(to, ty)?;
                self.emit(Op::moving(ty), &[to, a]);
                Ok(())
            }
        }
    }

    fn shape(&self, ty: Scalar, count: usize) -> Result<(Scalar, usize)> {
        match (ty.size(), count) {
            (8, 2) => Ok((Scalar::B32, 2)),
            (8, 4) => Ok((Scalar::B16, 4)),
            (4, 2) => Ok((Scalar::B16, 2)),
            (4, 4) => Ok((Scalar::B8, 4)),
            (2, 2) => Ok((Scalar::B8, 2)),
            _ => self.fail(format!("{count} parts do not make {ty}")),
        }
    }

    fn pack(&mut self, ty: Scalar, to: &Operand<'a>, list: &[Operand<'a>]) -> Result<()> {
        let (part, count) = self.shape(ty, list.len())?;
        let mut slots = [Slot(0); 6];
        for (at, operand) in list.iter().enumerate() {
            slots[1 + at] = match operand {
                // An omitted part is undefined: zero here.
                Operand::Name("_") => self.constant(Bank::of(part), Constant::Bits(0)),
                operand => self.source(operand, part)?,
            };
        }
        slots[0] = self.target(to, ty)?;
        let op = match (ty.size(), count) {
            (8, 2) => Op::Pack64,
            (8, _) => Op::Pack64x4,
            (2, _) => Op::Pack32(4),
            _ => Op::Pack32(count as u8),
        };
        if op == Op::Pack32(4) && count == 2 {
            // Two bytes: the upper two are zero.
            slots[3] = self.constant(Bank::Word, Constant::Bits(0));
            slots[4] = slots[3];
            self.emit(op, &slots[..5]);
            return Ok(());
        }
        self.emit(op, &slots[..=count]);
        Ok(())
    }

    fn unpack(&mut self, ty: Scalar, list: &[Operand<'a>], from: &Operand<'a>) -> Result<()> {
        let (part, count) = self.shape(ty, list.len())?;
        let whole = self.source(from, ty)?;
        let mut slots = [Slot(0); 6];
        let held = if ty.size() == 2 { 4 } else { count };
        for (at, slot) in slots.iter_mut().enumerate().take(held) {
            *slot = match list.get(at) {
                Some(operand) => self.target(operand, part)?,
                None => self.fresh(Bank::Word),
            };
        }
        slots[held] = whole;
        let op = match (ty.size(), count) {
            (8, 2) => Op::Unpack64,
            (8, _) => Op::Unpack64x4,
            _ => Op::Unpack32(held as u8),
        };
        self.emit(op, &slots[..=held]);
        Ok(())
    }

    /// The place for an address in a space.
    fn place_of(&self, space: Option<Space>) -> Result<Place> {
        Ok(match space {
            None => Place::Generic,
            Some(Space::Global | Space::Const) => Place::Global,
            Some(Space::Shared) => Place::Shared,
            Some(Space::Local) => Place::Local,
            // A kernel's own parameters have generic addresses; those of calls are in the frame.
            Some(Space::Param) if self.kind == FunctionKind::Entry => Place::Generic,
            Some(Space::Param) => Place::Local,
            Some(Space::Reg) => return self.fail("registers have no address"),
        })
    }

    /// An address operand in a space; `None` is the generic one.
    pub(super) fn memory(
        &mut self,
        operand: Option<&Operand<'a>>,
        space: Option<Space>,
    ) -> Result<MemoryOperand> {
        let address = self.address(operand)?;
        self.memory_at(address, space)
    }

    /// As `memory`, for an address that is already parsed.
    fn memory_at(&mut self, address: Address<'a>, space: Option<Space>) -> Result<MemoryOperand> {
        let place = self.place_of(space)?;
        let operand = |slot, offset, place, wide| MemoryOperand {
            slot,
            offset,
            at: Pointer { place, wide },
        };
        let Some(name) = address.base else {
            let slot = self.constant(Bank::Double, Constant::Bits(address.offset as u64));
            return Ok(operand(slot, 0, place, true));
        };
        if let Some(register) = address.index {
            let array = Address {
                index: None,
                offset: address.offset.wrapping_mul(self.element_bytes(name)?),
                ..address
            };
            let array = self.memory_at(array, space)?;
            let slot = self.indexed(array.slot, name, register)?;
            return Ok(MemoryOperand { slot, ..array });
        }
        let entry = self.kind == FunctionKind::Entry;
        let (slot, place, wide) = match self.find(name) {
            Some(Named::Register(Bank::Double, slot)) => (slot, place, true),
            Some(Named::Register(Bank::Word, slot)) if entry && space == Some(Space::Param) => {
                (self.parameter_at(name, slot)?, place, true)
            }
            Some(Named::Register(Bank::Word, slot)) => (slot, place, false),
            Some(Named::Local(at)) => {
                let slot = self.constant(Bank::Double, Constant::Bits(u64::from(at)));
                (slot, if entry { Place::Local } else { Place::Frame }, true)
            }
            // As in the assembler, a shared variable named without a space is an address in shared
            // memory.
            found if space.is_none() && self.is_shared(name, found) => (
                self.source(&Operand::Name(name), Scalar::U64)?,
                Place::Shared,
                true,
            ),
            _ => (self.source(&Operand::Name(name), Scalar::U64)?, place, true),
        };
        Ok(operand(slot, address.offset, place, wide))
    }

    /// True if a name, which stands for `found` in the body, is a shared variable.
    fn is_shared(&self, name: &str, found: Option<Named>) -> bool {
        let symbol = || self.builder.symbols.get(name);
        match found {
            Some(named) => matches!(named, Named::Shared(_) | Named::Dynamic),
            None => matches!(symbol(), Some(Symbol::Shared(_) | Symbol::Dynamic)),
        }
    }

    pub(super) fn address(&self, operand: Option<&Operand<'a>>) -> Result<Address<'a>> {
        match operand {
            Some(Operand::Address(address)) => Ok(*address),
            Some(Operand::Symbol {
                name,
                offset,
                index: true,
            }) => Ok(Address {
                base: Some(name),
                offset: offset.wrapping_mul(self.element_bytes(name)?),
                index: None,
            }),
            Some(Operand::Indexed {
                name,
                register,
                offset,
            }) => Ok(Address {
                base: Some(name),
                offset: *offset,
                index: Some(register),
            }),
            _ => self.fail("an address in brackets is wanted here"),
        }
    }

    fn list<'i>(operand: &'i Operand<'a>) -> &'i [Operand<'a>] {
        match operand {
            Operand::Vector(list) => list,
            one => std::slice::from_ref(one),
        }
    }

    fn load(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let ordered = parts.take("acquire");
        parts.ignore_hints();
        let lanes = parts.lanes();
        let space = parts.pick(Space::from_text);
        let ty = self.ty(parts)?;
        if i.operands.len() < 2 {
            return self.fail(format!("`{}` takes a register and an address", i.opcode));
        }
        let targets = Self::list(&i.operands[0]);
        if ty == Scalar::B128 && lanes == 1 {
            return self.load_wide(i, space, ordered);
        }
        if targets.len() != usize::from(lanes) {
            return self.fail(format!("`{}` takes {lanes} registers", i.opcode));
        }
        let address = self.address(i.operands.get(1))?;
        if space == Some(Space::Param)
            && address.index.is_none()
            && let Some(name) = address.base
            && let Some(Named::Param(at)) = self.find(name)
        {
            return self.load_param(targets, ty, i64::from(at).wrapping_add(address.offset));
        }
        let memory = self.memory_at(address, space)?;
        if lanes == 8 {
            return self.load_eight(memory, (ty, targets), ordered);
        }
        let mut slots = [memory.slot; 6];
        for (at, target) in targets.iter().enumerate() {
            slots[1 + at] = self.target(target, ty)?;
        }
        let at = memory.at;
        let slots = &slots[..=usize::from(lanes)];
        self.emit_with(Op::Load { at, ty, lanes }, slots, memory.offset);
        if ordered {
            self.emit(Op::Fence, &[]);
        }
        Ok(())
    }

    /// A piece of the kernel's parameters. It is the same for every thread, so it is a constant of
    /// the launch.
    pub(super) fn param(&mut self, ty: Scalar, at: i64) -> Result<Slot> {
        let offset = match u32::try_from(at) {
            Ok(offset) if offset < 1 << 16 => offset,
            _ => return self.fail("outside the kernel's parameters"),
        };
        if u64::from(offset) % ty.size() != 0 {
            return self.fail("a misaligned parameter");
        }
        Ok(self.constant(Bank::of(ty), Constant::Param { offset, ty }))
    }

    fn load_param(&mut self, targets: &[Operand<'a>], ty: Scalar, at: i64) -> Result<()> {
        for (part, target) in targets.iter().enumerate() {
            let from = self.param(ty, at.wrapping_add(part as i64 * ty.size() as i64))?;
            let to = self.target(target, ty)?;
            self.emit(Op::moving(ty), &[to, from]);
        }
        Ok(())
    }

    fn store(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let ordered = parts.take("release");
        parts.ignore_hints();
        let lanes = parts.lanes();
        let space = parts.pick(Space::from_text);
        let ty = self.ty(parts)?;
        if i.operands.len() < 2 {
            return self.fail(format!("`{}` takes an address and a register", i.opcode));
        }
        if matches!(space, Some(Space::Const)) {
            return self.fail("constant memory cannot be written");
        }
        let sources = Self::list(&i.operands[1]);
        let whole = ty == Scalar::B128 && lanes == 1;
        if !whole && sources.len() != usize::from(lanes) {
            return self.fail(format!("`{}` takes {lanes} registers", i.opcode));
        }
        let address = self.address(i.operands.first())?;
        if let Some(name) = address.base
            && let Some(Named::Param(_)) = self.find(name)
        {
            return self.fail("kernel parameters cannot be written");
        }
        let memory = self.memory_at(address, space)?;
        if lanes == 8 {
            return self.store_eight(memory, (ty, sources), ordered);
        }
        let mut slots = [memory.slot; 6];
        let (ty, lanes) = if whole {
            // As in `load_wide`.
            let [low, high] = self.halves(&i.operands[1])?;
            (slots[1], slots[2]) = (low, high);
            (Scalar::B64, 2)
        } else {
            for (at, source) in sources.iter().enumerate() {
                slots[1 + at] = self.source(source, ty)?;
            }
            (ty, lanes)
        };
        if ordered {
            self.emit(Op::Fence, &[]);
        }
        let at = memory.at;
        let slots = &slots[..=usize::from(lanes)];
        self.emit_with(Op::Store { at, ty, lanes }, slots, memory.offset);
        Ok(())
    }

    /// Decodes `cvta`: shared and local windows have a base; other spaces are generic already.
    fn address_space(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let to = parts.take("to");
        let space = parts.pick(Space::from_text);
        let ty = self.ty(parts)?;
        let operands = self.exactly(i, 2)?;
        let a = self.source(&operands[1], ty)?;
        let d = self.target(&operands[0], ty)?;
        let base = match space {
            Some(Space::Shared) => SHARED_WINDOW,
            Some(Space::Local) => LOCAL_WINDOW,
            _ => 0,
        };
        if base == 0 {
            self.emit(Op::moving(ty), &[d, a]);
            return Ok(());
        }
        let base = self.constant(Bank::of(ty), Constant::Bits(base));
        let op = if to { Int2::Sub } else { Int2::Add };
        self.emit(Op::Int2(op, ty), &[d, a, base]);
        Ok(())
    }
}
