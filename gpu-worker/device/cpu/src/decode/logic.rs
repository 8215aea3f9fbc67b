//! Logic: of two operands and of three.

use super::form::{Bank, Compare, Int1, Int2, Int3, Logic, Op, Slot};
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar};

impl<'a> Body<'_, 'a> {
    /// `lop3.b32 d, a, b, c, table`, or `lop3.or.b32 d|p, a, b, c, table, q`: p = (d != 0) or q.
    pub(super) fn lop3(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let joins = parts.pick(Logic::from_text);
        let operands = self.exactly(i, if joins.is_some() { 6 } else { 5 })?;
        let Operand::Integer(table) = operands[4] else {
            return self.fail("`lop3` needs a table of 8 bits");
        };
        let mut slots = [Slot(0); 4];
        for (slot, operand) in slots[1..].iter_mut().zip(&operands[1..4]) {
            *slot = self.source(operand, Scalar::B32)?;
        }
        let op = Op::Int3(Int3::Lop3(table as u8), Scalar::B32);
        let Some(joins) = joins else {
            slots[0] = self.target(&operands[0], Scalar::B32)?;
            self.emit(op, &slots);
            return Ok(());
        };
        let Operand::Pair(d, p) = operands[0] else {
            return self.fail(format!("`{}` has two results, `d|p`", i.opcode));
        };
        let (q, negated) = self.signed_predicate(&operands[5])?;
        slots[0] = self.target(&Operand::Name(d), Scalar::B32)?;
        let p = self.target(&Operand::Name(p), Scalar::Pred)?;
        self.emit(op, &slots);
        let zero = self.bits(Bank::Word, 0);
        let test = Op::Setp(Compare::Ne, Scalar::U32, false, Some((joins, negated)));
        self.emit(test, &[p, Slot(0), slots[0], zero, q]);
        Ok(())
    }

    pub(super) fn logical(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let ty = self.ty(parts)?;
        if ty == Scalar::Pred {
            let unary = parts.head == "not";
            let operands = self.exactly(i, if unary { 2 } else { 3 })?;
            let (a, not_a) = self.signed_predicate(&operands[1])?;
            let last = operands.len() - 1;
            let (b, not_b) = self.signed_predicate(&operands[last])?;
            let to = self.target(&operands[0], ty)?;
            let kind = Logic::from_text(parts.head).unwrap_or(Logic::Not);
            self.emit(Op::Logic(kind, not_a, not_b), &[to, a, b]);
            return Ok(());
        }
        let op = match Int2::from_text(parts.head) {
            Some(op) => Op::Int2(op, ty),
            None => Op::Int1(Int1::Not, ty),
        };
        self.typed(op, i)
    }
}
