//! `setp`, `set`, `selp`, `slct`.

use super::form::{Bank, Compare, Logic, Op, Slot};
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar};

impl<'a> Body<'_, 'a> {
    pub(super) fn comparison(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let Some(how) = parts.pick(Compare::from_text) else {
            return self.fail(format!("`{}` needs a comparison such as `.lt`", parts.head));
        };
        let joins = parts.pick(Logic::from_text);
        let ftz = parts.take("ftz");
        let first = self.ty(parts)?;
        let wanted = if joins.is_some() { 4 } else { 3 };
        let operands = self.exactly(i, wanted)?;
        if parts.head == "set" {
            let from = self.ty(parts)?;
            let a = self.source(&operands[1], from)?;
            let b = self.source(&operands[2], from)?;
            let (c, negated) = match joins {
                Some(_) => self.signed_predicate(&operands[3])?,
                None => (Slot(0), false),
            };
            let to = self.target(&operands[0], first)?;
            let with = joins.map(|logic| (logic, negated));
            self.emit(Op::Set(how, first, from, ftz, with), &[to, a, b, c]);
            return Ok(());
        }
        let a = self.source(&operands[1], first)?;
        let b = self.source(&operands[2], first)?;
        let (c, negated) = match joins {
            Some(_) => self.signed_predicate(&operands[3])?,
            None => (Slot(0), false),
        };
        let (p, q, both) = match operands[0] {
            Operand::Pair(p, q) => {
                let p = self.target(&Operand::Name(p), Scalar::Pred)?;
                (p, self.target(&Operand::Name(q), Scalar::Pred)?, 1)
            }
            ref one => (self.target(one, Scalar::Pred)?, Slot(0), 0),
        };
        let with = joins.map(|logic| (logic, negated));
        self.emit_with(Op::Setp(how, first, ftz, with), &[p, q, a, b, c], both);
        Ok(())
    }

    pub(super) fn selection(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let ftz = parts.take("ftz");
        let ty = self.ty(parts)?;
        if parts.head == "selp" {
            let op = match Bank::of(ty) {
                Bank::Word => Op::Select32,
                Bank::Double => Op::Select64,
                Bank::Pred => Op::SelectPred,
            };
            return self.plain(op, ty, i, &[ty, ty, Scalar::Pred]);
        }
        let by = self.ty(parts)?;
        self.plain(Op::Slct(ty.size() == 8, by, ftz), ty, i, &[ty, ty, by])
    }
}
