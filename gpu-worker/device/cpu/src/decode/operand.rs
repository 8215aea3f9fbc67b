//! Operands to slots: registers by name, immediates and symbols as constants.

use super::builder::{Builder, Symbol, code, fail};
use super::current::Current;
use super::form::{Bank, Constant, Inst, Logic, Op, PARAM_WINDOW, Slot};
use super::jumps::Jumps;
pub(crate) use super::names::Named;
use super::names::{Found, Names, Range, Registers};
use super::registers::RegisterFile;
use super::uses::Uses;
use super::variables::Variables;
use crate::error::BuildResult as Result;
use crate::lane_value::LANES;
use ptx::{FunctionKind, Operand, Position, Scalar};

/// The stack of a function that uses `alloca`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// The first free byte.
    pub(super) free: Slot,
    /// The first byte behind the stack.
    pub(super) end: Slot,
    /// The instructions that set both.
    pub(super) at: usize,
}

/// The bits of a number as a source of a type.
fn number(operand: &Operand<'_>, ty: Scalar) -> Option<u64> {
    Some(match *operand {
        Operand::Integer(value) => match ty {
            Scalar::F32 => u64::from((value as f32).to_bits()),
            Scalar::F64 => (value as f64).to_bits(),
            _ => value as u64,
        },
        Operand::Single(bits) if ty == Scalar::F64 => f64::from(f32::from_bits(bits)).to_bits(),
        Operand::Single(bits) => u64::from(bits),
        Operand::Double(bits) if Bank::of(ty) == Bank::Double => bits,
        Operand::Double(bits) => u64::from((f64::from_bits(bits) as f32).to_bits()),
        _ => return None,
    })
}

/// One function being decoded.
pub(crate) struct Body<'b, 'a> {
    pub(super) builder: &'b mut Builder<'a>,
    pub(super) kind: FunctionKind,
    /// Position of the function's declaration.
    pub(super) began: Position,
    pub(super) names: Names<'a>,
    pub(super) registers: RegisterFile,
    pub(super) variables: Variables<'a>,
    pub(super) jumps: Jumps<'a>,
    pub(super) uses: Uses,
    /// The stack of `alloca`, if used.
    pub(super) stack: Option<Stack>,
    pub(super) current: Current,
}

impl<'b, 'a> Body<'b, 'a> {
    /// A function without statements yet. Its shared variables begin at `shared`.
    pub(super) fn new(
        builder: &'b mut Builder<'a>,
        function: &ptx::ParsedFunction<'a>,
        shared: u64,
    ) -> Self {
        Self {
            builder,
            kind: function.kind,
            began: function.position,
            names: Names::default(),
            registers: RegisterFile::default(),
            variables: Variables::new(shared),
            jumps: Jumps::default(),
            uses: Uses::default(),
            stack: None,
            current: Current::new(function.position),
        }
    }

    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        fail(self.current.position(), message)
    }

    /// A required item; without it, decoding fails with `message`.
    pub(super) fn wanted<T>(&self, found: Option<T>, message: &str) -> Result<T> {
        found.map_or_else(|| self.fail(message), Ok)
    }

    /// A new register of a bank; it gets its place when the body is complete.
    pub(crate) fn fresh(&mut self, bank: Bank) -> Slot {
        self.registers.add(bank)
    }

    pub(crate) fn declare(&mut self, name: &'a str, named: Named) {
        self.names.declare(name, named);
    }

    /// Declares registers called `prefix` and a number below `count`.
    pub(crate) fn declare_range(
        &mut self,
        prefix: &'a str,
        count: u32,
        (bank, shape): (Bank, Registers),
    ) {
        if matches!(shape, Registers::Vector(_)) {
            self.registers.has_vector();
        }
        self.names
            .declare_range(prefix, Range { count, bank, shape });
    }

    /// The meaning of a name here; a register counts as read.
    pub(crate) fn find(&mut self, name: &'a str) -> Option<Named> {
        let found = self.look(name);
        self.noted_read(found)
    }

    pub(super) fn noted_read(&mut self, found: Option<Named>) -> Option<Named> {
        let found = found?;
        found.registers(|slot| self.registers.accesses().read(slot));
        Some(found)
    }

    /// As `find`; a register counts as written.
    pub(crate) fn find_target(&mut self, name: &'a str) -> Option<Named> {
        let found = self.look(name);
        self.noted_write(found)
    }

    pub(super) fn noted_write(&mut self, found: Option<Named>) -> Option<Named> {
        let found = found?;
        found.registers(|slot| self.registers.accesses().write(slot));
        Some(found)
    }

    /// The declaration of a name; the innermost scope wins.
    pub(super) fn declared(&mut self, name: &'a str) -> Option<Named> {
        let (range, depth) = match self.names.find(name)? {
            Found::Known(named) => return Some(named),
            Found::New(range, depth) => (range, depth),
        };
        let named = self.fresh_register(range.bank, range.shape);
        self.names.declare_at(depth, name, named);
        Some(named)
    }

    pub(crate) fn emit(&mut self, op: Op, slots: &[Slot]) -> usize {
        self.emit_with(op, slots, 0)
    }

    pub(crate) fn emit_with(&mut self, op: Op, slots: &[Slot], imm: i64) -> usize {
        let mut all = [Slot(0); 6];
        all[..slots.len()].copy_from_slice(slots);
        let line = self.current.position().line;
        let code = &mut self.builder.out.code;
        code.push(Inst {
            op,
            guard: self.current.guard(),
            slots: all,
            imm,
            target: 0,
            line,
        });
        let at = code.len() - 1;
        for (op, [to, from]) in self.current.take_behind() {
            self.emit(op, &[to, from]);
        }
        at
    }

    pub(crate) fn constant(&mut self, bank: Bank, constant: Constant) -> Slot {
        if bank == Bank::Double {
            let index = self.builder.doubles.place(constant);
            self.uses.constant(bank, index);
            return Slot((index * 256) | Slot::CONSTANT);
        }
        let index = self.builder.words.place(constant);
        self.uses.constant(bank, index);
        Slot((index * 128) | Slot::CONSTANT)
    }

    pub(crate) fn bits(&mut self, bank: Bank, bits: u64) -> Slot {
        let bits = if bank == Bank::Double {
            bits
        } else {
            bits & 0xffff_ffff
        };
        self.constant(bank, Constant::Bits(bits))
    }

    /// A source of a type.
    pub(crate) fn source(&mut self, operand: &Operand<'a>, ty: Scalar) -> Result<Slot> {
        let bank = Bank::of(ty);
        if bank == Bank::Pred {
            return self.predicate(operand);
        }
        if let Some(bits) = number(operand, ty) {
            return Ok(self.bits(bank, bits));
        }
        match *operand {
            Operand::Name(name) => self.named(name, bank, ty.is_signed()),
            Operand::Element(vector, at) => {
                let found = self.element(vector, at);
                match self.noted_read(found) {
                    Some(Named::Register(have, slot)) => {
                        self.widened((vector, have, slot), bank, ty.is_signed())
                    }
                    _ => self.fail(format!("`{vector}` is not a vector register")),
                }
            }
            Operand::Symbol {
                name,
                offset,
                index: false,
            } if matches!(self.look(name), Some(Named::Register(..))) => {
                let base = self.named(name, bank, ty.is_signed())?;
                Ok(self.sum(base, offset, ty))
            }
            Operand::Symbol {
                name,
                offset,
                index,
            } => {
                let bytes = if index && offset != 0 {
                    offset.wrapping_mul(self.element_bytes(name)?)
                } else {
                    offset
                };
                self.address_of(name, bytes, bank)
            }
            Operand::Indexed {
                name,
                register,
                offset,
            } => {
                let bytes = offset.wrapping_mul(self.element_bytes(name)?);
                let array = self.address_of(name, bytes, Bank::Double)?;
                let place = self.indexed(array, name, register)?;
                self.widened((name, Bank::Double, place), bank, false)
            }
            _ => self.fail("this operand must be a register or a number"),
        }
    }

    fn named(&mut self, name: &'a str, bank: Bank, signed: bool) -> Result<Slot> {
        if let Some(Named::Register(have, slot)) = self.find(name) {
            return self.widened((name, have, slot), bank, signed);
        }
        if name.starts_with('%')
            && let Some(slot) = self.special(name, bank)?
        {
            return Ok(slot);
        }
        if name == "WARP_SZ" {
            return Ok(self.bits(bank, LANES as u64));
        }
        self.address_of(name, 0, bank)
    }

    /// The address of a symbol plus an offset, as a value.
    fn address_of(&mut self, name: &'a str, offset: i64, bank: Bank) -> Result<Slot> {
        let place = match self.find(name) {
            Some(Named::Register(..) | Named::Wide(_) | Named::Vector(..)) => {
                return self.fail(format!("`{name}` is no symbol"));
            }
            Some(Named::Global(symbol)) => {
                return Ok(self.constant(bank, Constant::Global { symbol, offset }));
            }
            None if name == "WARP_SZ" => return Ok(self.bits(bank, 32)),
            Some(named) => named,
            None => match self.builder.symbols.get(name).copied() {
                Some(Symbol::Global(symbol)) => {
                    return Ok(self.constant(bank, Constant::Global { symbol, offset }));
                }
                Some(Symbol::Function(function)) => return Ok(self.bits(bank, code(function))),
                Some(Symbol::Shared(at)) => Named::Shared(at),
                Some(Symbol::Dynamic) => Named::Dynamic,
                None => return self.fail(format!("`{name}` is not declared")),
            },
        };
        match place {
            Named::Shared(at) => Ok(self.bits(bank, at.wrapping_add(offset as u64))),
            Named::Dynamic => Ok(self.constant(bank, Constant::DynamicShared { offset })),
            Named::Param(at) => {
                let at = PARAM_WINDOW.wrapping_add(u64::from(at));
                Ok(self.bits(bank, at.wrapping_add(offset as u64)))
            }
            Named::Local(at) => {
                let offset = i64::from(at).wrapping_add(offset);
                if self.kind == FunctionKind::Entry {
                    return Ok(self.bits(bank, offset as u64));
                }
                let temp = self.fresh(Bank::Double);
                self.emit_with(Op::FrameAddress, &[temp], offset);
                if bank == Bank::Double {
                    return Ok(temp);
                }
                let low = self.fresh(Bank::Word);
                self.emit(Op::narrowing(), &[low, temp]);
                Ok(low)
            }
            _ => self.fail(format!("the address of `{name}` cannot be taken")),
        }
    }

    /// The slot of a predicate source; immediates become a predicate of their own.
    pub(crate) fn predicate(&mut self, operand: &Operand<'a>) -> Result<Slot> {
        match *operand {
            Operand::Name(name) => match self.find(name) {
                Some(Named::Register(Bank::Pred, slot)) => Ok(slot),
                None if name == "%is_explicit_cluster" => Ok(self.constant_predicate(false)),
                _ => self.fail(format!("`{name}` is not a predicate")),
            },
            Operand::Integer(value) => Ok(self.constant_predicate(value != 0)),
            Operand::Not(name) => {
                let held = self.predicate(&Operand::Name(name))?;
                let temp = self.fresh(Bank::Pred);
                self.emit(Op::Logic(Logic::Not, false, false), &[temp, held, held]);
                Ok(temp)
            }
            _ => self.fail("this operand must be a predicate"),
        }
    }

    /// A new predicate that is constantly true or false.
    fn constant_predicate(&mut self, held: bool) -> Slot {
        let temp = self.fresh(Bank::Pred);
        self.emit(Op::Logic(Logic::Xor, false, held), &[temp, temp, temp]);
        temp
    }

    /// A predicate, and true if it is negated.
    pub(crate) fn signed_predicate(&mut self, operand: &Operand<'a>) -> Result<(Slot, bool)> {
        match *operand {
            Operand::Not(name) => Ok((self.predicate(&Operand::Name(name))?, true)),
            _ => Ok((self.predicate(operand)?, false)),
        }
    }

    /// A target of a type; the value is converted if the register has another width.
    pub(crate) fn target(&mut self, operand: &Operand<'a>, ty: Scalar) -> Result<Slot> {
        let bank = Bank::of(ty);
        let (name, found) = match *operand {
            Operand::Name("_") => return Ok(self.fresh(bank)),
            Operand::Name(name) => (name, self.find_target(name)),
            Operand::Element(vector, at) => {
                let found = self.element(vector, at);
                (vector, self.noted_write(found))
            }
            _ => return self.fail("the result must go to a register"),
        };
        let Some(Named::Register(have, slot)) = found else {
            return self.fail(format!("`{name}` is not a declared register"));
        };
        match (have, bank) {
            _ if have == bank => Ok(slot),
            (Bank::Double, Bank::Word) if ty.is_signed() => {
                let op = Op::Convert(Scalar::B64, Scalar::S32, Default::default());
                Ok(self.converted(op, slot, bank))
            }
            (Bank::Double, Bank::Word) => Ok(self.converted(Op::widening(), slot, bank)),
            (Bank::Word, Bank::Double) => Ok(self.converted(Op::narrowing(), slot, bank)),
            _ => self.fail(format!("`{name}` is of the wrong kind for this result")),
        }
    }

    /// A register of a bank that is converted into `to` behind the current instruction.
    fn converted(&mut self, op: Op, to: Slot, bank: Bank) -> Slot {
        let temp = self.fresh(bank);
        self.current.convert(op, [to, temp]);
        temp
    }
}
