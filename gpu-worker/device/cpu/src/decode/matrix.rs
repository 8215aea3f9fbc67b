//! `mma`, `wmma`, `ldmatrix`, `stmatrix`, `movmatrix`.

use super::form::{Op, Round, Slot};
use super::operand::Body;
use super::parts::Parts;
use super::tile::{Element, Family, Finish, Mma, Quads, Shape, Total};
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar};

/// Shapes of `mma` and the elements that have them.
const MMA: [(&str, &[Element]); 11] = {
    use Element::{B1, Bf16, E4m3, E5m2, F16, F64, S4, S8, Tf32, U4, U8};
    [
        ("m8n8k4", &[F16, F64]),
        ("m16n8k4", &[Tf32, F64]),
        ("m16n8k8", &[F16, Bf16, Tf32, F64]),
        ("m16n8k16", &[F16, Bf16, F64, S8, U8, E4m3, E5m2]),
        ("m8n8k16", &[S8, U8]),
        ("m16n8k32", &[S8, U8, S4, U4, E4m3, E5m2]),
        ("m8n8k32", &[S4, U4]),
        ("m16n8k64", &[S4, U4]),
        ("m8n8k128", &[B1]),
        ("m16n8k128", &[B1]),
        ("m16n8k256", &[B1]),
    ]
};

/// As [`MMA`], for `wmma`.
const WMMA: [(&str, &[Element]); 7] = {
    use Element::{B1, Bf16, F16, F64, S4, S8, Tf32, U4, U8};
    [
        ("m16n16k16", &[F16, Bf16, S8, U8]),
        ("m8n32k16", &[F16, Bf16, S8, U8]),
        ("m32n8k16", &[F16, Bf16, S8, U8]),
        ("m16n16k8", &[Tf32]),
        ("m8n8k4", &[F64]),
        ("m8n8k32", &[S4, U4]),
        ("m8n8k128", &[B1]),
    ]
};

/// Shapes of `wmma` and the elements that have them.
pub(super) fn wmma_shapes() -> impl Iterator<Item = &'static (&'static str, &'static [Element])> {
    WMMA.iter()
}

/// A type of a matrix instruction, in the order of the opcode.
#[derive(Clone, Copy)]
pub(super) struct Ty<'a>(&'a str);

impl Ty<'_> {
    pub(super) fn element(self) -> Option<Element> {
        Element::from_text(self.0)
    }

    pub(super) fn total(self) -> Option<Total> {
        Total::from_text(self.0)
    }
}

pub(super) fn bank(element: Element) -> Scalar {
    if element == Element::F64 {
        Scalar::F64
    } else {
        Scalar::B32
    }
}

pub(super) fn total_bank(total: Total) -> Scalar {
    if total == Total::F64 {
        Scalar::F64
    } else {
        Scalar::B32
    }
}

/// Registers of a `wmma` operand; f16 always takes eight.
pub(super) fn wmma_registers(element: Element, tiles: usize) -> usize {
    if element == Element::F16 { 8 } else { tiles }
}

impl<'a> Body<'_, 'a> {
    /// Decodes it if it belongs to this family.
    pub(super) fn matrix(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        match parts.head {
            "mma" => self.mma(i, parts)?,
            "wmma" => self.wmma(i, parts)?,
            "ldmatrix" => self.matrix_rows(i, parts, false)?,
            "stmatrix" => self.matrix_rows(i, parts, true)?,
            "movmatrix" => {
                parts.ignore(&["sync", "aligned"]);
                if !(parts.take("m8n8") && parts.take("trans") && parts.take("b16")) {
                    return self.fail("`movmatrix` is `.m8n8.trans.b16`");
                }
                let operands = self.exactly(i, 2)?;
                let a = self.source(&operands[1], Scalar::B32)?;
                let d = self.target(&operands[0], Scalar::B32)?;
                let all = self.all_lanes();
                self.emit(Op::MatrixTurn, &[all, d, a]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The registers of a vector operand; a single one may stand alone.
    pub(super) fn registers<'i>(
        &self,
        operand: Option<&'i Operand<'a>>,
        count: usize,
    ) -> Result<&'i [Operand<'a>]> {
        let list = match operand {
            Some(Operand::Vector(list)) => list.as_slice(),
            Some(one) => std::slice::from_ref(one),
            None => &[],
        };
        if list.len() != count {
            return self.fail(format!(
                "{count} registers are wanted here, not {}",
                list.len()
            ));
        }
        Ok(list)
    }

    pub(super) fn sources(&mut self, list: &[Operand<'a>], ty: Scalar) -> Result<Vec<Slot>> {
        list.iter().map(|one| self.source(one, ty)).collect()
    }

    pub(super) fn targets(&mut self, list: &[Operand<'a>], ty: Scalar) -> Result<Vec<Slot>> {
        list.iter().map(|one| self.target(one, ty)).collect()
    }

    /// The registers that a store reads, or that a load writes.
    pub(super) fn moved(
        &mut self,
        list: &[Operand<'a>],
        ty: Scalar,
        store: bool,
    ) -> Result<Vec<Slot>> {
        if store {
            self.sources(list, ty)
        } else {
            self.targets(list, ty)
        }
    }

    /// Puts slots into the pool and returns the index of the first.
    pub(super) fn pooled(&mut self, slots: impl IntoIterator<Item = Slot>) -> usize {
        let pool = &mut self.builder.out.operands;
        let at = pool.len();
        pool.extend(slots);
        at
    }

    /// Emits an instruction; its other operands begin at `pooled` in the pool.
    pub(super) fn emit_pooled(&mut self, op: Op, slots: &[Slot], imm: i64, pooled: usize) {
        let at = self.emit_with(op, slots, imm);
        self.builder.out.code[at].target = pooled as u32;
    }

    pub(super) fn shaped(&self, parts: &mut Parts<'a>) -> Result<(&'a str, Shape)> {
        match parts.pick(|part| Some((part, Shape::from_text(part)?))) {
            Some(shape) => Ok(shape),
            None => self.fail(format!("`{}` needs a shape", parts.head)),
        }
    }

    /// `.row` or `.col`: true for the latter.
    pub(super) fn by_column(&self, parts: &mut Parts<'a>) -> Result<bool> {
        let layout = parts.pick(|part| match part {
            "row" => Some(false),
            "col" => Some(true),
            _ => None,
        });
        match layout {
            Some(by_column) => Ok(by_column),
            None => self.fail(format!("`{}` needs a layout", parts.head)),
        }
    }

    pub(super) fn types(&self, parts: &mut Parts<'a>) -> Vec<Ty<'a>> {
        let known = |part: &'a str| {
            let is = Element::from_text(part).is_some() || Total::from_text(part).is_some();
            is.then_some(Ty(part))
        };
        std::iter::from_fn(|| parts.pick(known)).collect()
    }

    fn finish(parts: &mut Parts<'a>) -> Finish {
        if parts.take("popc") {
            return if parts.take("xor") {
                Finish::Xor
            } else {
                parts.take("and");
                Finish::And
            };
        }
        if parts.take("satfinite") {
            return Finish::Finite;
        }
        // `.rni` and similar modifiers, of three letters, are for conversions.
        match parts.pick(|part| Round::from_text(part).filter(|_| part.len() == 2)) {
            None | Some(Round::Nearest) => Finish::Plain,
            Some(round) => Finish::Rounded(round),
        }
    }

    /// Checks that elements, sums and finish are compatible.
    fn mixed(&self, i: &Instruction<'a>, mma: Mma) -> Result<()> {
        let family = mma.a.family();
        let same = mma.a == mma.b
            || matches!(family, Family::Integer) && mma.a.bits() == mma.b.bits()
            || matches!(family, Family::Single) && mma.a.bits() == 8 && mma.b.bits() == 8;
        let sums = |total: Total| match family {
            Family::Single => {
                total == Total::F32
                    || total == Total::F16 && (mma.a == Element::F16 || mma.a.bits() == 8)
            }
            Family::Double => total == Total::F64,
            Family::Integer | Family::Bit => total == Total::S32,
        };
        let finish = match mma.finish {
            Finish::Plain => family != Family::Bit,
            Finish::Finite => matches!(family, Family::Integer) || mma.a == Element::F16,
            Finish::Xor | Finish::And => family == Family::Bit,
            Finish::Rounded(_) => family == Family::Double,
        };
        if same && sums(mma.c) && sums(mma.d) && finish {
            Ok(())
        } else {
            self.fail(format!(
                "the types and modifiers of `{}` do not go together",
                i.opcode
            ))
        }
    }

    /// The multiplication named by shape and types.
    pub(super) fn product(
        &self,
        i: &Instruction<'a>,
        (name, shape): (&str, Shape),
        types: [Ty<'a>; 4],
        (finish, shapes): (Finish, &[(&str, &[Element])]),
    ) -> Result<Mma> {
        let [d, a, b, c] = types;
        let (Some(d), Some(a), Some(b), Some(c)) = (d.total(), a.element(), b.element(), c.total())
        else {
            return self.fail(format!("`{}` takes other types", i.opcode));
        };
        let fits = |(known, elements): &(&str, &[Element])| *known == name && elements.contains(&a);
        if !shapes.iter().any(fits) {
            return self.fail(format!(
                "`{}` has no shape `.{name}` of this type",
                i.opcode
            ));
        }
        let mma = Mma {
            tiles: shape.tiles(a),
            a,
            b,
            c,
            d,
            finish,
        };
        self.mixed(i, mma)?;
        Ok(mma)
    }

    fn mma(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        parts.ignore(&["sync", "aligned"]);
        let finish = Self::finish(parts);
        if parts.take("sp") || parts.take("sp::ordered_metadata") {
            return self.sparse(i, parts, finish);
        }
        let shape = self.shaped(parts)?;
        let (a_by_column, b_by_column) = (self.by_column(parts)?, self.by_column(parts)?);
        let types = self.types(parts);
        let Ok(types) = <[Ty<'a>; 4]>::try_from(types) else {
            return self.fail("`mma` takes the types of D, A, B and C");
        };
        let mma = self.product(i, shape, types, (finish, &MMA))?;
        self.exactly(i, 4)?;
        if shape.0 == "m8n8k4" && mma.a == Element::F16 {
            return self.quads(i, mma, [a_by_column, b_by_column]);
        }
        if a_by_column || !b_by_column {
            return self.fail("this shape is `.row.col` only");
        }
        let counts = (mma.tiles.a_registers(), mma.tiles.b_registers());
        self.multiplication(i, mma, counts)
    }

    /// Emits a multiplication with the given numbers of registers for A and B.
    fn multiplication(
        &mut self,
        i: &Instruction<'a>,
        mma: Mma,
        (a_given, b_given): (usize, usize),
    ) -> Result<()> {
        let sums = mma.tiles.sums();
        let list = |at: usize| i.operands.get(at);
        let a = self.registers(list(1), a_given)?;
        let b = self.registers(list(2), b_given)?;
        let c = self.registers(list(3), sums * mma.c.registers() as usize)?;
        let d = self.registers(list(0), sums * mma.d.registers() as usize)?;
        // Registers of a fragment beyond its tiles repeat them.
        let a = self.sources(&a[..mma.tiles.a_registers()], bank(mma.a))?;
        let b = self.sources(&b[..mma.tiles.b_registers()], bank(mma.b))?;
        let c = self.sources(c, total_bank(mma.c))?;
        let d = self.targets(d, total_bank(mma.d))?;
        let at = self.pooled([d, a, b, c].into_iter().flatten());
        let all = self.all_lanes();
        self.emit_with(Op::Mma(mma), &[all], at as i64);
        Ok(())
    }

    fn quads(&mut self, i: &Instruction<'a>, mma: Mma, by_column: [bool; 2]) -> Result<()> {
        let Mma { c, d, finish, .. } = mma;
        if finish != Finish::Plain {
            return self.fail("`mma.m8n8k4` of halves has no modifiers");
        }
        let count = |total: Total| if total == Total::F16 { 4 } else { 8 };
        let list = |at: usize| i.operands.get(at);
        let (to, from) = (
            self.registers(list(0), count(d))?,
            self.registers(list(3), count(c))?,
        );
        let (left, right) = (self.registers(list(1), 2)?, self.registers(list(2), 2)?);
        let mut slots = self.sources(left, Scalar::B32)?;
        slots.extend(self.sources(right, Scalar::B32)?);
        slots.extend(self.sources(from, Scalar::B32)?);
        let targets = self.targets(to, Scalar::B32)?;
        let at = self.pooled(targets.into_iter().chain(slots));
        let all = self.all_lanes();
        let quads = Quads {
            a_by_column: by_column[0],
            b_by_column: by_column[1],
            c,
            d,
        };
        self.emit_with(Op::MmaQuads(quads), &[all], at as i64);
        Ok(())
    }

    fn wmma(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        parts.ignore(&["sync", "aligned"]);
        if parts.take("load") {
            return self.fragment(i, parts, false);
        }
        if parts.take("store") {
            return self.fragment(i, parts, true);
        }
        if !parts.take("mma") {
            return self.fail("`wmma` loads, stores or multiplies");
        }
        let finish = Self::finish(parts);
        let shape = self.shaped(parts)?;
        let (a_by_column, b_by_column) = (self.by_column(parts)?, self.by_column(parts)?);
        let types = self.types(parts);
        let types = match *types.as_slice() {
            [d, c] => [d, Ty("f16"), Ty("f16"), c],
            [d, a, b, c] => [d, a, b, c],
            _ => return self.fail("`wmma.mma` takes the types of D, A, B and C, or of D and C"),
        };
        let mma = self.product(i, shape, types, (finish, &WMMA))?;
        if mma.a.bits() < 8 && (a_by_column || !b_by_column) {
            return self.fail("this shape is `.row.col` only");
        }
        self.exactly(i, 4)?;
        let counts = (
            wmma_registers(mma.a, mma.tiles.a_registers()),
            wmma_registers(mma.b, mma.tiles.b_registers()),
        );
        self.multiplication(i, mma, counts)
    }
}
