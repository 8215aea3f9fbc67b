//! Constant expressions: C's operators over integers of 64 bits and doubles, by the ISA.

use super::Parser;
use crate::PtxError;
use crate::lex::Token;

/// Maximum depth of nested operators and parentheses.
const DEPTH: usize = 32;

/// Number of threads of a warp, `WARP_SZ`.
const WARP_SIZE: i64 = 32;

/// A constant with its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// `.s64`: literals that fit and lack the suffix `U`.
    Signed(i64),
    /// `.u64`.
    Unsigned(u64),
    /// `.f64`.
    Float(f64),
}

impl Value {
    /// Returns the bits of an integer, and true if it is unsigned.
    pub(super) fn integer(self) -> Option<(u64, bool)> {
        match self {
            Self::Signed(value) => Some((value as u64, false)),
            Self::Unsigned(value) => Some((value, true)),
            Self::Float(_) => None,
        }
    }

    pub(super) fn as_float(self) -> f64 {
        match self {
            Self::Signed(value) => value as f64,
            Self::Unsigned(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    fn is_true(self) -> bool {
        self.as_float() != 0.0
    }

    fn unary(self, sign: u8) -> Option<Self> {
        Some(match (sign, self) {
            (b'+', _) => self,
            (b'-', Self::Float(value)) => Self::Float(-value),
            (b'-', Self::Signed(value)) => Self::Signed(value.wrapping_neg()),
            (b'-', Self::Unsigned(value)) => Self::Unsigned(value.wrapping_neg()),
            (b'~', Self::Signed(value)) => Self::Signed(!value),
            (b'~', Self::Unsigned(value)) => Self::Unsigned(!value),
            (b'!', _) => Self::Signed(i64::from(!self.is_true())),
            _ => return None,
        })
    }

    /// Applies an operator; `None` if it does not take these values.
    fn binary(self, op: &str, right: Self) -> Option<Self> {
        let flag = |held: bool| Some(Self::Signed(i64::from(held)));
        match op {
            "&&" => return flag(self.is_true() && right.is_true()),
            "||" => return flag(self.is_true() || right.is_true()),
            _ => {}
        }
        let (Some((a, a_unsigned)), Some((b, b_unsigned))) = (self.integer(), right.integer())
        else {
            return floats(op, self.as_float(), right.as_float());
        };
        let shift = u32::try_from(b).unwrap_or(u32::MAX);
        let unsigned = match op {
            "<<" | ">>" => a_unsigned,
            _ => a_unsigned || b_unsigned,
        };
        let (x, y) = (a as i64, b as i64);
        let bits = match op {
            "*" => a.wrapping_mul(b),
            "/" if unsigned => a.checked_div(b)?,
            "%" if unsigned => a.checked_rem(b)?,
            "/" if b != 0 => x.wrapping_div(y) as u64,
            "%" if b != 0 => x.wrapping_rem(y) as u64,
            "+" => a.wrapping_add(b),
            "-" => a.wrapping_sub(b),
            "<<" => a.checked_shl(shift).unwrap_or(0),
            ">>" if unsigned => a.checked_shr(shift).unwrap_or(0),
            ">>" => (x >> shift.min(63)) as u64,
            "&" => a & b,
            "^" => a ^ b,
            "|" => a | b,
            "==" => return flag(a == b),
            "!=" => return flag(a != b),
            "<" => return flag(if unsigned { a < b } else { x < y }),
            "<=" => return flag(if unsigned { a <= b } else { x <= y }),
            ">" => return flag(if unsigned { a > b } else { x > y }),
            ">=" => return flag(if unsigned { a >= b } else { x >= y }),
            _ => return None,
        };
        Some(if unsigned {
            Self::Unsigned(bits)
        } else {
            Self::Signed(bits as i64)
        })
    }
}

fn floats(op: &str, a: f64, b: f64) -> Option<Value> {
    let held = match op {
        "*" => return Some(Value::Float(a * b)),
        "/" => return Some(Value::Float(a / b)),
        "+" => return Some(Value::Float(a + b)),
        "-" => return Some(Value::Float(a - b)),
        "==" => a == b,
        "!=" => a != b,
        "<" => a < b,
        "<=" => a <= b,
        ">" => a > b,
        ">=" => a >= b,
        _ => return None,
    };
    Some(Value::Signed(i64::from(held)))
}

/// Binding strength of an operator; 0 for none.
fn level(op: &str) -> u8 {
    match op {
        "||" => 1,
        "&&" => 2,
        "|" => 3,
        "^" => 4,
        "&" => 5,
        "==" | "!=" => 6,
        "<" | "<=" | ">" | ">=" => 7,
        "<<" | ">>" => 8,
        "+" | "-" => 9,
        "*" | "/" | "%" => 10,
        _ => 0,
    }
}

impl<'a> Parser<'a> {
    /// Parses a constant expression with an integer value, in two's complement of 64 bits.
    pub(super) fn constant(&mut self) -> Result<i64, PtxError> {
        match self.value()?.integer() {
            Some((bits, _)) => Ok(bits as i64),
            None => self.fail("an integer before"),
        }
    }

    /// Parses a constant expression.
    pub(super) fn value(&mut self) -> Result<Value, PtxError> {
        self.conditional(0)
    }

    /// Parses a number of registers, up to the `>` behind it.
    pub(super) fn count(&mut self) -> Result<u32, PtxError> {
        let left = self.unary(0)?;
        let count = self.continued(left, 0, level(">"))?.integer();
        match count.and_then(|(bits, _)| u32::try_from(bits).ok()) {
            Some(count) => Ok(count),
            None => self.fail("how many registers, before"),
        }
    }

    /// Parses the offset of a symbol: `+ 4`, `- 4`, `+ -4`, `+ 4*(2+1)`, or nothing.
    pub(super) fn trailing_offset(&mut self) -> Result<i64, PtxError> {
        let sum = self.continued(Value::Signed(0), 0, level("<<"))?;
        match sum.integer() {
            Some((bits, _)) => Ok(bits as i64),
            None => self.fail("an integer before"),
        }
    }

    /// Returns the binary operator at the current token. `%` needs a blank behind it, because registers begin
    /// with it.
    pub(super) fn operator(&self) -> &'static str {
        let first = match self.token {
            Token::Punct(first) => first,
            Token::Word("%") => return "%",
            _ => return "",
        };
        match (first, self.lexer.following()) {
            (b'<', b'<') => "<<",
            (b'>', b'>') => ">>",
            (b'<', b'=') => "<=",
            (b'>', b'=') => ">=",
            (b'=', b'=') => "==",
            (b'!', b'=') => "!=",
            (b'&', b'&') => "&&",
            (b'|', b'|') => "||",
            (b'<', _) => "<",
            (b'>', _) => ">",
            (b'&', _) => "&",
            (b'|', _) => "|",
            (b'^', _) => "^",
            (b'+', _) => "+",
            (b'-', _) => "-",
            (b'*', _) => "*",
            (b'/', _) => "/",
            (b'?', _) => "?",
            _ => "",
        }
    }

    fn conditional(&mut self, depth: usize) -> Result<Value, PtxError> {
        if depth > DEPTH {
            return self.fail("a simpler constant expression");
        }
        let left = self.unary(depth)?;
        let condition = self.continued(left, depth, 0)?;
        if !self.accept(b'?')? {
            return Ok(condition);
        }
        let held = self.conditional(depth + 1)?;
        self.expect(b':', "between the values of a condition")?;
        let other = self.conditional(depth + 1)?;
        Ok(if condition.is_true() { held } else { other })
    }

    /// Parses the text behind a left operand, as far as it binds more tightly than `floor`.
    fn continued(&mut self, left: Value, depth: usize, floor: u8) -> Result<Value, PtxError> {
        if depth > DEPTH {
            return self.fail("a simpler constant expression");
        }
        let mut left = left;
        loop {
            let op = self.operator();
            let level = level(op);
            if level <= floor {
                return Ok(left);
            }
            for _ in 0..op.len() {
                self.advance()?;
            }
            let right = self.unary(depth)?;
            let right = self.continued(right, depth + 1, level)?;
            left = match left.binary(op, right) {
                Some(value) => value,
                None => return self.fail(&format!("operands that fit `{op}` before")),
            };
        }
    }

    fn unary(&mut self, depth: usize) -> Result<Value, PtxError> {
        let mut signs = Vec::new();
        while let Token::Punct(sign @ (b'-' | b'~' | b'!' | b'+')) = self.token {
            self.advance()?;
            signs.push(sign);
        }
        let mut value = self.primary(depth)?;
        for sign in signs.iter().rev() {
            value = match value.unary(*sign) {
                Some(value) => value,
                None => return self.fail("an integer behind `~`, before"),
            };
        }
        Ok(value)
    }

    fn primary(&mut self, depth: usize) -> Result<Value, PtxError> {
        let value = match self.token {
            Token::Integer(value) => match i64::try_from(value) {
                Ok(value) => Value::Signed(value),
                Err(_) => Value::Unsigned(value),
            },
            Token::Unsigned(value) => Value::Unsigned(value),
            Token::Single(bits) => Value::Float(f64::from(f32::from_bits(bits))),
            Token::Double(bits) => Value::Float(f64::from_bits(bits)),
            Token::Word("WARP_SZ") => Value::Signed(WARP_SIZE),
            Token::Punct(b'(') => {
                self.advance()?;
                return self.parenthesised(depth);
            }
            _ => return self.fail("a number"),
        };
        self.advance()?;
        Ok(value)
    }

    /// Parses the text behind `(`: an expression, or a cast and its operand.
    fn parenthesised(&mut self, depth: usize) -> Result<Value, PtxError> {
        let Token::Dot(name @ ("s64" | "u64")) = self.token else {
            let value = self.conditional(depth + 1)?;
            self.expect(b')', "after a constant expression")?;
            return Ok(value);
        };
        self.advance()?;
        self.expect(b')', "after a cast")?;
        if depth > DEPTH {
            return self.fail("a simpler constant expression");
        }
        match self.unary(depth + 1)?.integer() {
            Some((bits, _)) if name == "u64" => Ok(Value::Unsigned(bits)),
            Some((bits, _)) => Ok(Value::Signed(bits as i64)),
            None => self.fail("an integer behind a cast, before"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<Value> {
        let mut parser = Parser::new(text, &|_| true).ok()?;
        let value = parser.value().ok()?;
        (parser.token == Token::End).then_some(value)
    }

    /// The expectations are C's results for 64-bit integers.
    #[test]
    fn operators_bind_as_those_of_c() {
        for (text, wanted) in [
            ("1+2*3", 7),
            ("(1+2)*3", 9),
            ("-3+4", 1),
            ("10-4-3", 3),
            ("100/7 % 5", 4),
            ("-7/2", -3),
            ("-7 % 2", -1),
            ("1<<4|3&6^1", 19),
            ("-16>>2", -4),
            ("1<<2+1", 8),
            ("1 << 70", 0),
            ("~0", -1),
            ("!5+!0", 1),
            ("- -3", 3),
            ("3<4", 1),
            ("3>=4", 0),
            ("2==2&&1!=1", 0),
            ("0||7", 1),
            ("1<2==1", 1),
            ("1?2:3", 2),
            ("0?1:0?2:3", 3),
            ("0x7fffffffffffffff+1", i64::MIN),
            ("WARP_SZ*2", 64),
            ("(.s64)0xffffffffffffffff / 2", 0),
            ("2.5 > 2", 1),
            ("1.5 && 0.0", 0),
            ("((((((((1))))))))", 1),
        ] {
            assert_eq!(value(text), Some(Value::Signed(wanted)), "{text}");
        }
    }

    #[test]
    fn one_unsigned_operand_makes_both_so() {
        for (text, wanted) in [
            ("7U", 7),
            ("0xffffffffffffffff", u64::MAX),
            ("-1/2U", u64::MAX / 2),
            ("-1 % 10U", u64::MAX % 10),
            ("(.u64)-16>>2", (-16_i64) as u64 >> 2),
            ("~0U", u64::MAX),
        ] {
            assert_eq!(value(text), Some(Value::Unsigned(wanted)), "{text}");
        }
        assert_eq!(value("-1<1U"), Some(Value::Signed(0)));
        assert_eq!(value("-1 >> 1U"), Some(Value::Signed(-1)));
    }

    #[test]
    fn floats_have_arithmetic_and_comparisons() {
        for (text, wanted) in [
            ("1.5*2", 3.0),
            ("-0.5+1", 0.5),
            ("1/4.0", 0.25),
            ("0f3F800000 + 0d3FF0000000000000", 2.0),
        ] {
            assert_eq!(value(text), Some(Value::Float(wanted)), "{text}");
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        let deep = format!("{}1{}", "(".repeat(100), ")".repeat(100));
        for text in [
            "",
            "1/0",
            "1 % 0",
            "5U/0",
            "~1.5",
            "1.5 % 2",
            "1.5<<2",
            "(1",
            "1?2",
            "1+",
            "a",
            "(.u64)1.5",
            "(.f64)1",
            &deep,
        ] {
            assert_eq!(value(text), None, "{text}");
        }
    }
}
