//! `cvt`.

use super::form::{Mode, Narrowing, Op, Round, Slot, Small, Taken};
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Scalar};

/// A type of `cvt`: a register type, or two floats of 8 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Scalar(Scalar),
    Quarters(Small),
}

fn ty(part: &str) -> Option<Type> {
    Some(match part {
        "e4m3x2" => Type::Quarters(Small::E4m3),
        "e5m2x2" => Type::Quarters(Small::E5m2),
        _ => Type::Scalar(Scalar::from_text(part)?),
    })
}

/// The small format and the source that makes it, if the conversion is a [`Narrowing`].
fn narrowing(to: Type, from: Type, modified: bool) -> Option<(Small, Taken)> {
    let Type::Scalar(from) = from else {
        return None;
    };
    Some(match (to, from) {
        (Type::Quarters(small), Scalar::F32) => (small, Taken::Two),
        (Type::Quarters(small), Scalar::F16x2) => (small, Taken::Halves),
        (Type::Scalar(Scalar::F16x2), Scalar::F32) => (Small::F16, Taken::Two),
        (Type::Scalar(Scalar::Bf16x2), Scalar::F32) => (Small::Bf16, Taken::Two),
        (Type::Scalar(Scalar::Tf32), Scalar::F32) => (Small::Tf32, Taken::One),
        (Type::Scalar(Scalar::F16), Scalar::F32) if modified => (Small::F16, Taken::One),
        (Type::Scalar(Scalar::Bf16), Scalar::F32) if modified => (Small::Bf16, Taken::One),
        _ => return None,
    })
}

impl<'a> Body<'_, 'a> {
    pub(super) fn conversion(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        if parts.take("pack") {
            return self.saturated_pack(i, parts);
        }
        let (relu, finite) = (parts.take("relu"), parts.take("satfinite"));
        let whole = parts.pick(|part| Round::from_text(part).filter(|_| part.ends_with('i')));
        let round = whole.or_else(|| parts.pick(Round::from_text));
        let (ftz, sat) = (parts.take("ftz"), parts.take("sat"));
        let (Some(to), Some(from)) = (parts.pick(ty), parts.pick(ty)) else {
            return self.fail("`cvt` needs two types");
        };
        if let Some((small, taken)) = narrowing(to, from, relu || finite) {
            let how = Narrowing {
                to: small,
                taken,
                round: round.unwrap_or_default(),
                relu,
                finite,
            };
            return self.narrow(i, how, from);
        }
        if let (Type::Scalar(Scalar::F16x2), Type::Quarters(small)) = (to, from) {
            return self.typed(Op::WidenPair(small, relu), i);
        }
        let (Type::Scalar(to), Type::Scalar(from), false) = (to, from, relu || finite) else {
            return self.fail(format!("`{}` is not a conversion", i.opcode));
        };
        let floats = (to.is_float(), from.is_float());
        if whole.is_some() && floats == (true, true) {
            if to != from {
                return self.fail("rounding to a whole number keeps the type");
            }
            let round = round.unwrap_or_default();
            return self.typed(Op::Integral(to, Mode { round, ftz, sat }), i);
        }
        // Float to integer without a rounding mode rounds towards zero.
        let default = if floats == (false, true) {
            Round::Zero
        } else {
            Round::Nearest
        };
        let round = round.unwrap_or(default);
        self.typed(Op::Convert(to, from, Mode { round, ftz, sat }), i)
    }

    fn narrow(&mut self, i: &Instruction<'a>, how: Narrowing, from: Type) -> Result<()> {
        let quarter = matches!(how.to, Small::E4m3 | Small::E5m2);
        if quarter && !how.finite {
            return self.fail("floats of 8 bits need `.satfinite`");
        }
        let to = match (how.to, how.taken) {
            (Small::E4m3 | Small::E5m2, _) => Scalar::B16,
            (Small::F16 | Small::Bf16, Taken::One) => Scalar::B16,
            _ => Scalar::B32,
        };
        let from = match from {
            Type::Scalar(scalar) => scalar,
            Type::Quarters(_) => Scalar::B16,
        };
        let count = if how.taken == Taken::Two { 2 } else { 1 };
        self.plain(Op::Narrow(how), to, i, &[from; 2][..count])
    }

    /// `cvt.pack.sat`.
    fn saturated_pack(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let kind = parts.pick(|part| {
            Some(match part {
                "u16" => (16, false),
                "s16" => (16, true),
                "u8" => (8, false),
                "s8" => (8, true),
                "u4" => (4, false),
                "s4" => (4, true),
                "u2" => (2, false),
                "s2" => (2, true),
                _ => return None,
            })
        });
        let (Some((bits, signed)), true, true) = (kind, parts.take("sat"), parts.take("s32"))
        else {
            return self.fail("`cvt.pack` needs `.sat`, a type of 16 bits or less, and `.s32`");
        };
        let third = parts.take("b32");
        if third == (bits == 16) {
            return self.fail("`.b32` is for types of less than 16 bits");
        }
        let operands = self.exactly(i, if third { 4 } else { 3 })?;
        let a = self.source(&operands[1], Scalar::S32)?;
        let b = self.source(&operands[2], Scalar::S32)?;
        let c = match operands.get(3) {
            Some(operand) => self.source(operand, Scalar::B32)?,
            None => Slot(a.0),
        };
        let d = self.target(&operands[0], Scalar::B32)?;
        self.emit(Op::PackSat { bits, signed }, &[d, a, b, c]);
        Ok(())
    }
}
