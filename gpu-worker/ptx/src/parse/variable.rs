//! Declarations: types, attributes, arrays, initialisers.

use super::Parser;
use super::expression::Value;
use crate::lex::Token;
use crate::{Init, Linkage, Operand, ParsedVariable, PtxError, Scalar, Space};

/// Maximum number of dimensions of an array, and of nested braces of an initialiser.
const DEPTH: usize = 16;

/// The part of a declaration before the name.
struct Head {
    scalar: Scalar,
    lanes: u8,
    align: u64,
    /// True for a texture, a sampler or a surface.
    opaque: bool,
    /// True if the host may access it too.
    managed: bool,
}

impl<'a> Parser<'a> {
    /// Parses `.align 8 .v4 .f32`, in any order, and attributes.
    fn head(&mut self) -> Result<Head, PtxError> {
        let (mut scalar, mut lanes, mut align) = (None, 1_u8, None);
        let (mut opaque, mut managed) = (false, false);
        while let Token::Dot(name) = self.token {
            self.advance()?;
            match name {
                "align" => {
                    let bytes = u64::from(self.small("an alignment")?);
                    if !bytes.is_power_of_two() || bytes > 1 << 16 {
                        return self.fail("an alignment that is a power of two up to 65536");
                    }
                    align = Some(bytes);
                }
                "v2" => lanes = 2,
                "v4" => lanes = 4,
                "v8" => lanes = 8,
                "ptr" => self.skip_pointer()?,
                "attribute" => managed |= self.attribute()?,
                "managed" => managed = true,
                "unified" => {}
                _ => match Scalar::from_text(name) {
                    Some(found) => scalar = Some(found),
                    None if matches!(name, "texref" | "samplerref" | "surfref") => {
                        scalar = Some(Scalar::B64);
                        opaque = true;
                    }
                    None => return self.fail(&format!("a type instead of `.{name}` before")),
                },
            }
        }
        let Some(scalar) = scalar else {
            return self.fail("a type such as `.b32`");
        };
        let natural = scalar.size() * u64::from(lanes);
        Ok(Head {
            scalar,
            lanes,
            align: align.unwrap_or(natural).max(scalar.size()),
            opaque,
            managed,
        })
    }

    /// Parses `(…)` behind `.attribute`. Returns true if one of the attributes is `.managed`.
    pub(super) fn attribute(&mut self) -> Result<bool, PtxError> {
        let (mut depth, mut managed) = (0_u32, false);
        self.expect(b'(', "after `.attribute`")?;
        loop {
            match self.advance()? {
                Token::End => return self.fail("`)`"),
                Token::Punct(b'(') => depth += 1,
                Token::Punct(b')') if depth == 0 => return Ok(managed),
                Token::Punct(b')') => depth -= 1,
                Token::Dot("managed") => managed = true,
                _ => {}
            }
        }
    }

    /// Skips `.ptr [.space] [.align n]` of a kernel parameter.
    fn skip_pointer(&mut self) -> Result<(), PtxError> {
        while let Token::Dot(name) = self.token {
            if name == "align" {
                self.advance()?;
                self.small("an alignment")?;
            } else if Space::from_text(name).is_some() {
                self.advance()?;
            } else {
                break;
            }
        }
        Ok(())
    }

    fn declared(
        &mut self,
        head: &Head,
        space: Space,
        linkage: Linkage,
    ) -> Result<ParsedVariable<'a>, PtxError> {
        let position = self.position;
        let name = self.word("a variable's name")?;
        let mut variable = ParsedVariable {
            position,
            linkage,
            space,
            scalar: head.scalar,
            lanes: head.lanes,
            align: head.align,
            managed: head.managed,
            name,
            range: None,
            dims: Vec::new(),
            init: Vec::new(),
        };
        if self.accept(b'<')? {
            variable.range = Some(self.count()?);
            self.expect(b'>', "after a register count")?;
        }
        while self.accept(b'[')? {
            if variable.dims.len() == DEPTH {
                return self.fail("fewer array dimensions");
            }
            let dim = match self.token {
                Token::Punct(b']') => 0,
                _ => self.constant()? as u64,
            };
            variable.dims.push(dim);
            self.expect(b']', "after an array size")?;
        }
        if variable.size().is_none_or(|size| size > 1 << 46) {
            return Err(PtxError::new(position, format!("`{name}` is too large")));
        }
        Ok(variable)
    }

    /// Parses one parameter of a function.
    pub(super) fn formal(&mut self, space: Space) -> Result<ParsedVariable<'a>, PtxError> {
        let head = self.head()?;
        self.declared(&head, space, Linkage::Internal)
    }

    /// Parses declarations behind `.space` up to, not including, the `;`.
    pub(super) fn variables(
        &mut self,
        space: Space,
        linkage: Linkage,
        out: &mut Vec<ParsedVariable<'a>>,
    ) -> Result<(), PtxError> {
        let head = self.head()?;
        loop {
            self.grown(size_of::<ParsedVariable<'_>>())?;
            let mut variable = self.declared(&head, space, linkage)?;
            if self.accept(b'=')? {
                if head.opaque {
                    self.skip_fields()?;
                } else {
                    self.initialiser(&mut variable)?;
                }
            }
            out.push(variable);
            if !self.accept(b',')? {
                return Ok(());
            }
        }
    }

    /// Skips `{ filter_mode = nearest, … }` of a texture, a sampler or a surface.
    fn skip_fields(&mut self) -> Result<(), PtxError> {
        self.expect(b'{', "before the fields of a texture or surface")?;
        let mut depth = 1_u32;
        while depth > 0 {
            match self.advance()? {
                Token::End => return self.fail("`}`"),
                Token::Punct(b'{') => depth += 1,
                Token::Punct(b'}') => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }

    /// Parses values between braces, which fill rows in order; a short row is padded with zeros.
    fn initialiser(&mut self, variable: &mut ParsedVariable<'a>) -> Result<(), PtxError> {
        let position = self.position;
        let lanes = u64::from(variable.lanes);
        let unsized_head = variable.dims.first() == Some(&0);
        // Number of elements below each brace depth; only the outermost dimension may be unsized.
        let mut below = vec![lanes];
        for dim in variable.dims.iter().skip(1).rev() {
            let last = below.last().copied().unwrap_or(1);
            below.push(last.saturating_mul(*dim));
        }
        below.reverse();
        let limit = match variable.dims.first() {
            None => lanes,
            Some(0) => u64::MAX,
            Some(dim) => below[0].saturating_mul(*dim),
        };
        let mut depth = 0_usize;
        loop {
            if self.accept(b'{')? {
                depth += 1;
                if depth > DEPTH {
                    return self.fail("fewer nested braces");
                }
                continue;
            }
            if self.token != Token::Punct(b'}') {
                self.grown(size_of::<Init<'_>>())?;
                let value = self.initial(variable.scalar)?;
                variable.init.push(value);
                if variable.init.len() as u64 > limit {
                    return Err(PtxError::new(position, "more initial values than elements"));
                }
            }
            while self.accept(b'}')? {
                if depth == 0 {
                    return self.fail("a value");
                }
                depth -= 1;
                if depth > 0 {
                    self.pad_row(variable, below.get(depth - 1).copied().unwrap_or(1), limit)?;
                }
            }
            if depth == 0 {
                break;
            }
            self.expect(b',', "between initial values")?;
        }
        if unsized_head {
            let row = below[0].max(1);
            variable.dims[0] = (variable.init.len() as u64).div_ceil(row);
        }
        Ok(())
    }

    /// Pads with zeros to a multiple of `row`. The zeros of short rows could outgrow the text, so a padded
    /// row is bounded.
    fn pad_row(
        &self,
        variable: &mut ParsedVariable<'a>,
        row: u64,
        limit: u64,
    ) -> Result<(), PtxError> {
        let have = variable.init.len() as u64;
        let padded = have
            .checked_next_multiple_of(row.max(1))
            .unwrap_or(u64::MAX);
        if padded > limit || padded - have > 1 << 16 {
            return self.fail("initial values that fit the array");
        }
        self.grown((padded - have) as usize * size_of::<Init<'_>>())?;
        variable.init.resize(padded as usize, Init::Bits(0));
        Ok(())
    }

    fn initial(&mut self, scalar: Scalar) -> Result<Init<'a>, PtxError> {
        if let Token::Word(name) = self.token {
            self.advance()?;
            if name == "generic" && self.accept(b'(')? {
                let name = self.word("a symbol")?;
                self.expect(b')', "after `generic(`")?;
                let offset = self.trailing_offset()?;
                return Ok(Init::Symbol {
                    name,
                    offset,
                    generic: true,
                    mask: None,
                });
            }
            let offset = self.trailing_offset()?;
            return Ok(Init::Symbol {
                name,
                offset,
                generic: false,
                mask: None,
            });
        }
        let literal = self.float()?;
        if let Some(Operand::Single(bits)) = literal
            && scalar != Scalar::F64
        {
            return Ok(Init::Bits(u64::from(bits)));
        }
        let value = match literal {
            Some(Operand::Single(bits)) => Value::Float(f64::from(f32::from_bits(bits))),
            Some(Operand::Double(bits)) => Value::Float(f64::from_bits(bits)),
            _ => self.value()?,
        };
        if let Some((mask, _)) = value.integer()
            && self.accept(b'(')?
        {
            return self.masked(mask);
        }
        Ok(Init::Bits(match (scalar, value) {
            (Scalar::F32, _) => u64::from((value.as_float() as f32).to_bits()),
            (Scalar::F64, _) => value.as_float().to_bits(),
            (_, Value::Float(value)) => value.to_bits(),
            (_, Value::Signed(value)) => value as u64,
            (_, Value::Unsigned(value)) => value,
        }))
    }

    /// Parses `0xFF00(symbol)`: one byte of an address.
    fn masked(&mut self, mask: u64) -> Result<Init<'a>, PtxError> {
        let mut name = self.word("a symbol")?;
        let mut generic = false;
        if name == "generic" && self.accept(b'(')? {
            generic = true;
            name = self.word("a symbol")?;
            self.expect(b')', "after `generic(`")?;
        }
        let offset = self.trailing_offset()?;
        self.expect(b')', "after a masked symbol")?;
        Ok(Init::Symbol {
            name,
            offset,
            generic,
            mask: Some(mask),
        })
    }
}
