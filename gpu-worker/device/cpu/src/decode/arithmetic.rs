//! Arithmetic and logic.

use super::form::{
    Carry, Float1, Float2, Int1, Int2, Int3, Logic, Mode, Op, Permute, Round, Slot, Test,
};

use super::legal;
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildError;
use ptx::{Instruction, Operand, Scalar};

type Result<T> = std::result::Result<T, BuildError>;

/// Rounding, ftz and sat, ticked off.
fn mode(parts: &mut Parts<'_>) -> Mode {
    let round = parts.pick(|part| {
        Some(match part {
            "rn" | "rni" => Round::Nearest,
            "rz" | "rzi" => Round::Zero,
            "rm" | "rmi" => Round::Down,
            "rp" | "rpi" => Round::Up,
            "rna" => Round::Away,
            _ => return None,
        })
    });
    Mode {
        round: round.unwrap_or_default(),
        ftz: parts.take("ftz"),
        sat: parts.take("sat"),
    }
}

pub(super) fn logic(part: &str) -> Option<Logic> {
    Some(match part {
        "and" => Logic::And,
        "or" => Logic::Or,
        "xor" => Logic::Xor,
        _ => return None,
    })
}

impl<'a> Body<'_, 'a> {
    /// The operands of an instruction, exactly `n`.
    pub(super) fn exactly<'i>(
        &self,
        instruction: &'i Instruction<'a>,
        n: usize,
    ) -> Result<&'i [Operand<'a>]> {
        let have = instruction.operands.len();
        if have != n {
            return self.fail(format!(
                "`{}` takes {n} operands, not {have}",
                instruction.opcode
            ));
        }
        Ok(&instruction.operands)
    }

    /// The type of an instruction.
    pub(super) fn ty(&self, parts: &mut Parts<'a>) -> Result<Scalar> {
        match parts.ty() {
            Some(ty) => Ok(ty),
            None => self.fail(format!("`{}` needs a type", parts.head)),
        }
    }

    /// Target of one type, then sources of others.
    pub(super) fn plain(
        &mut self,
        op: Op,
        to: Scalar,
        i: &Instruction<'a>,
        from: &[Scalar],
    ) -> Result<()> {
        let operands = self.exactly(i, 1 + from.len())?;
        let mut slots = [Slot(0); 6];
        for (at, ty) in from.iter().enumerate() {
            slots[1 + at] = self.source(&operands[1 + at], *ty)?;
        }
        slots[0] = self.target(&operands[0], to)?;
        self.emit(op, &slots[..=from.len()]);
        Ok(())
    }

    /// Decodes it if it belongs to this family.
    pub(super) fn arithmetic(
        &mut self,
        i: &Instruction<'a>,
        parts: &mut Parts<'a>,
    ) -> Result<bool> {
        match parts.head {
            "add" | "sub" | "mul" | "mad" | "fma" | "div" | "min" | "max" | "abs" | "neg" => {
                self.general(i, parts)?;
            }
            "addc" | "subc" | "madc" => self.carried(i, parts, true)?,
            "rem" | "mul24" | "mad24" | "sad" | "popc" | "clz" | "brev" | "bfind" | "bfe"
            | "bfi" | "shl" | "shr" | "shf" | "prmt" | "lop3" | "dp4a" | "dp2a" | "bmsk"
            | "fns" | "szext" | "cnot" => self.integer(i, parts)?,
            "and" | "or" | "xor" | "not" => self.logical(i, parts)?,
            "rcp" | "sqrt" | "rsqrt" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign"
            | "testp" => self.function(i, parts)?,
            "setp" | "set" => self.comparison(i, parts)?,
            "selp" | "slct" => self.selection(i, parts)?,
            "cvt" => self.conversion(i, parts)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Refuses modifiers that do not go with a type.
    fn checked(&self, i: &Instruction<'a>, head: &str, ty: Scalar) -> Result<()> {
        match legal::modifiers(head, ty) {
            Some(known) => self.only(i, known),
            None => self.fail(format!("`{}` is not supported for this type", i.opcode)),
        }
    }

    /// Refuses modifiers other than these.
    fn only(&self, i: &Instruction<'a>, known: &[&str]) -> Result<()> {
        let mut parts = i.opcode.split('.').skip(1);
        let other = |part: &&str| !known.contains(part) && Scalar::from_text(part).is_none();
        match parts.find(other) {
            Some(part) => self.fail(format!("`.{part}` of `{}` is not supported", i.opcode)),
            None => Ok(()),
        }
    }

    /// What integers and floats share.
    fn general(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let carry = parts.take("cc");
        if carry {
            return self.carried_out(i, parts);
        }
        let wide = parts.take("wide");
        let high = parts.take("hi");
        parts.take("lo");
        let approximate = parts.take("approx");
        parts.take("full");
        let mode = mode(parts);
        let nan = parts.take("NaN");
        let relu = parts.take("relu");
        let xorsign = parts.take("xorsign") && parts.take("abs");
        let ty = self.ty(parts)?;
        self.checked(i, parts.head, ty)?;
        if ty.is_float() {
            let op = match parts.head {
                "add" => Op::Float2(Float2::Add, ty, mode),
                "sub" => Op::Float2(Float2::Sub, ty, mode),
                "mul" => Op::Float2(Float2::Mul, ty, mode),
                "div" if approximate && ty == Scalar::F32 => {
                    Op::Float2(Float2::DivApprox, ty, mode)
                }
                "div" => Op::Float2(Float2::Div, ty, mode),
                "min" if nan && xorsign => Op::Float2(Float2::MinNanXor, ty, mode),
                "max" if nan && xorsign => Op::Float2(Float2::MaxNanXor, ty, mode),
                "min" if xorsign => Op::Float2(Float2::MinXor, ty, mode),
                "max" if xorsign => Op::Float2(Float2::MaxXor, ty, mode),
                "min" if nan => Op::Float2(Float2::MinNan, ty, mode),
                "max" if nan => Op::Float2(Float2::MaxNan, ty, mode),
                "min" => Op::Float2(Float2::Min, ty, mode),
                "max" => Op::Float2(Float2::Max, ty, mode),
                "abs" => Op::Float1(Float1::Abs, ty, mode),
                "neg" => Op::Float1(Float1::Neg, ty, mode),
                _ => Op::Fma(ty, mode, relu),
            };
            let sources = match op {
                Op::Float1(..) => 1,
                Op::Float2(..) => 2,
                _ => 3,
            };
            return self.plain(op, ty, i, &[ty; 3][..sources]);
        }
        let sat = mode.sat;
        let twice = match ty {
            Scalar::U16 => Scalar::U32,
            Scalar::S16 => Scalar::S32,
            Scalar::U32 => Scalar::U64,
            _ => Scalar::S64,
        };
        let (op, to, sources): (_, _, &[Scalar]) = match parts.head {
            "add" if sat => (Op::Int2(Int2::AddSat, ty), ty, &[ty; 2]),
            "add" => (Op::Int2(Int2::Add, ty), ty, &[ty; 2]),
            "sub" if sat => (Op::Int2(Int2::SubSat, ty), ty, &[ty; 2]),
            "sub" => (Op::Int2(Int2::Sub, ty), ty, &[ty; 2]),
            "mul" if wide => (Op::Int2(Int2::MulWide, ty), twice, &[ty; 2]),
            "mul" if high => (Op::Int2(Int2::MulHi, ty), ty, &[ty; 2]),
            "mul" => (Op::Int2(Int2::Mul, ty), ty, &[ty; 2]),
            "mad" if wide => (Op::Int3(Int3::MadWide, ty), twice, &[ty, ty, twice]),
            "mad" if high && sat => (Op::Int3(Int3::MadHiSat, ty), ty, &[ty; 3]),
            "mad" if high => (Op::Int3(Int3::MadHi, ty), ty, &[ty; 3]),
            "mad" => (Op::Int3(Int3::Mad, ty), ty, &[ty; 3]),
            "div" => (Op::Int2(Int2::Div, ty), ty, &[ty; 2]),
            "min" if relu => (Op::Int2(Int2::MinRelu, ty), ty, &[ty; 2]),
            "max" if relu => (Op::Int2(Int2::MaxRelu, ty), ty, &[ty; 2]),
            "min" => (Op::Int2(Int2::Min, ty), ty, &[ty; 2]),
            "max" => (Op::Int2(Int2::Max, ty), ty, &[ty; 2]),
            "abs" => (Op::Int1(Int1::Abs, ty), ty, &[ty; 1]),
            "neg" => (Op::Int1(Int1::Neg, ty), ty, &[ty; 1]),
            _ => return self.fail(format!("`{}` is not for {ty}", parts.head)),
        };
        self.plain(op, to, i, sources)
    }

    fn carried_out(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let (takes, gives) = (parts.head.ends_with('c'), true);
        self.carry(i, parts, takes, gives)
    }

    fn carried(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>, takes: bool) -> Result<()> {
        let gives = parts.take("cc");
        self.carry(i, parts, takes, gives)
    }

    fn carry(
        &mut self,
        i: &Instruction<'a>,
        parts: &mut Parts<'a>,
        takes: bool,
        gives: bool,
    ) -> Result<()> {
        let high = parts.take("hi");
        parts.take("lo");
        let ty = self.ty(parts)?;
        if !matches!(ty, Scalar::U32 | Scalar::S32 | Scalar::U64 | Scalar::S64) {
            return self.fail(format!("`{}` is not supported for this type", i.opcode));
        }
        let (kind, sources) = match parts.head {
            "add" | "addc" => (Carry::Add, 2),
            "sub" | "subc" => (Carry::Sub, 2),
            _ if high => (Carry::MadHi, 3),
            _ => (Carry::MadLo, 3),
        };
        self.plain(
            Op::Carry(kind, ty, takes, gives),
            ty,
            i,
            &[ty; 3][..sources],
        )
    }

    fn integer(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        self.only(i, legal::of_integers(parts.head))?;
        let high = parts.take("hi");
        parts.take("lo");
        let wrap = parts.take("wrap");
        parts.take("clamp");
        let (left, right) = (parts.take("l"), parts.take("r"));
        let shift = parts.take("shiftamt");
        let sat = parts.head == "mad24" && parts.take("sat");
        let permute = parts.pick(|part| {
            Some(match part {
                "f4e" => Permute::F4e,
                "b4e" => Permute::B4e,
                "rc8" => Permute::Rc8,
                "ecl" => Permute::Ecl,
                "ecr" => Permute::Ecr,
                "rc16" => Permute::Rc16,
                _ => return None,
            })
        });
        let ty = self.ty(parts)?;
        let word = Scalar::U32;
        let (op, to, sources): (_, _, &[Scalar]) = match parts.head {
            "rem" => (Op::Int2(Int2::Rem, ty), ty, &[ty; 2]),
            "mul24" if high => (Op::Int2(Int2::Mul24Hi, ty), ty, &[ty; 2]),
            "mul24" => (Op::Int2(Int2::Mul24Lo, ty), ty, &[ty; 2]),
            "mad24" if high && sat => (Op::Int3(Int3::Mad24HiSat, ty), ty, &[ty; 3]),
            "mad24" if high => (Op::Int3(Int3::Mad24Hi, ty), ty, &[ty; 3]),
            "mad24" => (Op::Int3(Int3::Mad24Lo, ty), ty, &[ty; 3]),
            "sad" => (Op::Int3(Int3::Sad, ty), ty, &[ty; 3]),
            "popc" => (Op::Int1(Int1::Popc, ty), word, &[ty; 1]),
            "clz" => (Op::Int1(Int1::Clz, ty), word, &[ty; 1]),
            "brev" => (Op::Int1(Int1::Brev, ty), ty, &[ty; 1]),
            "cnot" => (Op::Int1(Int1::Cnot, ty), ty, &[ty; 1]),
            "bfind" if shift => (Op::Int1(Int1::BfindShift, ty), word, &[ty; 1]),
            "bfind" => (Op::Int1(Int1::Bfind, ty), word, &[ty; 1]),
            "bfe" => (Op::Int3(Int3::Bfe, ty), ty, &[ty, word, word]),
            "fns" => (Op::Int3(Int3::Fns, ty), ty, &[ty, word, Scalar::S32]),
            "bfi" => (Op::Int3(Int3::Bfi, ty), ty, &[ty, ty, word, word]),
            "shl" => (Op::Int2(Int2::Shl, ty), ty, &[ty, word]),
            "shr" => (Op::Int2(Int2::Shr, ty), ty, &[ty, word]),
            "shf" => {
                let kind = match (left, wrap) {
                    (true, true) => Int3::ShfLeftWrap,
                    (true, false) => Int3::ShfLeftClamp,
                    (false, true) => Int3::ShfRightWrap,
                    (false, false) => Int3::ShfRightClamp,
                };
                if left == right {
                    return self.fail("`shf` needs `.l` or `.r`");
                }
                (Op::Int3(kind, ty), ty, &[word; 3])
            }
            "prmt" => {
                let kind = Int3::Prmt(permute.unwrap_or(Permute::Index));
                (Op::Int3(kind, ty), ty, &[word; 3])
            }
            "bmsk" if wrap => (Op::Int2(Int2::BmskWrap, ty), ty, &[word; 2]),
            "bmsk" => (Op::Int2(Int2::BmskClamp, ty), ty, &[word; 2]),
            "szext" if wrap => (Op::Int2(Int2::SzextWrap, ty), ty, &[ty, word]),
            "szext" => (Op::Int2(Int2::SzextClamp, ty), ty, &[ty, word]),
            "lop3" => return self.lop3(i, parts),
            "dp4a" | "dp2a" => {
                let second = self.ty(parts)?;
                let signs = (ty.is_signed(), second.is_signed());
                let kind = if parts.head == "dp4a" {
                    Int3::Dp4a(signs.0, signs.1)
                } else {
                    Int3::Dp2a(signs.0, signs.1, high)
                };
                (Op::Int3(kind, ty), word, &[word; 3])
            }
            _ => return self.fail(format!("`{}` is not supported", parts.head)),
        };
        self.plain(op, to, i, sources)
    }

    fn function(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        if parts.head == "testp" {
            let test = parts.pick(|part| {
                Some(match part {
                    "finite" => Test::Finite,
                    "infinite" => Test::Infinite,
                    "number" => Test::Number,
                    "notanumber" => Test::NotANumber,
                    "normal" => Test::Normal,
                    "subnormal" => Test::Subnormal,
                    _ => return None,
                })
            });
            let Some(test) = test else {
                return self.fail("`testp` needs a property");
            };
            let ty = self.ty(parts)?;
            return self.plain(Op::Testp(test, ty), Scalar::Pred, i, &[ty]);
        }
        let _ = parts.take("approx");
        let mode = mode(parts);
        let ty = self.ty(parts)?;
        self.checked(i, parts.head, ty)?;
        let op = match parts.head {
            "rcp" => Float1::Rcp,
            "sqrt" => Float1::Sqrt,
            "rsqrt" => Float1::Rsqrt,
            "ex2" => Float1::Ex2,
            "lg2" => Float1::Lg2,
            "sin" => Float1::Sin,
            "cos" => Float1::Cos,
            "tanh" => Float1::Tanh,
            _ => return self.plain(Op::Float2(Float2::Copysign, ty, mode), ty, i, &[ty; 2]),
        };
        self.plain(Op::Float1(op, ty, mode), ty, i, &[ty])
    }
}
