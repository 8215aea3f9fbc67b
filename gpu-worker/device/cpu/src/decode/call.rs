//! `call`: the function, its arguments and its results.

use super::builder::Symbol;
use super::form::{Bank, CallSite, Callee, Op, Passed, Runtime};
use super::operand::{Body, Named};
use crate::error::BuildResult as Result;
use ptx::{FunctionKind, Instruction, Operand, Scalar};

/// Gives the caller's variables the sizes of the formal parameters that they are passed for.
fn sized(passed: &mut [Passed], formals: &[ptx::ParsedVariable<'_>]) {
    for (passed, formal) in passed.iter_mut().zip(formals) {
        if let Passed::Local(_, size) = passed {
            *size = formal.size().unwrap_or(0) as u32;
        }
    }
}

/// Number of registers and pieces of memory that formal parameters or results take.
fn count(formals: &[ptx::ParsedVariable<'_>]) -> usize {
    let one = |formal: &ptx::ParsedVariable<'_>| match formal.space {
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

    /// The registers for an unused result `_` of the function that `rest` begins with.
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

    pub(super) fn call(&mut self, i: &Instruction<'a>) -> Result<()> {
        let mut operands = i.operands.as_slice();
        let mut rets = Vec::new();
        if let Some((Operand::List(list), rest)) = operands.split_first()
            && matches!(rest.first(), Some(Operand::Name(_)))
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
                self.uses.call_address();
                Callee::Register(slot)
            }
            Some(_) => return self.fail(format!("`{name}` cannot be called")),
            None => self.callee(name, &mut args, &mut rets)?,
        };
        self.builder.out.sites.push(CallSite { callee, args, rets });
        let site = self.builder.out.sites.len() - 1;
        self.emit_pooled(Op::Call, &[], 0, site);
        Ok(())
    }

    /// The function that a name stands for, checked against the operands of the call.
    fn callee(&mut self, name: &str, args: &mut [Passed], rets: &mut [Passed]) -> Result<Callee> {
        let Some(Symbol::Function(index)) = self.builder.symbols.get(name).copied() else {
            return self.fail(format!("`{name}` is not a function"));
        };
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
            self.uses.call(index);
            return Ok(Callee::Function(index));
        }
        let Some(provided) = Runtime::find(name, formal) else {
            return self.fail(format!("function `{name}` has no body"));
        };
        self.builder.out.heap |= provided == Runtime::Allocate;
        sized(args, &function.params);
        sized(rets, &function.returns);
        Ok(Callee::Runtime(provided))
    }
}
