//! Video instructions: `vadd` and similar, on one value, two halves or four bytes.

use super::form::{
    Compare, Field, Negated, Op, Secondary, Slot, Video, VideoMad, VideoOp, VideoParts,
};
use super::operand::{Body, Named};
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar};

/// All of a register.
const WHOLE: Field = Field {
    bits: 32,
    shift: 0,
    signed: false,
};

/// `b0` to `b3`, `h0` and `h1`.
fn field(selector: &str) -> Option<Field> {
    let (bits, at) = match selector.split_at_checked(1)? {
        ("b", at) => (8, at),
        ("h", at) => (16, at),
        _ => return None,
    };
    let at = ["0", "1", "2", "3"].iter().position(|known| *known == at)? as u8;
    (at * bits < 32).then_some(Field {
        bits,
        shift: at * bits,
        signed: false,
    })
}

/// The digits of `h10` or `b3210`, the lowest place first.
fn digits(selector: &str, bits: u8) -> Option<Vec<u8>> {
    let digits = selector.strip_prefix(if bits == 16 { 'h' } else { 'b' })?;
    let digit = |byte: u8| byte.is_ascii_digit().then(|| byte - b'0');
    digits.bytes().rev().map(digit).collect()
}

/// The comparisons of `vset`, which are the integer ones.
fn compare(part: &str) -> Option<Compare> {
    let known = ["eq", "ne", "lt", "le", "gt", "ge"].contains(&part);
    known.then(|| Compare::from_text(part)).flatten()
}

impl<'a> Body<'_, 'a> {
    /// Decodes it if it belongs to this family.
    pub(super) fn video(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        if parts.head == "vmad" {
            self.video_mad(i, parts)?;
            return Ok(true);
        }
        let (name, count) = match parts.head.as_bytes().last() {
            Some(b'2') => (&parts.head[..parts.head.len() - 1], 2),
            Some(b'4') => (&parts.head[..parts.head.len() - 1], 4),
            _ => (parts.head, 1),
        };
        let op = match name {
            "vadd" => VideoOp::Add,
            "vsub" => VideoOp::Sub,
            "vabsdiff" => VideoOp::AbsDiff,
            "vmin" => VideoOp::Min,
            "vmax" => VideoOp::Max,
            "vavrg" if count > 1 => VideoOp::Average,
            "vshl" if count == 1 => VideoOp::ShiftLeft {
                wrap: self.wraps(parts)?,
            },
            "vshr" if count == 1 => VideoOp::ShiftRight {
                wrap: self.wraps(parts)?,
            },
            "vset" => match parts.pick(compare) {
                Some(how) => VideoOp::Set(how),
                None => return self.fail(format!("`{}` needs a comparison", parts.head)),
            },
            _ => return Ok(false),
        };
        if count == 1 {
            self.video_scalar(i, parts, op)?;
        } else {
            self.video_parts(i, parts, (op, 32 / count))?;
        }
        Ok(true)
    }

    fn wraps(&self, parts: &mut Parts<'a>) -> Result<bool> {
        match (parts.take("wrap"), parts.take("clamp")) {
            (wrap, clamp) if wrap != clamp => Ok(wrap),
            _ => self.fail(format!("`{}` needs `.clamp` or `.wrap`", parts.head)),
        }
    }

    /// Signedness of the types: of the result, which `vset` lacks, and of A and B.
    fn signs(&self, i: &Instruction<'a>, parts: &mut Parts<'a>, op: VideoOp) -> Result<[bool; 3]> {
        let mut signs = [false; 3];
        let first = usize::from(matches!(op, VideoOp::Set(_)));
        for sign in &mut signs[first..] {
            *sign = match self.ty(parts)? {
                Scalar::U32 => false,
                Scalar::S32 => true,
                _ => return self.fail(format!("`{}` is for .u32 and .s32", parts.head)),
            };
        }
        let shifts = matches!(op, VideoOp::ShiftLeft { .. } | VideoOp::ShiftRight { .. });
        if shifts && signs[2] {
            return self.fail(format!("`{}` shifts by a .u32", i.opcode));
        }
        Ok(signs)
    }

    /// A register's name and the selector behind it.
    fn selected(&mut self, name: &'a str) -> (&'a str, Option<&'a str>) {
        match name.rsplit_once('.') {
            Some((register, selector))
                if matches!(self.declared(register), Some(Named::Register(..))) =>
            {
                (register, Some(selector))
            }
            _ => (name, None),
        }
    }

    /// A source, its selected field, and true if it is subtracted.
    fn video_source(&mut self, operand: &Operand<'a>, signed: bool) -> Result<(Slot, Field, bool)> {
        let (name, minus) = match *operand {
            Operand::Name(name) => (name, false),
            Operand::Minus(name) => (name, true),
            _ => {
                let slot = self.source(operand, Scalar::B32)?;
                return Ok((slot, Field { signed, ..WHOLE }, false));
            }
        };
        let (register, selector) = self.selected(name);
        let piece = match selector {
            None => Some(WHOLE),
            Some(selector) => field(selector),
        };
        let Some(piece) = piece else {
            return self.fail(format!("`{name}` names no byte or half of a register"));
        };
        let slot = self.source(&Operand::Name(register), Scalar::B32)?;
        Ok((slot, Field { signed, ..piece }, minus))
    }

    fn plus(&self, (slot, piece, minus): (Slot, Field, bool)) -> Result<(Slot, Field)> {
        if minus {
            return self.fail("only `vmad` subtracts registers");
        }
        Ok((slot, piece))
    }

    fn video_scalar(
        &mut self,
        i: &Instruction<'a>,
        parts: &mut Parts<'a>,
        op: VideoOp,
    ) -> Result<()> {
        let signs = self.signs(i, parts, op)?;
        let sat = !matches!(op, VideoOp::Set(_)) && parts.take("sat");
        let second = parts.pick(|part| {
            Some(match part {
                "add" => Secondary::Add,
                "min" => Secondary::Min,
                "max" => Secondary::Max,
                _ => return None,
            })
        });
        let Some(Operand::Name(name)) = i.operands.first() else {
            return self.fail("the result must go to a register");
        };
        let (register, selector) = self.selected(name);
        let then = match (second, selector) {
            (Some(_), Some(_)) => {
                let message = "a result goes to a field, or there is a second operation";
                return self.fail(message);
            }
            (Some(second), None) => second,
            (None, None) => Secondary::None,
            (None, Some(selector)) => match field(selector) {
                Some(piece) => Secondary::Merge(piece),
                None => return self.fail(format!("`{name}` names no byte or half of a register")),
            },
        };
        // An unused third source may be present.
        let wanted = if then == Secondary::None && i.operands.len() == 3 {
            3
        } else {
            4
        };
        let operands = self.exactly(i, wanted)?;
        let (a, b) = (&operands[1], &operands[2]);
        let first = self.video_source(a, signs[1])?;
        let other = self.video_source(b, signs[2])?;
        let ((a, a_field), (b, b_field)) = (self.plus(first)?, self.plus(other)?);
        let c = match operands.get(3) {
            Some(operand) => self.source(operand, Scalar::B32)?,
            None => a,
        };
        let d = self.target(&Operand::Name(register), Scalar::B32)?;
        let video = Video {
            op,
            a: a_field,
            b: b_field,
            signed: signs[0],
            sat,
            then,
        };
        self.emit(Op::Video(video), &[d, a, b, c]);
        Ok(())
    }

    fn video_mad(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let signs = self.signs(i, parts, VideoOp::Add)?;
        let sat = parts.take("sat");
        let plus_one = parts.take("po");
        let scale = parts.pick(|part| match part {
            "shr7" => Some(7),
            "shr15" => Some(15),
            _ => None,
        });
        let operands = self.exactly(i, 4)?;
        let (a, a_field, minus_a) = self.video_source(&operands[1], signs[1])?;
        let (b, b_field, minus_b) = self.video_source(&operands[2], signs[2])?;
        let (c, c_field, minus_c) = self.video_source(&operands[3], false)?;
        let negated = match (plus_one, minus_a != minus_b, minus_c) {
            (false, false, false) => Negated::Nothing,
            (false, true, false) => Negated::Product,
            (false, false, true) => Negated::Summand,
            (true, false, false) => Negated::PlusOne,
            _ => return self.fail("`vmad` subtracts the product or the summand, or adds one"),
        };
        if c_field.bits != 32 {
            return self.fail("the summand of `vmad` is a whole register");
        }
        let d = self.target(&operands[0], Scalar::B32)?;
        let mad = VideoMad {
            a: a_field,
            b: b_field,
            negated,
            scale: scale.unwrap_or(0),
            sat,
        };
        self.emit(Op::VideoMad(mad), &[d, a, b, c]);
        Ok(())
    }

    /// A register, and the parts of both sources that its selector names. Without a selector,
    /// `first` is the lowest part.
    fn chosen(&mut self, operand: &Operand<'a>, bits: u8, first: u16) -> Result<(Slot, u16)> {
        let Operand::Name(name) = *operand else {
            return self.fail("this operand must be a register");
        };
        let count = 32 / u16::from(bits);
        let (register, selector) = self.selected(name);
        let places = match selector {
            None => (0..count).fold(0, |word, at| word | (first + at) << (3 * at)),
            Some(selector) => {
                let chosen = digits(selector, bits)
                    .filter(|list| list.len() == usize::from(count))
                    .filter(|list| list.iter().all(|at| u16::from(*at) < 2 * count));
                let Some(chosen) = chosen else {
                    return self.fail(format!("`{name}` names no parts of two registers"));
                };
                let one = |word, at: u8| word << 3 | u16::from(at);
                chosen.into_iter().rev().fold(0, one)
            }
        };
        let slot = self.source(&Operand::Name(register), Scalar::B32)?;
        Ok((slot, places))
    }

    fn video_parts(
        &mut self,
        i: &Instruction<'a>,
        parts: &mut Parts<'a>,
        (op, bits): (VideoOp, u8),
    ) -> Result<()> {
        let signs = self.signs(i, parts, op)?;
        let sat = !matches!(op, VideoOp::Set(_)) && parts.take("sat");
        let add = parts.take("add");
        if sat && add {
            return self.fail("`.sat` and `.add` do not go together");
        }
        let operands = self.exactly(i, 4)?;
        let Operand::Name(name) = operands[0] else {
            return self.fail("the result must go to a register");
        };
        let (register, selector) = self.selected(name);
        let mask = match selector {
            None => Some(0xf),
            Some(selector) => digits(selector, bits).and_then(|list| {
                let rises = list.windows(2).all(|pair| pair[0] < pair[1]);
                let fits = list.iter().all(|at| at * bits < 32);
                (rises && fits && !list.is_empty())
                    .then(|| list.iter().fold(0, |mask, at| mask | 1 << at))
            }),
        };
        let Some(mask) = mask else {
            return self.fail(format!("`{name}` names no parts of a register"));
        };
        let (a, a_places) = self.chosen(&operands[1], bits, 0)?;
        let (b, b_places) = self.chosen(&operands[2], bits, 32 / u16::from(bits))?;
        let c = self.source(&operands[3], Scalar::B32)?;
        let d = self.target(&Operand::Name(register), Scalar::B32)?;
        let parts = VideoParts {
            op,
            bits,
            a: a_places,
            b: b_places,
            signs: [signs[1], signs[2], signs[0]],
            sat,
            add,
            mask,
        };
        self.emit(Op::VideoParts(parts), &[d, a, b, c]);
        Ok(())
    }
}
