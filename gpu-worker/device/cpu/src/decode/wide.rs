//! Registers of 128 bits, which are pairs of 64, and accesses of 256 bits.

use super::data::MemoryOperand;
use super::form::{Bank, Op, Slot};
use super::operand::{Body, Named};
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar, Space};

impl<'a> Body<'_, 'a> {
    /// The halves of a register of 128 bits.
    pub(super) fn halves(&mut self, operand: &Operand<'a>) -> Result<[Slot; 2]> {
        self.halves_of(operand, Self::find)
    }

    /// As `halves`, for a register that is written.
    pub(super) fn halves_written(&mut self, operand: &Operand<'a>) -> Result<[Slot; 2]> {
        self.halves_of(operand, Self::find_target)
    }

    fn halves_of(
        &mut self,
        operand: &Operand<'a>,
        find: impl Fn(&mut Self, &'a str) -> Option<Named>,
    ) -> Result<[Slot; 2]> {
        match *operand {
            Operand::Name(name) => match find(self, name) {
                Some(Named::Wide(halves)) => Ok(halves),
                _ => self.fail(format!("`{name}` is not a register of 128 bits")),
            },
            _ => self.fail("a register of 128 bits is wanted here"),
        }
    }

    pub(super) fn move_wide(&mut self, to: &Operand<'a>, from: &Operand<'a>) -> Result<()> {
        let half = Scalar::B64;
        let quarters =
            |operand: &Operand<'_>| matches!(operand, Operand::Vector(list) if list.len() == 4);
        if quarters(to) || quarters(from) {
            return self.move_quarters(to, from);
        }
        let (to, from) = match (to, from) {
            (Operand::Vector(list), from) if list.len() == 2 => {
                let from = self.halves(from)?;
                (
                    [self.target(&list[0], half)?, self.target(&list[1], half)?],
                    from,
                )
            }
            (to, Operand::Vector(list)) if list.len() == 2 => {
                let from = [self.source(&list[0], half)?, self.source(&list[1], half)?];
                (self.halves(to)?, from)
            }
            (to, from) => (self.halves(to)?, self.halves(from)?),
        };
        self.emit(Op::Move64, &[to[0], from[0]]);
        self.emit(Op::Move64, &[to[1], from[1]]);
        Ok(())
    }

    /// Loads a register of 128 bits as two of 64, at the alignment of the whole.
    pub(super) fn load_wide(
        &mut self,
        i: &Instruction<'a>,
        space: Option<Space>,
        ordered: bool,
    ) -> Result<()> {
        let [low, high] = self.halves(&i.operands[0])?;
        let address = self.address(i.operands.get(1))?;
        if let Some(name) = address.base
            && let Some(Named::Param(at)) = self.find(name)
        {
            let at = i64::from(at).wrapping_add(address.offset);
            for (slot, at) in [(low, at), (high, at.wrapping_add(8))] {
                let from = self.param(Scalar::B64, at)?;
                self.emit(Op::Move64, &[slot, from]);
            }
            return Ok(());
        }
        let memory = self.memory(i.operands.get(1), space)?;
        let op = load(&memory, Scalar::B64, 2);
        self.emit_with(op, &[memory.slot, low, high], memory.offset);
        if ordered {
            self.emit(Op::Fence, &[]);
        }
        Ok(())
    }

    /// Loads eight values of 32 bits as four of 64, at the alignment of the whole. Smaller values
    /// are loaded as two times four.
    pub(super) fn load_eight(
        &mut self,
        memory: MemoryOperand,
        (ty, targets): (Scalar, &[Operand<'a>]),
        ordered: bool,
    ) -> Result<()> {
        if ty.size() < 4 {
            self.aligned(&memory, ty);
            for (half, list) in targets.chunks_exact(4).enumerate() {
                let mut slots = [memory.slot; 5];
                for (slot, target) in slots[1..].iter_mut().zip(list) {
                    *slot = self.target(target, ty)?;
                }
                let offset = half_offset(&memory, ty, half);
                self.emit_with(load(&memory, ty, 4), &slots, offset);
            }
        } else {
            self.of_words(ty)?;
            let slots = self.load_whole(&memory, 4);
            for (slot, pair) in slots[1..].iter().zip(targets.chunks_exact(2)) {
                let (low, high) = (self.target(&pair[0], ty)?, self.target(&pair[1], ty)?);
                self.emit(Op::Unpack64, &[low, high, *slot]);
            }
        }
        if ordered {
            self.emit(Op::Fence, &[]);
        }
        Ok(())
    }

    /// Loads `lanes` values of 64 bits into new registers.
    fn load_whole(&mut self, memory: &MemoryOperand, lanes: u8) -> [Slot; 5] {
        let mut slots = [memory.slot; 5];
        for slot in slots[1..].iter_mut().take(usize::from(lanes)) {
            *slot = self.fresh(Bank::Double);
        }
        let op = load(memory, Scalar::B64, lanes);
        self.emit_with(op, &slots[..=usize::from(lanes)], memory.offset);
        slots
    }

    /// Emits a load that faults if eight values are not aligned as a whole.
    fn aligned(&mut self, memory: &MemoryOperand, ty: Scalar) {
        self.load_whole(memory, ty.size() as u8);
    }

    /// As `load_eight`.
    pub(super) fn store_eight(
        &mut self,
        memory: MemoryOperand,
        (ty, sources): (Scalar, &[Operand<'a>]),
        ordered: bool,
    ) -> Result<()> {
        let mut stores = Vec::new();
        let stored = if ty.size() < 4 {
            for list in sources.chunks_exact(4) {
                let mut slots = [memory.slot; 5];
                for (slot, source) in slots[1..].iter_mut().zip(list) {
                    *slot = self.source(source, ty)?;
                }
                stores.push(slots);
            }
            self.aligned(&memory, ty);
            ty
        } else {
            self.of_words(ty)?;
            let mut slots = [memory.slot; 5];
            for (slot, pair) in slots[1..].iter_mut().zip(sources.chunks_exact(2)) {
                let (low, high) = (self.source(&pair[0], ty)?, self.source(&pair[1], ty)?);
                *slot = self.fresh(Bank::Double);
                self.emit(Op::Pack64, &[*slot, low, high]);
            }
            stores.push(slots);
            Scalar::B64
        };
        if ordered {
            self.emit(Op::Fence, &[]);
        }
        for (half, slots) in stores.iter().enumerate() {
            let op = Op::Store {
                at: memory.at,
                ty: stored,
                lanes: 4,
            };
            self.emit_with(op, slots, half_offset(&memory, ty, half));
        }
        Ok(())
    }

    fn of_words(&self, ty: Scalar) -> Result<()> {
        if ty.size() == 4 {
            return Ok(());
        }
        self.fail("`.v8` is for types of 32 bits and less")
    }
}

fn load(memory: &MemoryOperand, ty: Scalar, lanes: u8) -> Op {
    let at = memory.at;
    Op::Load { at, ty, lanes }
}

/// Offset of the first or the second four of eight values.
fn half_offset(memory: &MemoryOperand, ty: Scalar, half: usize) -> i64 {
    memory
        .offset
        .wrapping_add(4 * ty.size() as i64 * half as i64)
}
