//! Arithmetic and logic.

use super::form::{Carry, Float1, Float2, Int1, Int2, Int3, Mode, Op, Permute, Round, Slot, Test};
use super::legal;
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar};

/// Rounding, ftz and sat, ticked off.
fn mode(parts: &mut Parts<'_>) -> Mode {
    Mode {
        round: parts.pick(Round::from_text).unwrap_or_default(),
        ftz: parts.take("ftz"),
        sat: parts.take("sat"),
    }
}

impl<'a> Body<'_, 'a> {
    /// The operands of an instruction; there must be exactly `n`.
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

    /// Decodes a target of one type, then sources of others.
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

    /// Decodes an operation with known operand types: a target, then its sources.
    pub(super) fn typed(&mut self, op: Op, i: &Instruction<'a>) -> Result<()> {
        let signature = self.wanted(op.signature(), "an operation of other operands")?;
        self.plain(op, signature.target, i, signature.sources())
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
            "addc" | "subc" | "madc" => {
                let gives = parts.take("cc");
                self.carry(i, parts, true, gives)?;
            }
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

    /// Rejects modifiers that a type does not allow.
    fn checked(&self, i: &Instruction<'a>, head: &str, ty: Scalar) -> Result<()> {
        match legal::modifiers(head, ty) {
            Some(known) => self.only(i, known),
            None => self.fail(format!("`{}` is not supported for this type", i.opcode)),
        }
    }

    /// Rejects modifiers other than these.
    fn only(&self, i: &Instruction<'a>, known: &[&str]) -> Result<()> {
        let mut parts = i.opcode.split('.').skip(1);
        let other = |part: &&str| !known.contains(part) && Scalar::from_text(part).is_none();
        match parts.find(other) {
            Some(part) => self.fail(format!("`.{part}` of `{}` is not supported", i.opcode)),
            None => Ok(()),
        }
    }

    /// Decodes the operations that integers and floats share.
    fn general(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        if parts.take("cc") {
            let takes = parts.head.ends_with('c');
            return self.carry(i, parts, takes, true);
        }
        let modifiers = Modifiers::of(parts);
        let ty = self.ty(parts)?;
        self.checked(i, parts.head, ty)?;
        let op = if ty.is_float() {
            modifiers.float(parts.head, ty)
        } else {
            modifiers.integer(parts.head, ty)
        };
        match op {
            Some(op) => self.typed(op, i),
            None => self.fail(format!("`{}` is not for {ty}", parts.head)),
        }
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
        let kind = match parts.head {
            "add" | "addc" => Carry::Add,
            "sub" | "subc" => Carry::Sub,
            _ if high => Carry::MadHi,
            _ => Carry::MadLo,
        };
        self.typed(Op::Carry(kind, ty, takes, gives), i)
    }

    /// Decodes the operations that only integers have.
    fn integer(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        self.only(i, legal::of_integers(parts.head))?;
        if parts.head == "lop3" {
            self.ty(parts)?;
            return self.lop3(i, parts);
        }
        let (left, right) = (parts.take("l"), parts.take("r"));
        if parts.head == "shf" && left == right {
            return self.fail("`shf` needs `.l` or `.r`");
        }
        let modifiers = Modifiers {
            left,
            wrap: parts.take("wrap"),
            distance: parts.take("shiftamt"),
            permute: parts.pick(Permute::from_text).unwrap_or(Permute::Index),
            ..Modifiers::of(parts)
        };
        parts.take("clamp");
        let ty = self.ty(parts)?;
        let op = match parts.head {
            "dp4a" | "dp2a" => {
                let (a, b) = (ty.is_signed(), self.ty(parts)?.is_signed());
                let wide = parts.head == "dp2a";
                let high = modifiers.high;
                Some(Op::Int3(
                    if wide {
                        Int3::Dp2a(a, b, high)
                    } else {
                        Int3::Dp4a(a, b)
                    },
                    ty,
                ))
            }
            head => modifiers.integer(head, ty),
        };
        match op {
            Some(op) => self.typed(op, i),
            None => self.fail(format!("`{}` is not supported", parts.head)),
        }
    }

    fn function(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        if parts.head == "testp" {
            let test = self.wanted(parts.pick(Test::from_text), "`testp` needs a property")?;
            let ty = self.ty(parts)?;
            return self.typed(Op::Testp(test, ty), i);
        }
        let _ = parts.take("approx");
        let mode = mode(parts);
        let ty = self.ty(parts)?;
        self.checked(i, parts.head, ty)?;
        let op = match Float1::from_text(parts.head) {
            Some(op) => Op::Float1(op, ty, mode),
            None => Op::Float2(Float2::Copysign, ty, mode),
        };
        self.typed(op, i)
    }
}

/// The modifiers of arithmetic, ticked off.
#[derive(Default)]
struct Modifiers {
    wide: bool,
    high: bool,
    approximate: bool,
    mode: Mode,
    nan: bool,
    relu: bool,
    xorsign: bool,
    left: bool,
    wrap: bool,
    /// `.shiftamt`: the distance from the top instead of the position.
    distance: bool,
    permute: Permute,
}

impl Modifiers {
    /// Ticks off the modifiers that integers and floats share.
    fn of(parts: &mut Parts<'_>) -> Self {
        let (wide, high) = (parts.take("wide"), parts.take("hi"));
        parts.take("lo");
        let approximate = parts.take("approx");
        parts.take("full");
        Self {
            wide,
            high,
            approximate,
            mode: mode(parts),
            nan: parts.take("NaN"),
            relu: parts.take("relu"),
            xorsign: parts.take("xorsign") && parts.take("abs"),
            ..Self::default()
        }
    }

    /// The operation of an opcode on floats.
    fn float(&self, head: &str, ty: Scalar) -> Option<Op> {
        let two = match (head, self.nan, self.xorsign) {
            ("div", ..) if self.approximate && ty == Scalar::F32 => Some(Float2::DivApprox),
            ("min", true, true) => Some(Float2::MinNanXor),
            ("max", true, true) => Some(Float2::MaxNanXor),
            ("min", _, true) => Some(Float2::MinXor),
            ("max", _, true) => Some(Float2::MaxXor),
            ("min", true, _) => Some(Float2::MinNan),
            ("max", true, _) => Some(Float2::MaxNan),
            _ => Float2::from_text(head),
        };
        let one = || Float1::from_text(head).map(|op| Op::Float1(op, ty, self.mode));
        match head {
            "fma" | "mad" => Some(Op::Fma(ty, self.mode, self.relu)),
            _ => two.map(|op| Op::Float2(op, ty, self.mode)).or_else(one),
        }
    }

    /// The operation of an opcode on integers.
    fn integer(&self, head: &str, ty: Scalar) -> Option<Op> {
        let sat = self.mode.sat;
        let two = match head {
            "add" if sat => Some(Int2::AddSat),
            "sub" if sat => Some(Int2::SubSat),
            "mul" if self.wide => Some(Int2::MulWide),
            "mul" if self.high => Some(Int2::MulHi),
            "mul24" if self.high => Some(Int2::Mul24Hi),
            "mul24" => Some(Int2::Mul24Lo),
            "min" if self.relu => Some(Int2::MinRelu),
            "max" if self.relu => Some(Int2::MaxRelu),
            "bmsk" if self.wrap => Some(Int2::BmskWrap),
            "bmsk" => Some(Int2::BmskClamp),
            "szext" if self.wrap => Some(Int2::SzextWrap),
            "szext" => Some(Int2::SzextClamp),
            _ => Int2::from_text(head),
        };
        let one = || match head {
            "bfind" if self.distance => Some(Int1::BfindShift),
            _ => Int1::from_text(head),
        };
        let three = || match head {
            "mad" if self.wide => Some(Int3::MadWide),
            "mad" if self.high && sat => Some(Int3::MadHiSat),
            "mad" if self.high => Some(Int3::MadHi),
            "mad24" if self.high && sat => Some(Int3::Mad24HiSat),
            "mad24" if self.high => Some(Int3::Mad24Hi),
            "mad24" => Some(Int3::Mad24Lo),
            "shf" => Some(Int3::Shf(self.left, self.wrap)),
            "prmt" => Some(Int3::Prmt(self.permute)),
            _ => Int3::from_text(head),
        };
        let two = two.map(|op| Op::Int2(op, ty));
        let one = || one().map(|op| Op::Int1(op, ty));
        two.or_else(one)
            .or_else(|| three().map(|op| Op::Int3(op, ty)))
    }
}
