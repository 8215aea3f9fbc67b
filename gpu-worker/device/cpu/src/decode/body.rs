//! One function: declarations, scopes, labels, and the order of its instructions.

use super::builder::{Builder, fail};
use super::form::{Bank, Function, GuardSlot, Op, Passed};
use super::label::Reference;
use super::liveness;
use super::operand::{Body, Named};
use crate::error::BuildError;
use ptx::{FunctionKind, Instruction, Linkage, Space, Statement, Variable};

/// Most bytes of one function's registers for a warp: some ten thousand registers.
const REGISTER_LIMIT: u32 = 2 << 20;
/// Most bytes of one function's local memory.
const LOCAL_LIMIT: u64 = 512 << 10;

type Result<T> = std::result::Result<T, BuildError>;

impl<'a> Body<'_, 'a> {
    /// Reserves local memory for a variable.
    fn local(&mut self, variable: &Variable<'a>) -> Result<u32> {
        let at = u64::from(self.frame.local).next_multiple_of(variable.align.max(1));
        let end = at.saturating_add(variable.size().unwrap_or(u64::MAX));
        if end > LOCAL_LIMIT {
            return fail(
                variable.position,
                format!("more than {LOCAL_LIMIT} bytes of local memory"),
            );
        }
        self.frame.local = end as u32;
        Ok(at as u32)
    }

    /// A formal parameter or result of a function, and where it lies.
    fn formal(&mut self, variable: &Variable<'a>) -> Result<Passed> {
        if variable.space == Space::Reg {
            let bank = Bank::of(variable.scalar);
            let slot = self.fresh(bank);
            self.declare(variable.name, Named::Register(bank, slot));
            return Ok(Passed::Register(bank, slot));
        }
        let at = self.local(variable)?;
        self.declare(variable.name, Named::Local(at));
        Ok(Passed::Local(at, variable.size().unwrap_or(0) as u32))
    }

    fn variable(&mut self, variable: &Variable<'a>) -> Result<()> {
        if variable.space != Space::Reg {
            let element = variable.scalar.size() * u64::from(variable.lanes);
            self.elements.insert(variable.name, element);
        }
        match variable.space {
            Space::Reg => {
                if variable.lanes != 1 {
                    let message = "vector registers are not supported: declare their elements";
                    return fail(variable.position, message);
                }
                if variable.scalar == ptx::Scalar::B128 && variable.range.is_none() {
                    let halves = [self.fresh(Bank::Double), self.fresh(Bank::Double)];
                    self.declare(variable.name, Named::Wide(halves));
                    return Ok(());
                }
                let bank = Bank::of(variable.scalar);
                match variable.range {
                    Some(count) => {
                        let wide = variable.scalar == ptx::Scalar::B128;
                        self.declare_range(variable.name, count, bank, wide);
                    }
                    None => {
                        let slot = self.fresh(bank);
                        self.declare(variable.name, Named::Register(bank, slot));
                    }
                }
            }
            Space::Local | Space::Param => {
                let count = variable.range.unwrap_or(0);
                if count > 0 {
                    return fail(variable.position, "ranges are for registers only");
                }
                let at = self.local(variable)?;
                self.declare(variable.name, Named::Local(at));
            }
            Space::Shared => {
                if variable.linkage == Linkage::Extern || variable.size() == Some(0) {
                    self.declare(variable.name, Named::Dynamic);
                    return Ok(());
                }
                let at = self.shared.next_multiple_of(variable.align);
                self.shared = at.saturating_add(variable.size().unwrap_or(0));
                self.declare(variable.name, Named::Shared(at));
            }
            Space::Global | Space::Const => {
                return fail(variable.position, "declare this variable at module scope");
            }
        }
        Ok(())
    }

    fn guarded(&mut self, instruction: &Instruction<'a>) -> Result<()> {
        self.position = instruction.position;
        self.guard = None;
        let at = self.builder.out.code.len();
        self.accesses.statement(at, None);
        if let Some(guard) = instruction.guard {
            let Some(Named::Register(Bank::Pred, slot)) = self.find(guard.name) else {
                return self.fail(format!("`{}` is not a predicate", guard.name));
            };
            self.guard = Some(GuardSlot {
                slot: slot.0,
                negated: guard.negated,
            });
            self.accesses.statement(at, self.guard);
        }
        self.instruction(instruction)
    }

    fn statements(&mut self, body: &[Statement<'a>]) -> Result<()> {
        for statement in body {
            match statement {
                Statement::Open => {
                    self.scopes.push(Default::default());
                    self.labels.open();
                }
                Statement::Close => {
                    self.scopes.pop();
                    self.labels.close();
                }
                Statement::Label(name, position) => {
                    let at = self.builder.out.code.len() as u32;
                    if !self.labels.define(name, at) {
                        return fail(*position, format!("label `{name}` is defined twice"));
                    }
                }
                Statement::Variable(variable) => self.variable(variable)?,
                Statement::Instruction(instruction) => self.guarded(instruction)?,
                Statement::BranchTargets(name, list) | Statement::CallTargets(name, list) => {
                    self.labels.list(name, list.clone());
                }
                Statement::Prototype(_) => {}
            }
        }
        Ok(())
    }

    /// Jumps and tables, now that every label is known.
    fn resolve(&mut self) -> Result<()> {
        let missing = |label: Reference<'_>| {
            let message = format!("there is no label `{}`", label.name);
            fail(label.position, message)
        };
        for (at, label) in std::mem::take(&mut self.jumps) {
            let Some(target) = self.labels.find(label) else {
                return missing(label);
            };
            self.builder.out.code[at].target = target;
        }
        for (table, list) in std::mem::take(&mut self.tables) {
            let Some(names) = self.labels.find_list(list) else {
                let message = format!("there is no list of targets `{}`", list.name);
                return fail(list.position, message);
            };
            let mut targets = Vec::with_capacity(names.len());
            for name in names {
                let label = Reference { name, ..list };
                match self.labels.find(label) {
                    Some(target) => targets.push(target),
                    None => return missing(label),
                }
            }
            self.builder.out.tables[table] = targets;
        }
        Ok(())
    }
}

/// Decodes one function; a declaration alone becomes an empty one.
pub(super) fn decode<'a>(builder: &mut Builder<'a>, index: usize) -> Result<Function> {
    let function = builder.functions[index];
    let start = builder.out.code.len() as u32;
    let shared = builder.shared_start(index);
    let mut body = Body::new(builder, function, shared);
    let (mut params, mut returns) = (Vec::new(), Vec::new());
    if function.kind == FunctionKind::Entry {
        let mut at = 0_u64;
        for param in &function.params {
            at = at.next_multiple_of(param.align.max(1));
            body.declare(param.name, Named::Param(at as u32));
            at = at.saturating_add(param.size().unwrap_or(0));
        }
    } else {
        for param in &function.params {
            let formal = body.formal(param)?;
            params.push(formal);
        }
        for result in &function.returns {
            let formal = body.formal(result)?;
            returns.push(formal);
        }
    }
    if let Some(statements) = &function.body {
        body.statements(statements)?;
        // Falling off the end returns.
        body.guard = None;
        body.emit(Op::Return, &[]);
        body.resolve()?;
    }
    let unwritten = liveness::unwritten(
        &body.accesses,
        &liveness::Subject {
            code: &body.builder.out.code[start as usize..],
            first: start as usize,
            tables: &body.builder.out.tables,
            frame: body.frame,
            params: &params,
            results: &returns,
        },
    );
    let mut frame = body.frame;
    if frame.words.saturating_add(frame.doubles) > REGISTER_LIMIT || frame.preds > REGISTER_LIMIT {
        return fail(
            function.position,
            format!("`{}` uses too many registers", function.name),
        );
    }
    frame.local = frame.local.next_multiple_of(16);
    Ok(Function {
        start,
        frame,
        params,
        returns,
        specials: body.specials,
        calls: body.calls,
        indirect: body.indirect,
        constants: body.constants,
        unwritten,
    })
}
