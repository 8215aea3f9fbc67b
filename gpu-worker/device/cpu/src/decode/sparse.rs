//! `mma.sp`: products with a sparse A.

use super::form::{Element, Finish, Op, Shape, Sparse};
use super::matrix::{bank, total_bank};
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar};

/// Shapes and the elements that have them.
const SHAPES: [(&str, &[Element]); 5] = {
    use Element::{Bf16, E4m3, E5m2, F16, S4, S8, Tf32, U4, U8};
    [
        ("m16n8k8", &[Tf32]),
        ("m16n8k16", &[F16, Bf16, Tf32]),
        ("m16n8k32", &[F16, Bf16, S8, U8]),
        ("m16n8k64", &[S8, U8, E4m3, E5m2, S4, U4]),
        ("m16n8k128", &[S4, U4]),
    ]
};

impl<'a> Body<'_, 'a> {
    pub(super) fn sparse(
        &mut self,
        i: &Instruction<'a>,
        parts: &mut Parts<'a>,
        finish: Finish,
    ) -> Result<()> {
        let (name, whole) = self.shaped(parts)?;
        if self.by_column(parts)? || !self.by_column(parts)? {
            return self.fail("`mma.sp` is `.row.col` only");
        }
        let types = self.types(parts);
        let Ok(types) = <[_; 4]>::try_from(types) else {
            return self.fail("`mma.sp` takes the types of D, A, B and C");
        };
        // A is stored with half as many columns.
        let stored = Shape {
            k: whole.k / 2,
            ..whole
        };
        let mma = self.product(i, (name, stored), types, (finish, &SHAPES))?;
        let operands = self.exactly(i, 6)?;
        // Two bits for each element, or unit of elements, of sixteen rows, in eight groups of
        // lanes.
        let lanes = match mma.a.bits() {
            4 => whole.k / 32,
            32 => whole.k / 8,
            _ => whole.k / 16,
        } as u8;
        let Operand::Integer(selector) = operands[5] else {
            return self.fail("the selector of `mma.sp` is a number");
        };
        let first_lane = match u8::try_from(selector) {
            Ok(selector) if selector < 4 / lanes => selector * lanes,
            _ => return self.fail("no lanes have this selector"),
        };
        let count = mma.tiles.sums();
        let depth = usize::from(mma.tiles.depth);
        let a = self.registers(operands.get(1), mma.tiles.a_registers())?;
        let b = self.registers(operands.get(2), 2 * depth)?;
        let c = self.registers(operands.get(3), count * mma.c.registers() as usize)?;
        let d = self.registers(operands.first(), count * mma.d.registers() as usize)?;
        let (a, b) = (self.sources(a, bank(mma.a))?, self.sources(b, bank(mma.b))?);
        let c = self.sources(c, total_bank(mma.c))?;
        let numbers = self.source(&operands[4], Scalar::B32)?;
        let d = self.targets(d, total_bank(mma.d))?;
        let at = self.pooled([d, a, b, c, vec![numbers]].into_iter().flatten());
        let all = self.all_lanes();
        let sparse = Sparse { mma, first_lane };
        self.emit_with(Op::MmaSparse(sparse), &[all], at as i64);
        Ok(())
    }
}
