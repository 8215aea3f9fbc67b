//! Elements of arrays, registers with a number added to them, and registers of another width.

use super::form::{Bank, Int2, Op, PARAM_WINDOW, Slot};
use super::operand::Body;
use crate::error::BuildResult as Result;
use ptx::{Operand, Scalar};

impl<'a> Body<'_, 'a> {
    /// The sum of a register and a number as integers, whatever the type.
    pub(super) fn sum(&mut self, base: Slot, offset: i64, ty: Scalar) -> Slot {
        let bank = Bank::of(ty);
        let ty = match ty.size() {
            8 => Scalar::U64,
            4 => Scalar::U32,
            _ => Scalar::U16,
        };
        let offset = self.bits(bank, offset as u64);
        let sum = self.fresh(bank);
        self.emit(Op::Int2(Int2::Add, ty), &[sum, base, offset]);
        sum
    }

    /// The address of an entry's own parameters from a 32-bit offset in a register. `mov.b32` of a
    /// parameter's name leaves such an offset there.
    pub(super) fn parameter_at(&mut self, name: &str, slot: Slot) -> Result<Slot> {
        let wide = self.widened((name, Bank::Word, slot), Bank::Double, false)?;
        Ok(self.sum(wide, PARAM_WINDOW as i64, Scalar::U64))
    }

    /// Bytes of one element of an array.
    pub(super) fn element_bytes(&self, name: &str) -> Result<i64> {
        let own = self.variables.element_bytes(name);
        match own.or_else(|| self.builder.elements.get(name).copied()) {
            Some(size) => Ok(size as i64),
            None => self.fail(format!("`{name}` is no array")),
        }
    }

    /// The address of the element that a register selects, of an array at `address`.
    pub(super) fn indexed(
        &mut self,
        address: Slot,
        array: &'a str,
        register: &'a str,
    ) -> Result<Slot> {
        let size = self.element_bytes(array)?;
        let index = self.source(&Operand::Name(register), Scalar::U64)?;
        let size = self.bits(Bank::Double, size as u64);
        let (bytes, place) = (self.fresh(Bank::Double), self.fresh(Bank::Double));
        self.emit(Op::Int2(Int2::Mul, Scalar::U64), &[bytes, index, size]);
        self.emit(Op::Int2(Int2::Add, Scalar::U64), &[place, address, bytes]);
        Ok(place)
    }

    /// A register's value in the bank that an instruction wants.
    pub(super) fn widened(
        &mut self,
        (name, have, slot): (&str, Bank, Slot),
        bank: Bank,
        signed: bool,
    ) -> Result<Slot> {
        let (to, from) = match (have, bank) {
            _ if have == bank => return Ok(slot),
            (Bank::Word, Bank::Double) if signed => (Scalar::B64, Scalar::S32),
            (Bank::Word, Bank::Double) => (Scalar::B64, Scalar::U32),
            (Bank::Double, Bank::Word) => (Scalar::B32, Scalar::B64),
            _ => return self.fail(format!("`{name}` is a predicate where a number is wanted")),
        };
        let temp = self.fresh(bank);
        self.emit(Op::Convert(to, from, Default::default()), &[temp, slot]);
        Ok(temp)
    }
}
