//! Barriers, and instructions that the lanes of a warp execute together.

use super::form::{Bank, BarRed, Constant, Op, Redux, Shuffle, Slot, Vote};
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar};

impl<'a> Body<'_, 'a> {
    /// Decodes it if it belongs to this family.
    pub(super) fn warp_wide(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        match parts.head {
            "bar" | "barrier" => self.barrier(i, parts)?,
            "elect" => self.elect(i, parts)?,
            "activemask" => {
                parts.ty();
                let operands = self.exactly(i, 1)?;
                let d = self.target(&operands[0], Scalar::U32)?;
                self.emit(Op::Activemask, &[d]);
            }
            "shfl" => self.shuffle(i, parts)?,
            "vote" => self.vote(i, parts)?,
            "match" => self.matching(i, parts)?,
            "redux" => self.reduction(i, parts)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn barrier(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        parts.ignore(&["cta", "aligned"]);
        if parts.head == "bar" && parts.take("warp") {
            parts.take("sync");
            let operands = self.exactly(i, 1)?;
            let members = self.source(&operands[0], Scalar::U32)?;
            self.emit(Op::WarpSync, &[Slot(0), members]);
            return Ok(());
        }
        if parts.head == "barrier" && parts.take("cluster") {
            parts.ignore(&["acquire", "release", "relaxed"]);
            let op = match (parts.take("arrive"), parts.take("wait")) {
                (true, false) => Op::ClusterArrive,
                (false, true) => Op::ClusterWait,
                _ => return self.fail("`barrier.cluster` arrives or waits"),
            };
            self.exactly(i, 0)?;
            self.emit(op, &[]);
            return Ok(());
        }
        self.block_barrier(i, parts)
    }

    fn block_barrier(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let arrive = parts.take("arrive");
        parts.take("sync");
        let mut operands = i.operands.as_slice();
        let (mut red, mut target, mut source) = (None, Slot(0), Slot(0));
        if parts.take("red") {
            let kind = parts.pick(BarRed::from_text);
            let kind = self.wanted(kind, "`bar.red` needs an operation")?;
            let ty = self.ty(parts)?;
            let [to, rest @ .., last] = operands else {
                return self.fail("`bar.red` takes a result, a barrier and a predicate");
            };
            if rest.is_empty() {
                return self.fail("`bar.red` takes a result, a barrier and a predicate");
            }
            operands = rest;
            let (slot, negated) = self.signed_predicate(last)?;
            source = slot;
            let counts = kind == BarRed::Popc;
            target = self.target(to, if counts { ty } else { Scalar::Pred })?;
            red = Some((kind, negated));
        }
        let id = match operands.first() {
            Some(operand) => self.source(operand, Scalar::U32)?,
            None => self.constant(Bank::Word, Constant::Bits(0)),
        };
        let count = match operands.get(1) {
            Some(operand) => Some(self.source(operand, Scalar::U32)?),
            None => None,
        };
        if arrive && count.is_none() {
            return self.fail(format!("`{}` needs a count of threads", i.opcode));
        }
        let op = Op::Barrier {
            arrive,
            counted: count.is_some(),
            red,
        };
        self.emit(op, &[target, id, count.unwrap_or(Slot(0)), source]);
        Ok(())
    }

    fn elect(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        parts.take("sync");
        let operands = self.exactly(i, 2)?;
        let members = self.source(&operands[1], Scalar::U32)?;
        let (d, p, both) = self.paired(&operands[0])?;
        if both == 0 {
            return self.fail("`elect.sync` gives a lane and a predicate");
        }
        self.emit(Op::Elect, &[d, p, members]);
        Ok(())
    }

    fn matching(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        parts.take("sync");
        let all = parts.take("all");
        parts.take("any");
        let ty = self.ty(parts)?;
        if !matches!(ty, Scalar::B32 | Scalar::B64) {
            return self.fail(format!("there is no `{}`", i.opcode));
        }
        let operands = self.exactly(i, 3)?;
        let a = self.source(&operands[1], ty)?;
        let members = self.source(&operands[2], Scalar::U32)?;
        let (d, p, both) = self.paired(&operands[0])?;
        self.emit_with(Op::Match(all, ty.size() == 8), &[d, p, a, members], both);
        Ok(())
    }

    fn reduction(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        parts.take("sync");
        let kind = self.wanted(parts.pick(Redux::from_text), "`redux` needs an operation")?;
        let ty = self.ty(parts)?;
        let logic = matches!(kind, Redux::And | Redux::Or | Redux::Xor);
        let fits = match ty {
            Scalar::B32 => logic,
            Scalar::U32 | Scalar::S32 => !logic,
            _ => false,
        };
        if !fits {
            return self.fail(format!("there is no `{}`", i.opcode));
        }
        self.plain(Op::Redux(kind, ty), ty, i, &[ty, Scalar::U32])
    }

    /// `d` or `d|p`.
    fn paired(&mut self, operand: &Operand<'a>) -> Result<(Slot, Slot, i64)> {
        match *operand {
            Operand::Pair(d, p) => {
                let d = self.target(&Operand::Name(d), Scalar::B32)?;
                Ok((d, self.target(&Operand::Name(p), Scalar::Pred)?, 1))
            }
            ref one => Ok((self.target(one, Scalar::B32)?, Slot(0), 0)),
        }
    }

    pub(super) fn all_lanes(&mut self) -> Slot {
        self.constant(Bank::Word, Constant::Bits(0xffff_ffff))
    }

    fn shuffle(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let sync = parts.take("sync");
        let kind = self.wanted(parts.pick(Shuffle::from_text), "`shfl` needs a mode")?;
        self.ty(parts)?;
        let word = Scalar::U32;
        let operands = self.exactly(i, if sync { 5 } else { 4 })?;
        let a = self.source(&operands[1], word)?;
        let b = self.source(&operands[2], word)?;
        let c = self.source(&operands[3], word)?;
        let members = if sync {
            self.source(&operands[4], word)?
        } else {
            self.all_lanes()
        };
        let (d, p, both) = self.paired(&operands[0])?;
        self.emit_with(Op::Shuffle(kind), &[d, p, a, b, c, members], both);
        Ok(())
    }

    fn vote(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let sync = parts.take("sync");
        let kind = self.wanted(parts.pick(Vote::from_text), "`vote` needs a mode")?;
        let ty = self.ty(parts)?;
        // The result's bank follows from the mode; another type would access the wrong bank.
        let wanted = if kind == Vote::Ballot {
            Scalar::B32
        } else {
            Scalar::Pred
        };
        if ty != wanted {
            return self.fail(format!("there is no `{}`", i.opcode));
        }
        let operands = self.exactly(i, if sync { 3 } else { 2 })?;
        let (a, negated) = self.signed_predicate(&operands[1])?;
        let members = if sync {
            self.source(&operands[2], Scalar::U32)?
        } else {
            self.all_lanes()
        };
        let d = self.target(&operands[0], ty)?;
        self.emit(Op::Vote(kind, negated), &[d, a, members]);
        Ok(())
    }
}
