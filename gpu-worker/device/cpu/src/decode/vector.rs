//! Vector registers: expansion of whole ones into elements.

use super::form::{Bank, Op, Slot};
use super::names::{Named, Registers};
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar};

/// The element of a vector that a name behind a dot selects.
pub(super) fn element(name: &str) -> Option<u8> {
    Some(match name {
        "x" | "r" => 0,
        "y" | "g" => 1,
        "z" | "b" => 2,
        "w" | "a" => 3,
        _ => return None,
    })
}

/// The special registers that are vectors, with their elements.
const PLACES: [(&str, [&str; 4]); 4] = [
    ("%tid", ["%tid.x", "%tid.y", "%tid.z", "%tid.w"]),
    ("%ntid", ["%ntid.x", "%ntid.y", "%ntid.z", "%ntid.w"]),
    ("%ctaid", ["%ctaid.x", "%ctaid.y", "%ctaid.z", "%ctaid.w"]),
    (
        "%nctaid",
        ["%nctaid.x", "%nctaid.y", "%nctaid.z", "%nctaid.w"],
    ),
];

impl<'a> Body<'_, 'a> {
    /// The meaning of a name here; also `v.x`, an element of a vector register.
    pub(super) fn look(&mut self, name: &'a str) -> Option<Named> {
        if self.registers.any_vector()
            && let Some((vector, place)) = name.rsplit_once('.')
            && let Some(at) = element(place)
        {
            return self.element(vector, at);
        }
        self.declared(name)
    }

    /// An element of a vector register.
    pub(super) fn element(&mut self, vector: &'a str, at: u8) -> Option<Named> {
        match self.declared(vector) {
            Some(Named::Vector(bank, slots, count)) if at < count => {
                Some(Named::Register(bank, slots[usize::from(at)]))
            }
            _ => None,
        }
    }

    /// A new register of any shape.
    pub(super) fn fresh_register(&mut self, bank: Bank, shape: Registers) -> Named {
        match shape {
            Registers::One => Named::Register(bank, self.fresh(bank)),
            Registers::Wide => Named::Wide([self.fresh(Bank::Double), self.fresh(Bank::Double)]),
            Registers::Vector(count) => {
                self.registers.has_vector();
                let mut slots = [Slot(0); 4];
                for slot in slots.iter_mut().take(usize::from(count)) {
                    *slot = self.fresh(bank);
                }
                Named::Vector(bank, slots, count)
            }
        }
    }

    /// The instruction with vector registers replaced by their elements; `None` if it names no
    /// vector register.
    pub(super) fn spelt_out(&mut self, i: &Instruction<'a>) -> Option<Instruction<'a>> {
        if !self.registers.any_vector() {
            return None;
        }
        let mut spelt = None;
        for (at, operand) in i.operands.iter().enumerate() {
            if let Operand::Name(name) = *operand
                && let Some(Named::Vector(_, _, count)) = self.declared(name)
            {
                let list = (0..count).map(|at| Operand::Element(name, at)).collect();
                spelt.get_or_insert_with(|| i.clone()).operands[at] = Operand::Vector(list);
            }
        }
        spelt
    }

    /// `mov.v4.f32 v, {a, b, c, d}`: every source is read before a target is written.
    pub(super) fn move_vector(
        &mut self,
        i: &Instruction<'a>,
        parts: &mut Parts<'a>,
        count: usize,
    ) -> Result<()> {
        let ty = self.ty(parts)?;
        let operands = self.exactly(i, 2)?;
        let place = |name: &str| PLACES.iter().find(|(known, _)| *known == name);
        let from = match &operands[1] {
            Operand::Vector(list) => list.clone(),
            Operand::Name(name) => match place(name) {
                Some((_, names)) => names.map(Operand::Name).to_vec(),
                None => return self.fail(format!("`{name}` is not a vector register")),
            },
            _ => return self.fail("a vector is wanted here"),
        };
        let to = self.registers(operands.first(), count)?.to_vec();
        if from.len() != count {
            return self.fail(format!("`{}` takes {count} registers", i.opcode));
        }
        let (op, bank) = match Bank::of(ty) {
            Bank::Pred => return self.fail("there are no vectors of predicates"),
            Bank::Double => (Op::Move64, Bank::Double),
            Bank::Word => (Op::Move32, Bank::Word),
        };
        let held: Vec<Slot> = from.iter().map(|_| self.fresh(bank)).collect();
        for (slot, operand) in held.iter().zip(&from) {
            let source = self.source(operand, ty)?;
            self.emit(op, &[*slot, source]);
        }
        for (slot, operand) in held.iter().zip(&to) {
            let target = self.target(operand, ty)?;
            self.emit(op, &[target, *slot]);
        }
        Ok(())
    }

    /// `mov.b128` between a register and four of 32 bits.
    pub(super) fn move_quarters(&mut self, to: &Operand<'a>, from: &Operand<'a>) -> Result<()> {
        let word = Scalar::B32;
        match (to, from) {
            (Operand::Vector(list), from) => {
                let halves = self.halves(from)?;
                for (half, pair) in halves.into_iter().zip(list.chunks_exact(2)) {
                    let (low, high) = (self.target(&pair[0], word)?, self.target(&pair[1], word)?);
                    self.emit(Op::Unpack64, &[low, high, half]);
                }
            }
            (to, Operand::Vector(list)) => {
                let halves = self.halves_written(to)?;
                for (half, pair) in halves.into_iter().zip(list.chunks_exact(2)) {
                    let (low, high) = (self.source(&pair[0], word)?, self.source(&pair[1], word)?);
                    self.emit(Op::Pack64, &[half, low, high]);
                }
            }
            _ => return self.fail("four registers of 32 bits are wanted here"),
        }
        Ok(())
    }
}
