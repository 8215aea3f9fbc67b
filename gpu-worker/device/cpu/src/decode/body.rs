//! One function: declarations, scopes, labels, and the order of its instructions.

use super::builder::{Builder, fail};
use super::current::Current;
use super::flow::Flow;
use super::form::{Alive, Bank, Function, GuardSlot, Op, Passed, Slot};
use super::liveness;
use super::names::Registers;
use super::operand::{Body, Named};
use super::order::order;
use super::place::Places;
use crate::error::BuildResult as Result;
use ptx::{FunctionKind, Instruction, ParsedVariable, Space, Statement};

/// Maximum bytes of one function's registers that are live at once, for a warp. It is twice the
/// local memory into which an assembler could spill them.
const REGISTER_LIMIT: u32 = 32 << 20;
/// Functions of more instructions than this share register places even where code is generated for
/// them. They would not become code for whole warps.
pub(crate) const APART: usize = 1500;
/// Approximate bytes of a statement: its instruction in the forms that are kept, and its accesses.
const STATEMENT: usize = 512;

impl<'a> Body<'_, 'a> {
    /// Declares a formal parameter or result of a function, and records its place.
    fn formal(&mut self, variable: &ParsedVariable<'a>, passed: &mut Vec<Passed>) -> Result<()> {
        if variable.space == Space::Reg {
            let named = self.register(variable)?;
            self.declare(variable.name, named);
            return match Passed::of(named) {
                Some(list) => {
                    passed.extend(list);
                    Ok(())
                }
                None => fail(
                    variable.position,
                    "a register of this type cannot be passed",
                ),
            };
        }
        let at = self.variables.local(variable)?;
        self.declare(variable.name, Named::Local(at));
        passed.push(Passed::Local(at, variable.size().unwrap_or(0) as u32));
        Ok(())
    }

    /// The kind of registers that a declaration makes.
    fn registers_of(variable: &ParsedVariable<'a>) -> Result<Registers> {
        let bytes = variable.scalar.size() * u64::from(variable.lanes);
        match (variable.scalar, variable.lanes) {
            (ptx::Scalar::B128, 1) => Ok(Registers::Wide),
            (_, 1) => Ok(Registers::One),
            (ptx::Scalar::Pred, _) => fail(variable.position, "there are no vectors of predicates"),
            (_, lanes @ (2 | 4)) if bytes <= 16 => Ok(Registers::Vector(lanes)),
            _ => fail(variable.position, "a vector register has at most 128 bits"),
        }
    }

    fn register(&mut self, variable: &ParsedVariable<'a>) -> Result<Named> {
        let shape = Self::registers_of(variable)?;
        Ok(self.fresh_register(Bank::of(variable.scalar), shape))
    }

    fn variable(&mut self, variable: &ParsedVariable<'a>) -> Result<()> {
        if variable.space != Space::Reg {
            self.variables.declare(variable);
        }
        match variable.space {
            Space::Reg => match variable.range {
                Some(count) => {
                    let held = (Bank::of(variable.scalar), Self::registers_of(variable)?);
                    self.declare_range(variable.name, count, held);
                }
                None => {
                    let named = self.register(variable)?;
                    self.declare(variable.name, named);
                }
            },
            Space::Local | Space::Param => {
                let count = variable.range.unwrap_or(0);
                if count > 0 {
                    return fail(variable.position, "ranges are for registers only");
                }
                let at = self.variables.local(variable)?;
                self.declare(variable.name, Named::Local(at));
            }
            Space::Shared => {
                if variable.size() == Some(0) {
                    self.declare(variable.name, Named::Dynamic);
                    return Ok(());
                }
                let at = self.variables.shared(variable);
                self.declare(variable.name, Named::Shared(at));
            }
            Space::Global | Space::Const => {
                let Some(symbol) = self.builder.statics.get(&variable.position) else {
                    return fail(variable.position, "declare this variable at module scope");
                };
                self.declare(variable.name, Named::Global(*symbol));
            }
        }
        Ok(())
    }

    fn guarded(&mut self, instruction: &Instruction<'a>) -> Result<()> {
        self.current = Current::new(instruction.position);
        let at = self.builder.out.code.len();
        let pool = self.builder.out.operands.len();
        self.registers.accesses().statement(at, pool);
        if let Some(guard) = instruction.guard {
            let Some(Named::Register(Bank::Pred, slot)) = self.find(guard.name) else {
                return self.fail(format!("`{}` is not a predicate", guard.name));
            };
            self.current.guarded(GuardSlot {
                slot: slot.0,
                negated: guard.negated,
            });
            self.registers.accesses().guarded();
        }
        self.instruction(instruction)
    }

    fn statements(&mut self, body: &[Statement<'a>]) -> Result<()> {
        for statement in body {
            self.builder.watched.grown(STATEMENT)?;
            match statement {
                Statement::Open => {
                    self.names.open();
                    self.jumps.labels().open();
                }
                Statement::Close => {
                    self.names.close();
                    self.jumps.labels().close();
                }
                Statement::Label(name, position) => {
                    let at = self.builder.out.code.len() as u32;
                    if !self.jumps.labels().define(name, at) {
                        return fail(*position, format!("label `{name}` is defined twice"));
                    }
                }
                Statement::Variable(variable) => self.variable(variable)?,
                Statement::Instruction(instruction) => self.guarded(instruction)?,
                Statement::BranchTargets(name, list) | Statement::CallTargets(name, list) => {
                    self.jumps.labels().list(name, list.clone());
                }
                Statement::Prototype(_) => {}
            }
        }
        Ok(())
    }
}

/// Decodes one function; a declaration alone becomes an empty one.
pub(super) fn decode<'a>(
    builder: &mut Builder<'a>,
    index: usize,
    native: bool,
) -> Result<Function> {
    let function = builder.functions[index];
    let out = &builder.out;
    let begun = (out.code.len(), out.operands.len(), out.sites.len());
    let shared = builder.shared_start(index);
    let mut body = Body::new(builder, function, shared);
    let (mut params, mut returns) = (Vec::new(), Vec::new());
    if function.kind == FunctionKind::Entry {
        let mut at = 0_u64;
        for param in &function.params {
            at = at.next_multiple_of(param.align.max(1));
            body.declare(param.name, Named::Param(at as u32));
            body.variables.declare(param);
            at = at.saturating_add(param.size().unwrap_or(0));
        }
    } else {
        for param in &function.params {
            body.formal(param, &mut params)?;
        }
        for result in &function.returns {
            body.formal(result, &mut returns)?;
        }
    }
    if let Some(statements) = &function.body {
        body.open_stack(statements);
        body.statements(statements)?;
        body.close_stack();
        // Falling off the end returns.
        body.current = Current::new(body.current.position());
        body.emit(Op::Return, &[]);
        let out = &mut body.builder.out;
        body.jumps.resolve(&mut out.code, &mut out.tables)?;
    }
    finish(body, begun, (params, returns), (function.name, native))
}

/// The blocks in the order in which diverged lanes run, if that is not the order of the text.
fn block_order(flow: &Flow, start: usize) -> Vec<(u32, u32)> {
    let within = |block: &u32| {
        let (from, to) = (flow.starts[*block as usize], flow.end_of(*block as usize));
        (from + start as u32, to + start as u32)
    };
    let order = order(flow).unwrap_or_default();
    order.iter().map(within).collect()
}

/// Gives the registers of a decoded body their places. `begun`: the start of its code, operands and
/// calls in the module's lists.
fn finish(
    body: Body<'_, '_>,
    begun: (usize, usize, usize),
    (mut params, mut returns): (Vec<Passed>, Vec<Passed>),
    (name, native): (&str, bool),
) -> Result<Function> {
    let (start, pool, sites) = begun;
    let out = &mut body.builder.out;
    let flow = Flow::of(&out.code[start..], start, &out.tables);
    let kept = body.uses.held();
    let (registers, accesses) = body.registers.into_parts();
    let lives = liveness::lives(&liveness::Subject {
        code: &out.code[start..],
        first: start,
        flow: &flow,
        accesses: &accesses,
        registers: registers.len(),
        pool: &out.operands,
        calls: &out.sites,
        params: &liveness::numbers(&params),
        results: &liveness::numbers(&returns),
        kept: &kept,
        watched: body.builder.watched,
    })?;
    let apart = native && body.kind == FunctionKind::Entry && out.code.len() - start <= APART;
    let places = if apart {
        Places::apart(&registers)
    } else {
        Places::shared(&registers, &lives.spans)
    };
    let mut frame = places.frame;
    if frame.words.saturating_add(frame.doubles) > REGISTER_LIMIT || frame.preds > REGISTER_LIMIT {
        let message = "more registers live at once than local memory could hold";
        return fail(body.began, format!("`{name}` has {message}"));
    }
    frame.local = body.variables.local_bytes();
    places.assign(&mut out.code[start..], &mut out.operands[pool..]);
    places.assign_calls(&mut out.sites[sites..]);
    places.assign_passed(&mut params);
    places.assign_passed(&mut returns);
    let placed = |slot: Slot| slot.number().map_or(slot, |at| places.list[at].1);
    let unwritten = lives.unwritten.iter().map(|at| places.list[*at as usize]);
    let uses = body.uses.give(Function::default(), placed);
    Ok(Function {
        start: start as u32,
        frame,
        params,
        returns,
        unwritten: unwritten.collect(),
        order: block_order(&flow, start),
        alive: Alive {
            starts: flow.starts.iter().map(|at| at + start as u32).collect(),
            behind: lives.behind,
            always: lives.always,
            places: places.list,
        },
        ..uses
    })
}
