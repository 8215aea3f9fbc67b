//! Operands to slots: registers by name, immediates and symbols as constants.

use super::builder::{Builder, Symbol, code, fail};
use super::form::{Bank, Constant, GuardSlot, Inst, Logic, Op, PARAM_WINDOW, Slot, Special};
use super::label::{Labels, Reference};
use super::liveness::Accesses;
use crate::error::BuildError;
use crate::lane::LANES;
use ptx::{FunctionKind, Operand, Position, Scalar};
use std::collections::{BTreeSet, HashMap};

/// What a name of a body means.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Named {
    Register(Bank, Slot),
    /// A register of 128 bits: its halves, the low one first.
    Wide([Slot; 2]),
    Shared(u64),
    Dynamic,
    /// Bytes from the frame's start in local memory.
    Local(u32),
    /// Bytes from the start of the kernel's parameters.
    Param(u32),
}

/// `%r<n>`.
pub(crate) struct Range<'a> {
    prefix: &'a str,
    count: u32,
    bank: Bank,
    /// Whether these are registers of 128 bits.
    wide: bool,
}

/// Names of one scope.
#[derive(Default)]
pub(crate) struct Scope<'a> {
    pub(crate) names: HashMap<&'a str, Named>,
    pub(crate) ranges: Vec<Range<'a>>,
}

/// One function being decoded.
pub(crate) struct Body<'b, 'a> {
    pub(crate) builder: &'b mut Builder<'a>,
    pub(crate) kind: FunctionKind,
    pub(crate) scopes: Vec<Scope<'a>>,
    pub(crate) frame: super::form::Frame,
    pub(crate) specials: Vec<(Special, Slot)>,
    pub(crate) calls: Vec<u32>,
    pub(crate) indirect: bool,
    /// Constants it uses, of words and of doubles.
    pub(crate) constants: (BTreeSet<u32>, BTreeSet<u32>),
    pub(crate) guard: Option<GuardSlot>,
    pub(crate) position: Position,
    pub(crate) labels: Labels<'a>,
    /// Instructions whose target is still a name.
    pub(crate) jumps: Vec<(usize, Reference<'a>)>,
    /// Tables to be filled with labels.
    pub(crate) tables: Vec<(usize, Reference<'a>)>,
    pub(crate) shared: u64,
    /// Bytes of one element of each variable.
    pub(crate) elements: HashMap<&'a str, u64>,
    /// What has been read and written.
    pub(crate) accesses: Accesses,
    /// Conversions to emit behind the current instruction.
    after: Vec<(Op, [Slot; 2])>,
}

type Result<T> = std::result::Result<T, BuildError>;

impl<'b, 'a> Body<'b, 'a> {
    pub(crate) fn new(
        builder: &'b mut Builder<'a>,
        function: &ptx::Function<'a>,
        shared: u64,
    ) -> Self {
        Self {
            builder,
            kind: function.kind,
            scopes: vec![Scope::default()],
            frame: super::form::Frame::default(),
            specials: Vec::new(),
            calls: Vec::new(),
            indirect: false,
            constants: Default::default(),
            guard: None,
            position: function.position,
            labels: Labels::default(),
            jumps: Vec::new(),
            tables: Vec::new(),
            shared,
            elements: HashMap::new(),
            accesses: Accesses::default(),
            after: Vec::new(),
        }
    }

    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        fail(self.position, message)
    }

    /// A new register of a bank.
    pub(crate) fn fresh(&mut self, bank: Bank) -> Slot {
        let (count, step) = match bank {
            Bank::Word => (&mut self.frame.words, 128),
            Bank::Double => (&mut self.frame.doubles, 256),
            Bank::Pred => (&mut self.frame.preds, 1),
        };
        let slot = Slot(*count);
        *count += step;
        slot
    }

    pub(crate) fn declare(&mut self, name: &'a str, named: Named) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.names.insert(name, named);
        }
    }

    pub(crate) fn declare_range(&mut self, prefix: &'a str, count: u32, bank: Bank, wide: bool) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.ranges.push(Range {
                prefix,
                count,
                bank,
                wide,
            });
        }
    }

    /// What a name means here; a register counts as read.
    pub(crate) fn find(&mut self, name: &'a str) -> Option<Named> {
        let found = self.look(name);
        match found {
            Some(Named::Register(bank, slot)) => self.accesses.read(bank, slot),
            Some(Named::Wide(halves)) => {
                for half in halves {
                    self.accesses.read(Bank::Double, half);
                }
            }
            _ => {}
        }
        found
    }

    /// As `find`; a register counts as written.
    pub(crate) fn find_target(&mut self, name: &'a str) -> Option<Named> {
        let found = self.look(name);
        match found {
            Some(Named::Register(bank, slot)) => self.accesses.write(bank, slot),
            Some(Named::Wide(halves)) => {
                for half in halves {
                    self.accesses.write(Bank::Double, half);
                }
            }
            _ => {}
        }
        found
    }

    /// What a name means here, innermost scope first.
    fn look(&mut self, name: &'a str) -> Option<Named> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        for depth in (0..self.scopes.len()).rev() {
            if let Some(named) = self.scopes[depth].names.get(name) {
                return Some(*named);
            }
            // `%r1` may be digit 1 of `%r` or, in principle, of any shorter split.
            for split in name.len() - digits..name.len() {
                let number: Option<u32> = name[split..].parse().ok();
                let found = self.scopes[depth].ranges.iter().find(|range| {
                    range.prefix == &name[..split] && number.is_some_and(|n| n < range.count)
                });
                if let Some(range) = found {
                    let (bank, wide) = (range.bank, range.wide);
                    let named = if wide {
                        Named::Wide([self.fresh(Bank::Double), self.fresh(Bank::Double)])
                    } else {
                        Named::Register(bank, self.fresh(bank))
                    };
                    self.scopes[depth].names.insert(name, named);
                    return Some(named);
                }
            }
        }
        None
    }

    pub(crate) fn emit(&mut self, op: Op, slots: &[Slot]) -> usize {
        self.emit_with(op, slots, 0)
    }

    pub(crate) fn emit_with(&mut self, op: Op, slots: &[Slot], imm: i64) -> usize {
        let mut all = [Slot(0); 6];
        all[..slots.len()].copy_from_slice(slots);
        let line = self.position.line;
        let code = &mut self.builder.out.code;
        code.push(Inst {
            op,
            guard: self.guard,
            slots: all,
            imm,
            target: 0,
            line,
        });
        let at = code.len() - 1;
        for (op, [to, from]) in std::mem::take(&mut self.after) {
            self.emit(op, &[to, from]);
        }
        at
    }

    pub(crate) fn constant(&mut self, bank: Bank, constant: Constant) -> Slot {
        if bank == Bank::Double {
            let index = self.builder.doubles.place(constant);
            self.constants.1.insert(index);
            return Slot((index * 256) | Slot::CONSTANT);
        }
        let index = self.builder.words.place(constant);
        self.constants.0.insert(index);
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
        match *operand {
            Operand::Integer(value) => match ty {
                Scalar::F32 => Ok(self.bits(bank, u64::from((value as f32).to_bits()))),
                Scalar::F64 => Ok(self.bits(bank, (value as f64).to_bits())),
                _ => Ok(self.bits(bank, value as u64)),
            },
            Operand::Single(bits) => {
                let wide = f64::from(f32::from_bits(bits)).to_bits();
                let bits = if ty == Scalar::F64 {
                    wide
                } else {
                    u64::from(bits)
                };
                Ok(self.bits(bank, bits))
            }
            Operand::Double(bits) => {
                let single = (f64::from_bits(bits) as f32).to_bits();
                let bits = if bank == Bank::Double {
                    bits
                } else {
                    u64::from(single)
                };
                Ok(self.bits(bank, bits))
            }
            Operand::Name(name) => self.named(name, bank, ty.is_signed()),
            Operand::Symbol {
                name,
                offset,
                index,
            } => {
                let mut bytes = offset;
                if index && offset != 0 {
                    let known = self.elements.get(name).or(self.builder.elements.get(name));
                    let Some(size) = known else {
                        return self.fail(format!("`{name}` is no array"));
                    };
                    bytes = offset.wrapping_mul(*size as i64);
                }
                self.address_of(name, bytes, bank)
            }
            _ => self.fail("this operand must be a register or a number"),
        }
    }

    fn named(&mut self, name: &'a str, bank: Bank, signed: bool) -> Result<Slot> {
        if let Some(Named::Register(have, slot)) = self.find(name) {
            return match (have, bank) {
                _ if have == bank => Ok(slot),
                (Bank::Word, Bank::Double) => {
                    let temp = self.fresh(Bank::Double);
                    let from = if signed { Scalar::S32 } else { Scalar::U32 };
                    self.emit(
                        Op::Convert(Scalar::B64, from, Default::default()),
                        &[temp, slot],
                    );
                    Ok(temp)
                }
                (Bank::Double, Bank::Word) => {
                    let temp = self.fresh(Bank::Word);
                    self.emit(
                        Op::Convert(Scalar::B32, Scalar::B64, Default::default()),
                        &[temp, slot],
                    );
                    Ok(temp)
                }
                _ => self.fail(format!("`{name}` is a predicate where a number is wanted")),
            };
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
            Some(Named::Register(..) | Named::Wide(_)) => {
                return self.fail(format!("`{name}` is no symbol"));
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
                self.emit(
                    Op::Convert(Scalar::B32, Scalar::B64, Default::default()),
                    &[low, temp],
                );
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
            _ => self.fail("this operand must be a predicate"),
        }
    }

    /// A predicate of its own that holds everywhere or nowhere.
    fn constant_predicate(&mut self, held: bool) -> Slot {
        let temp = self.fresh(Bank::Pred);
        self.emit(Op::Logic(Logic::Xor, false, held), &[temp, temp, temp]);
        temp
    }

    /// A predicate and whether it is negated.
    pub(crate) fn signed_predicate(&mut self, operand: &Operand<'a>) -> Result<(Slot, bool)> {
        match *operand {
            Operand::Not(name) => Ok((self.predicate(&Operand::Name(name))?, true)),
            _ => Ok((self.predicate(operand)?, false)),
        }
    }

    /// A target of a type; what it holds is converted if the register is of another width.
    pub(crate) fn target(&mut self, operand: &Operand<'a>, ty: Scalar) -> Result<Slot> {
        let bank = Bank::of(ty);
        let Operand::Name(name) = *operand else {
            return self.fail("the result must go to a register");
        };
        if name == "_" {
            return Ok(self.fresh(bank));
        }
        let Some(Named::Register(have, slot)) = self.find_target(name) else {
            return self.fail(format!("`{name}` is not a declared register"));
        };
        match (have, bank) {
            _ if have == bank => Ok(slot),
            (Bank::Double, Bank::Word) => {
                let temp = self.fresh(Bank::Word);
                let from = if ty.is_signed() {
                    Scalar::S32
                } else {
                    Scalar::U32
                };
                self.after.push((
                    Op::Convert(Scalar::B64, from, Default::default()),
                    [slot, temp],
                ));
                Ok(temp)
            }
            (Bank::Word, Bank::Double) => {
                let temp = self.fresh(Bank::Double);
                let op = Op::Convert(Scalar::B32, Scalar::B64, Default::default());
                self.after.push((op, [slot, temp]));
                Ok(temp)
            }
            _ => self.fail(format!("`{name}` is of the wrong kind for this result")),
        }
    }
}
