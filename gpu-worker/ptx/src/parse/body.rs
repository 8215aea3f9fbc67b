//! Bodies: statements, instructions, operands.

use super::Parser;
use super::expression::Value;
use crate::lex::Token;
use crate::{
    Address, Guard, Instruction, Linkage, Operand, Position, Prototype, PtxError, Space, Statement,
};

/// Maximum number of scopes open at once.
const SCOPES: u32 = 256;
/// Maximum number of operands of one instruction or elements of one list.
const OPERANDS: usize = 512;

impl<'a> Parser<'a> {
    /// Parses statements up to the brace that closes the body; the opening one has been read.
    pub(super) fn body(&mut self) -> Result<Vec<Statement<'a>>, PtxError> {
        let mut statements = Vec::new();
        let mut depth = 0_u32;
        loop {
            self.grown(size_of::<Statement<'_>>())?;
            match self.token {
                Token::Punct(b'{') => {
                    depth += 1;
                    if depth > SCOPES {
                        return self.fail("fewer nested scopes");
                    }
                    self.advance()?;
                    statements.push(Statement::Open);
                }
                Token::Punct(b'}') => {
                    self.advance()?;
                    if depth == 0 {
                        return Ok(statements);
                    }
                    depth -= 1;
                    statements.push(Statement::Close);
                }
                Token::Punct(b';') => {
                    self.advance()?;
                }
                Token::Dot(name) => self.directive(name, &mut statements)?,
                Token::Punct(b'@') => {
                    self.advance()?;
                    if self.token == Token::Punct(b'@') {
                        self.skip_line()?;
                        continue;
                    }
                    let negated = self.accept(b'!')?;
                    let name = self.word("a predicate register after `@`")?;
                    let position = self.position;
                    let opcode = self.word("an instruction after its guard")?;
                    let guard = Some(Guard { name, negated });
                    statements.push(self.instruction(position, guard, opcode)?);
                }
                Token::Word(word) => {
                    let position = self.position;
                    self.advance()?;
                    if self.accept(b':')? {
                        self.labelled(word, position, &mut statements)?;
                    } else {
                        statements.push(self.instruction(position, None, word)?);
                    }
                }
                _ => return self.fail("an instruction, a label, a directive or `}`"),
            }
        }
    }

    fn directive(
        &mut self,
        name: &'a str,
        statements: &mut Vec<Statement<'a>>,
    ) -> Result<(), PtxError> {
        if name == "loc" || name == "file" {
            return self.note();
        }
        if name == "pragma" || name == "section" {
            self.advance()?;
            return self.skip_statement();
        }
        let linkage = match name {
            "extern" => Linkage::Extern,
            "common" => Linkage::Common,
            _ => Linkage::Internal,
        };
        if linkage != Linkage::Internal {
            self.advance()?;
        }
        let space = match self.token {
            Token::Dot(space) => Space::from_text(space),
            _ => None,
        };
        let Some(space) = space else {
            return self.fail("a directive that a body may hold");
        };
        self.advance()?;
        let mut found = Vec::new();
        self.variables(space, linkage, &mut found)?;
        self.expect(b';', "after a variable")?;
        statements.extend(found.into_iter().map(Statement::Variable));
        Ok(())
    }

    /// Parses the text behind `name:`; a prototype or a list of targets belongs to the label.
    fn labelled(
        &mut self,
        name: &'a str,
        position: Position,
        statements: &mut Vec<Statement<'a>>,
    ) -> Result<(), PtxError> {
        let statement = match self.token {
            Token::Dot("callprototype") => {
                self.advance()?;
                let returns = if self.token == Token::Punct(b'(') {
                    self.formals()?
                } else {
                    Vec::new()
                };
                self.word("`_` in a prototype")?;
                let params = if self.token == Token::Punct(b'(') {
                    self.formals()?
                } else {
                    Vec::new()
                };
                while matches!(self.token, Token::Dot(_) | Token::Integer(_)) {
                    self.advance()?;
                }
                Statement::Prototype(Prototype {
                    name,
                    returns,
                    params,
                })
            }
            Token::Dot("branchtargets") => {
                self.advance()?;
                Statement::BranchTargets(name, self.list()?)
            }
            Token::Dot("calltargets") => {
                self.advance()?;
                Statement::CallTargets(name, self.list()?)
            }
            _ => {
                statements.push(Statement::Label(name, position));
                return Ok(());
            }
        };
        self.expect(b';', "after a label's directive")?;
        statements.push(statement);
        Ok(())
    }

    fn instruction(
        &mut self,
        position: Position,
        guard: Option<Guard<'a>>,
        opcode: &'a str,
    ) -> Result<Statement<'a>, PtxError> {
        let mut operands = Vec::new();
        if !self.accept(b';')? {
            loop {
                self.grown(size_of::<Operand<'_>>())?;
                operands.push(self.operand(Some(opcode))?);
                if self.accept(b';')? {
                    break;
                }
                if self.token != Token::Punct(b',') {
                    return self.fail(&format!("`,` or `;` after an operand of `{opcode}`"));
                }
                self.advance()?;
                if operands.len() == OPERANDS {
                    return self.fail("fewer operands");
                }
            }
        }
        Ok(Statement::Instruction(Instruction {
            position,
            guard,
            opcode,
            operands,
        }))
    }

    fn operands_until(&mut self, close: u8) -> Result<Vec<Operand<'a>>, PtxError> {
        let mut list = Vec::new();
        while !self.accept(close)? {
            if !list.is_empty() {
                self.expect(b',', "between operands")?;
            }
            if list.len() == OPERANDS {
                return self.fail("fewer operands");
            }
            self.grown(size_of::<Operand<'_>>())?;
            list.push(self.operand(None)?);
        }
        Ok(list)
    }

    /// Parses one operand of this opcode. Lists and vectors occur only at the top, so this recurses at most
    /// once.
    fn operand(&mut self, top: Option<&'a str>) -> Result<Operand<'a>, PtxError> {
        match self.token {
            Token::Word(name) if name != "WARP_SZ" => {
                self.advance()?;
                self.named(name)
            }
            Token::Punct(b'!') if self.lexer.names_next() => {
                self.advance()?;
                Ok(Operand::Not(self.word("a predicate after `!`")?))
            }
            Token::Punct(b'-') if self.lexer.names_next() => {
                self.advance()?;
                Ok(Operand::Minus(self.word("a register after `-`")?))
            }
            Token::Punct(b'[') => {
                self.advance()?;
                self.address(top.is_some())
            }
            Token::Punct(b'{') if top.is_some() => {
                let list = self.vector()?;
                if self.accept(b'|')? {
                    let held = self.word("a predicate behind a vector")?;
                    return Ok(Operand::VectorPair(list, held));
                }
                Ok(Operand::Vector(list))
            }
            Token::Punct(b'(') if top.is_some_and(|opcode| opcode.starts_with("call")) => {
                self.advance()?;
                Ok(Operand::List(self.operands_until(b')')?))
            }
            Token::Integer(_)
            | Token::Unsigned(_)
            | Token::Single(_)
            | Token::Double(_)
            | Token::Word(_)
            | Token::Punct(b'~' | b'+' | b'-' | b'(' | b'!') => self.number(),
            _ => self.fail("an operand"),
        }
    }

    fn number(&mut self) -> Result<Operand<'a>, PtxError> {
        if let Some(literal) = self.float()? {
            return Ok(literal);
        }
        Ok(match self.value()? {
            Value::Signed(value) => Operand::Integer(value),
            Value::Unsigned(value) => Operand::Integer(value as i64),
            Value::Float(value) => Operand::Double(value.to_bits()),
        })
    }

    /// Parses a literal float, with or without a sign, that is no part of an expression: its bits are kept as
    /// they are.
    pub(super) fn float(&mut self) -> Result<Option<Operand<'a>>, PtxError> {
        let before = self.clone();
        let negative = self.accept(b'-')?;
        let literal = match self.token {
            Token::Single(bits) => Operand::Single(bits ^ u32::from(negative) << 31),
            Token::Double(bits) => Operand::Double(bits ^ u64::from(negative) << 63),
            _ => {
                *self = before;
                return Ok(None);
            }
        };
        self.advance()?;
        if self.operator().is_empty() {
            return Ok(Some(literal));
        }
        *self = before;
        Ok(None)
    }

    fn named(&mut self, name: &'a str) -> Result<Operand<'a>, PtxError> {
        match self.token {
            Token::Punct(b'|') => {
                self.advance()?;
                Ok(Operand::Pair(name, self.word("the second half of a pair")?))
            }
            Token::Punct(b'+' | b'-') => {
                let offset = self.trailing_offset()?;
                Ok(Operand::Symbol {
                    name,
                    offset,
                    index: false,
                })
            }
            Token::Punct(b'[') => {
                self.advance()?;
                self.indexed(name)
            }
            _ => Ok(Operand::Name(name)),
        }
    }

    /// Parses the text behind `name[`: a constant, or a register and perhaps a constant.
    fn indexed(&mut self, name: &'a str) -> Result<Operand<'a>, PtxError> {
        let operand = match self.token {
            Token::Word(register) if register != "WARP_SZ" => {
                self.advance()?;
                let offset = self.trailing_offset()?;
                Operand::Indexed {
                    name,
                    register,
                    offset,
                }
            }
            _ => Operand::Symbol {
                name,
                offset: self.constant()?,
                index: true,
            },
        };
        self.expect(b']', "after an index")?;
        Ok(operand)
    }

    /// Parses a vector; its opening brace is current.
    fn vector(&mut self) -> Result<Vec<Operand<'a>>, PtxError> {
        self.advance()?;
        self.operands_until(b'}')
    }

    /// Parses the text behind `[`: an address, and coordinates if this is an operand of an instruction.
    fn address(&mut self, top: bool) -> Result<Operand<'a>, PtxError> {
        let address = if let Token::Word(name) = self.token {
            self.advance()?;
            Address {
                base: Some(name),
                offset: self.trailing_offset()?,
                index: None,
            }
        } else {
            Address {
                base: None,
                offset: self.constant()?,
                index: None,
            }
        };
        let mut coordinates = Vec::new();
        while top && self.accept(b',')? {
            if coordinates.len() == OPERANDS {
                return self.fail("fewer coordinates");
            }
            coordinates.push(match self.token {
                Token::Punct(b'{') => Operand::Vector(self.vector()?),
                _ => self.operand(None)?,
            });
        }
        self.expect(b']', "after an address")?;
        if self.token == Token::Dot("unified") {
            self.advance()?;
        }
        Ok(if coordinates.is_empty() {
            Operand::Address(address)
        } else {
            Operand::Coordinates(address, coordinates)
        })
    }
}
