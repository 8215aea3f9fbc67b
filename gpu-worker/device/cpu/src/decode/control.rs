//! Control flow, calls, barriers, and what lanes do together.

use super::builder::Symbol;
use super::form::{
    Bank, BarRed, CallSite, Callee, Constant, Op, Passed, Redux, Runtime, Shuffle, Slot, Vote,
};
use super::operand::{Body, Named};
use super::parts::Parts;
use crate::error::BuildError;
use ptx::{FunctionKind, Instruction, Operand, Scalar};

type Result<T> = std::result::Result<T, BuildError>;

/// Gives a caller's variables the sizes of the formal parameters they are passed for.
fn sized(passed: &mut [Passed], formals: &[ptx::Variable<'_>]) {
    for (passed, formal) in passed.iter_mut().zip(formals) {
        if let Passed::Local(_, size) = passed {
            *size = formal.size().unwrap_or(0) as u32;
        }
    }
}

/// Registers and pieces of memory that formal parameters or results take.
fn count(formals: &[ptx::Variable<'_>]) -> usize {
    let one = |formal: &ptx::Variable<'_>| match formal.space {
        ptx::Space::Reg => usize::from(formal.lanes),
        _ => 1,
    };
    formals.iter().map(one).sum()
}

impl Passed {
    /// The registers of a name, if it has any that can be passed.
    pub(super) fn of(named: Named) -> Option<Vec<Self>> {
        match named {
            Named::Register(bank, slot) => Some(vec![Self::Register(bank, slot)]),
            Named::Vector(bank, slots, count) => {
                let slots = &slots[..usize::from(count)];
                Some(
                    slots
                        .iter()
                        .map(|slot| Self::Register(bank, *slot))
                        .collect(),
                )
            }
            _ => None,
        }
    }
}

impl<'a> Body<'_, 'a> {
    /// Refuses what this device has not got, whatever its operands are.
    fn possible(&self, i: &Instruction<'a>) -> Result<()> {
        let head = i.opcode.split('.').next().unwrap_or_default();
        let why = match head {
            "tex" | "tld4" | "txq" | "suld" | "sust" | "suq" | "istypep" => return Ok(()),
            "sured" => "this device has no reductions on surfaces",
            "wgmma" | "tcgen05" => "this device has no asynchronous matrix products",
            _ if i.opcode.contains("tensormap") => "this device has no tensor maps",
            _ => {
                let coordinates = |operand: &Operand<'_>| {
                    matches!(operand, Operand::Coordinates(..) | Operand::VectorPair(..))
                };
                if !i.operands.iter().any(coordinates) {
                    return Ok(());
                }
                "this device has no tensor maps"
            }
        };
        self.fail(format!("`{}` is not supported: {why}", i.opcode))
    }

    /// Decodes one instruction.
    pub(super) fn instruction(&mut self, i: &Instruction<'a>) -> Result<()> {
        let spelt = self.spelt_out(i);
        let i = spelt.as_ref().unwrap_or(i);
        self.possible(i)?;
        let mut parts = Parts::new(i);
        let first = self.builder.out.code.len();
        let known = self.arithmetic(i, &mut parts)?
            || self.video(i, &mut parts)?
            || self.stack(i, &mut parts)?
            || self.data(i, &mut parts)?
            || self.control(i, &mut parts)?
            || self.atomics(i, &mut parts)?
            || self.matrix(i, &mut parts)?
            || self.copies(i, &mut parts)?
            || self.textures(i, &mut parts)?
            || self.together(i, &mut parts)?;
        if !known {
            return self.fail(format!("instruction `{}` is not supported", i.opcode));
        }
        if let Some(part) = parts.rest() {
            return self.fail(format!("`.{part}` of `{}` is not supported", i.opcode));
        }
        for at in first..self.builder.out.code.len() {
            if !crate::engine::code::runs(self.builder.out.code[at].op) {
                return self.fail(format!("`{}` is not supported for this type", i.opcode));
            }
        }
        Ok(())
    }

    fn control(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        if matches!(parts.head, "bra" | "brx" | "call" | "ret") {
            parts.take("uni");
        }
        match parts.head {
            "bra" => {
                let operands = self.exactly(i, 1)?;
                let Operand::Name(label) = operands[0] else {
                    return self.fail("`bra` takes a label");
                };
                let at = self.emit(Op::Branch, &[]);
                let reference = self.labels.refer(label, i.position);
                self.jumps.push((at, reference));
            }
            "brx" => {
                parts.take("idx");
                let operands = self.exactly(i, 2)?;
                let Operand::Name(list) = operands[1] else {
                    return self.fail("`brx.idx` takes a list of targets");
                };
                let index = self.source(&operands[0], Scalar::U32)?;
                let at = self.emit(Op::BranchIndex, &[index]);
                let reference = self.labels.refer(list, i.position);
                self.tables.push((at, reference));
            }
            "call" => self.call(i)?,
            "ret" => {
                let entry = self.kind == FunctionKind::Entry;
                self.emit(if entry { Op::Exit } else { Op::Return }, &[]);
            }
            "exit" => {
                self.emit(Op::Exit, &[]);
            }
            "trap" => {
                self.emit(Op::Trap, &[]);
            }
            "brkpt" => {
                self.emit_with(Op::Trap, &[], 1);
            }
            "pmevent" => {
                parts.take("mask");
                self.emit(Op::Nothing, &[]);
            }
            "nanosleep" => {
                parts.ty();
                self.emit(Op::Yield, &[]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// An argument or result at a call; vector registers are passed element by element.
    fn passed(&mut self, operand: &Operand<'a>, result: bool) -> Result<Vec<Passed>> {
        if let Operand::Name(name) = *operand {
            let found = if result {
                self.find_target(name)
            } else {
                self.find(name)
            };
            match found {
                Some(Named::Local(at)) => return Ok(vec![Passed::Local(at, 0)]),
                Some(named) => {
                    if let Some(list) = Passed::of(named) {
                        return Ok(list);
                    }
                }
                None => {}
            }
        }
        if result {
            return self.fail("a result goes to a register or a `.param` variable");
        }
        let value = self.source(operand, Scalar::B64)?;
        Ok(vec![Passed::Register(Bank::Double, value)])
    }

    /// Where a result goes that nobody wants, of the function that `rest` begins with.
    fn dropped(&mut self, rest: &[Operand<'a>], at: usize) -> Result<Vec<Passed>> {
        if let Some(Operand::Name(name)) = rest.first()
            && let Some(Symbol::Function(index)) = self.builder.symbols.get(name)
            && let Some(formal) = self.builder.functions[*index as usize].returns.get(at)
            && formal.space == ptx::Space::Reg
        {
            let bank = Bank::of(formal.scalar);
            let one = |_| Passed::Register(bank, self.fresh(bank));
            return Ok((0..formal.lanes).map(one).collect());
        }
        self.fail("`_` takes the result of a function that is named and returns registers")
    }

    fn call(&mut self, i: &Instruction<'a>) -> Result<()> {
        let mut operands = i.operands.as_slice();
        let mut rets = Vec::new();
        if let Some((Operand::List(list), rest)) = operands.split_first()
            && rest
                .first()
                .is_some_and(|next| matches!(next, Operand::Name(_)))
        {
            for (at, operand) in list.iter().enumerate() {
                rets.extend(match operand {
                    Operand::Name("_") => self.dropped(rest, at)?,
                    operand => self.passed(operand, true)?,
                });
            }
            operands = rest;
        }
        let Some((Operand::Name(name), rest)) = operands.split_first() else {
            return self.fail("`call` takes a function");
        };
        let mut args = Vec::new();
        if let Some(Operand::List(list)) = rest.first() {
            for operand in list {
                args.extend(self.passed(operand, false)?);
            }
        }
        let callee = match self.find(name) {
            Some(Named::Register(Bank::Double, slot)) => {
                self.indirect = true;
                Callee::Register(slot)
            }
            Some(_) => return self.fail(format!("`{name}` cannot be called")),
            None => match self.builder.symbols.get(name).copied() {
                Some(Symbol::Function(index)) => {
                    let function = self.builder.functions[index as usize];
                    if function.kind == FunctionKind::Entry {
                        return self.fail(format!("`{name}` is an entry: those are launched"));
                    }
                    let formal = (count(&function.params), count(&function.returns));
                    if formal != (args.len(), rets.len()) {
                        return self.fail(format!(
                            "`{name}` takes {} arguments and gives {} results",
                            formal.0, formal.1
                        ));
                    }
                    if function.body.is_some() {
                        self.calls.push(index);
                        Callee::Function(index)
                    } else if let Some(provided) = Runtime::find(name, formal) {
                        self.builder.out.heap |= provided == Runtime::Allocate;
                        sized(&mut args, &function.params);
                        sized(&mut rets, &function.returns);
                        Callee::Runtime(provided)
                    } else {
                        return self.fail(format!("function `{name}` has no body"));
                    }
                }
                _ => return self.fail(format!("`{name}` is not a function")),
            },
        };
        self.builder.out.sites.push(CallSite { callee, args, rets });
        let site = self.builder.out.sites.len() as u32 - 1;
        let at = self.emit(Op::Call, &[]);
        self.builder.out.code[at].target = site;
        Ok(())
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
            let arrives = parts.take("arrive");
            if !arrives && !parts.take("wait") {
                return self.fail("`barrier.cluster` arrives or waits");
            }
            self.exactly(i, 0)?;
            self.emit(
                if arrives {
                    Op::ClusterArrive
                } else {
                    Op::ClusterWait
                },
                &[],
            );
            return Ok(());
        }
        let arrive = parts.take("arrive");
        parts.take("sync");
        let mut red = None;
        let mut operands = i.operands.clone();
        let mut target = Slot(0);
        let mut source = Slot(0);
        if parts.take("red") {
            let kind = parts.pick(|part| {
                Some(match part {
                    "popc" => BarRed::Popc,
                    "and" => BarRed::And,
                    "or" => BarRed::Or,
                    _ => return None,
                })
            });
            let Some(kind) = kind else {
                return self.fail("`bar.red` needs an operation");
            };
            let ty = self.ty(parts)?;
            if operands.len() < 3 {
                return self.fail("`bar.red` takes a result, a barrier and a predicate");
            }
            let to = operands.remove(0);
            let last = operands.remove(operands.len() - 1);
            let (slot, negated) = self.signed_predicate(&last)?;
            source = slot;
            target = self.target(
                &to,
                if kind == BarRed::Popc {
                    ty
                } else {
                    Scalar::Pred
                },
            )?;
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

    fn together(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        let word = Scalar::U32;
        match parts.head {
            "bar" | "barrier" => self.barrier(i, parts)?,
            "elect" => {
                parts.take("sync");
                let operands = self.exactly(i, 2)?;
                let members = self.source(&operands[1], word)?;
                let (d, p, both) = self.paired(&operands[0])?;
                if both == 0 {
                    return self.fail("`elect.sync` gives a lane and a predicate");
                }
                self.emit(Op::Elect, &[d, p, members]);
            }
            "activemask" => {
                parts.ty();
                let operands = self.exactly(i, 1)?;
                let d = self.target(&operands[0], word)?;
                self.emit(Op::Activemask, &[d]);
            }
            "shfl" => self.shuffle(i, parts)?,
            "vote" => self.vote(i, parts)?,
            "match" => {
                parts.take("sync");
                let all = parts.take("all");
                parts.take("any");
                let ty = self.ty(parts)?;
                if !matches!(ty, Scalar::B32 | Scalar::B64) {
                    return self.fail(format!("there is no `{}`", i.opcode));
                }
                let operands = self.exactly(i, 3)?;
                let a = self.source(&operands[1], ty)?;
                let members = self.source(&operands[2], word)?;
                let (d, p, both) = self.paired(&operands[0])?;
                self.emit_with(Op::Match(all, ty.size() == 8), &[d, p, a, members], both);
            }
            "redux" => {
                parts.take("sync");
                let kind = parts.pick(|part| {
                    Some(match part {
                        "add" => Redux::Add,
                        "min" => Redux::Min,
                        "max" => Redux::Max,
                        "and" => Redux::And,
                        "or" => Redux::Or,
                        "xor" => Redux::Xor,
                        _ => return None,
                    })
                });
                let Some(kind) = kind else {
                    return self.fail("`redux` needs an operation");
                };
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
                let operands = self.exactly(i, 3)?;
                let a = self.source(&operands[1], ty)?;
                let members = self.source(&operands[2], word)?;
                let d = self.target(&operands[0], ty)?;
                self.emit(Op::Redux(kind, ty), &[d, a, members]);
            }
            _ => return Ok(false),
        }
        Ok(true)
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
        let kind = parts.pick(|part| {
            Some(match part {
                "up" => Shuffle::Up,
                "down" => Shuffle::Down,
                "bfly" => Shuffle::Bfly,
                "idx" => Shuffle::Idx,
                _ => return None,
            })
        });
        let Some(kind) = kind else {
            return self.fail("`shfl` needs a mode");
        };
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
        let kind = parts.pick(|part| {
            Some(match part {
                "all" => Vote::All,
                "any" => Vote::Any,
                "uni" => Vote::Uni,
                "ballot" => Vote::Ballot,
                _ => return None,
            })
        });
        let Some(kind) = kind else {
            return self.fail("`vote` needs a mode");
        };
        let ty = self.ty(parts)?;
        // The result's bank follows from the mode: another type would name another bank's row.
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
