//! Moves between memory and fragments: `wmma.load`, `wmma.store`, `ldmatrix`, `stmatrix`.

use super::form::{Bank, Constant, Op};
use super::matrix::{Ty, bank, total_bank, wmma_registers, wmma_shapes};
use super::operand::Body;
use super::parts::Parts;
use super::tile::{Element, Family, Fragment, Role, Shape, Tiles, Total};
use crate::error::BuildResult as Result;
use ptx::{Instruction, Scalar, Space};

impl<'a> Body<'_, 'a> {
    pub(super) fn fragment(
        &mut self,
        i: &Instruction<'a>,
        parts: &mut Parts<'a>,
        write: bool,
    ) -> Result<()> {
        let role = match parts.pick(|part| matches!(part, "a" | "b" | "c" | "d").then_some(part)) {
            Some("a") if !write => Role::A,
            Some("b") if !write => Role::B,
            Some("c") if !write => Role::Sum,
            Some("d") if write => Role::Sum,
            _ => return self.fail("`wmma` loads a, b or c and stores d"),
        };
        let by_column = self.by_column(parts)?;
        let (name, shape) = self.shaped(parts)?;
        let space = parts.pick(Space::from_text);
        let types = self.types(parts);
        let [ty] = *types.as_slice() else {
            return self.fail(format!("`{}` needs one type", i.opcode));
        };
        let (fragment, scalar) = self.shape_of_fragment(i, (name, shape), (role, ty), by_column)?;
        let (address, list) = if write { (0, 1) } else { (1, 0) };
        let registers = self.registers(i.operands.get(list), usize::from(fragment.registers))?;
        let memory = self.memory(i.operands.get(address), space)?;
        let (lines, length) = fragment.straight();
        let stride = match i.operands.get(2) {
            Some(stride) => self.source(stride, Scalar::U32)?,
            None => {
                let length = if fragment.crossed { lines } else { length };
                self.constant(Bank::Word, Constant::Bits(length as u64))
            }
        };
        let slots = self.moved(registers, scalar, write)?;
        let pooled = self.pooled(slots);
        let all = self.all_lanes();
        let op = Op::MatrixLines {
            fragment,
            at: memory.at,
            write,
        };
        self.emit_pooled(op, &[all, memory.slot, stride], memory.offset, pooled);
        Ok(())
    }

    /// The fragment that a `wmma.load` or `wmma.store` moves, and the type of its registers.
    fn shape_of_fragment(
        &self,
        i: &Instruction<'a>,
        (name, shape): (&str, Shape),
        (role, ty): (Role, Ty<'a>),
        by_column: bool,
    ) -> Result<(Fragment, Scalar)> {
        let known = || wmma_shapes().filter(|(known, _)| *known == name);
        let bad = || {
            self.fail(format!(
                "`{}` has no shape `.{name}` of this type",
                i.opcode
            ))
        };
        if role == Role::Sum {
            let Some(total) = ty.total() else {
                return bad();
            };
            let fits = |element: &Element| match element.family() {
                Family::Single => {
                    total == Total::F32 || *element == Element::F16 && total == Total::F16
                }
                Family::Double => total == Total::F64,
                Family::Integer | Family::Bit => total == Total::S32,
            };
            if !known().any(|(_, elements)| elements.iter().any(fits)) {
                return bad();
            }
            let tiles = Tiles {
                depth: 1,
                ..shape.tiles(Element::F64)
            };
            let fragment = Fragment {
                role,
                bits: (8 * total.size()) as u8,
                crossed: by_column,
                tiles,
                registers: (tiles.sums() * total.registers() as usize) as u8,
            };
            return Ok((fragment, total_bank(total)));
        }
        let element = match ty.element() {
            Some(element) if known().any(|(_, elements)| elements.contains(&element)) => element,
            _ => return bad(),
        };
        let tiles = shape.tiles(element);
        let (count, crossed) = if role == Role::A {
            (tiles.a_registers(), by_column)
        } else {
            (tiles.b_registers(), !by_column)
        };
        if element.bits() < 8 && crossed {
            return self.fail("this shape is `.row` for A and `.col` for B only");
        }
        let fragment = Fragment {
            role,
            bits: element.bits() as u8,
            crossed,
            tiles,
            registers: wmma_registers(element, count) as u8,
        };
        Ok((fragment, bank(element)))
    }

    pub(super) fn matrix_rows(
        &mut self,
        i: &Instruction<'a>,
        parts: &mut Parts<'a>,
        write: bool,
    ) -> Result<()> {
        parts.ignore(&["sync", "aligned"]);
        if !(parts.take("m8n8") && parts.take("b16")) {
            return self.fail(format!("`{}` moves `.m8n8` of `.b16` only", parts.head));
        }
        let turned = parts.take("trans");
        let count = parts.pick(|part| match part {
            "x1" => Some(1_u8),
            "x2" => Some(2),
            "x4" => Some(4),
            _ => None,
        });
        let Some(count) = count else {
            return self.fail(format!("`{}` needs `.x1`, `.x2` or `.x4`", parts.head));
        };
        let space = parts.pick(Space::from_text);
        self.exactly(i, 2)?;
        let (address, list) = if write { (0, 1) } else { (1, 0) };
        let registers = self.registers(i.operands.get(list), usize::from(count))?;
        let memory = self.memory(i.operands.get(address), space)?;
        let mut slots = [self.all_lanes(); 6];
        slots[1] = memory.slot;
        let held = self.moved(registers, Scalar::B32, write)?;
        slots[2..2 + held.len()].copy_from_slice(&held);
        let op = Op::MatrixRows {
            count,
            turned,
            at: memory.at,
            write,
        };
        self.emit_with(op, &slots, memory.offset);
        Ok(())
    }
}
