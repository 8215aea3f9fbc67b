//! `alloca`, `stacksave`, `stackrestore`: local memory behind a function's variables.
//!
//! Each thread has its own pointer to the first free byte, which grows upwards. A function that
//! uses the stack has a fixed number of bytes. An allocation that does not fit gets an address that
//! faults on use, as the ISA allows.

use super::form::{Bank, Compare, Int2, Op, Slot};
use super::operand::{Body, Stack};
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar, Statement};

/// Bytes that a function can allocate on its stack, for each thread.
const ROOM: u32 = 16 << 10;
/// An address without local memory.
const NOWHERE: u64 = 0xffff_0000;
/// The minimum alignment.
const ALIGN: u64 = 8;
/// The maximum alignment in the ISA.
const MOST_ALIGN: i64 = 1 << 23;

fn uses_it(statement: &Statement<'_>) -> bool {
    let Statement::Instruction(instruction) = statement else {
        return false;
    };
    let head = instruction.opcode.split('.').next();
    matches!(head, Some("alloca" | "stacksave" | "stackrestore"))
}

impl<'a> Body<'_, 'a> {
    /// Prepares the stack, if the function uses it.
    pub(super) fn open_stack(&mut self, body: &[Statement<'a>]) {
        if !body.iter().any(uses_it) {
            return;
        }
        let (free, end) = (self.fresh(Bank::Double), self.fresh(Bank::Double));
        let out = &self.builder.out;
        let (code, pool) = (out.code.len(), out.operands.len());
        self.registers.accesses().statement(code, pool);
        let at = self.emit(Op::FrameAddress, &[free]);
        self.emit(Op::FrameAddress, &[end]);
        for slot in [free, end] {
            self.registers.accesses().write(slot);
        }
        self.stack = Some(Stack { free, end, at });
    }

    /// Puts the stack behind the variables, now that all are known.
    pub(super) fn close_stack(&mut self) {
        if let Some(stack) = self.stack {
            let first = self.variables.stack(ROOM);
            let code = &mut self.builder.out.code;
            code[stack.at].imm = i64::from(first);
            code[stack.at + 1].imm = i64::from(first + ROOM);
        }
    }

    /// Decodes it if it belongs to this family.
    pub(super) fn stack(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        if !matches!(parts.head, "alloca" | "stacksave" | "stackrestore") {
            return Ok(false);
        }
        let Some(Stack { free, end, .. }) = self.stack else {
            return self.fail(format!("`{}` is not supported here", i.opcode));
        };
        let ty = match parts.ty() {
            // Addresses have 64 bits by default.
            None => Scalar::U64,
            Some(ty @ (Scalar::U32 | Scalar::U64)) => ty,
            Some(_) => return self.fail(format!("`{}` is for .u32 and .u64", parts.head)),
        };
        for slot in [free, end] {
            self.registers.accesses().read(slot);
        }
        match parts.head {
            "alloca" => self.allocated(i, ty, (free, end))?,
            "stacksave" => {
                let operands = self.exactly(i, 1)?;
                self.given(&operands[0], ty, free)?;
            }
            _ => {
                let operands = self.exactly(i, 1)?;
                let from = self.long(&operands[0], ty)?;
                self.emit(Op::Move64, &[free, from]);
            }
        }
        Ok(true)
    }

    /// A source of a type, as 64 bits.
    fn long(&mut self, operand: &Operand<'a>, ty: Scalar) -> Result<Slot> {
        let slot = self.source(operand, ty)?;
        if ty == Scalar::U64 {
            return Ok(slot);
        }
        let wide = self.fresh(Bank::Double);
        let widen = Op::widening();
        self.emit(widen, &[wide, slot]);
        Ok(wide)
    }

    /// Writes an address of 64 bits to a result of a type.
    fn given(&mut self, operand: &Operand<'a>, ty: Scalar, from: Slot) -> Result<()> {
        let to = self.target(operand, ty)?;
        if ty == Scalar::U64 {
            self.emit(Op::Move64, &[to, from]);
        } else {
            let cut = Op::narrowing();
            self.emit(cut, &[to, from]);
        }
        Ok(())
    }

    fn allocated(
        &mut self,
        i: &Instruction<'a>,
        ty: Scalar,
        (free, end): (Slot, Slot),
    ) -> Result<()> {
        let align = match i.operands.get(2) {
            None => ALIGN,
            Some(Operand::Integer(align)) if *align > 0 && *align <= MOST_ALIGN => {
                (*align as u64).max(ALIGN)
            }
            Some(_) => return self.fail("an alignment is a number up to 8388608"),
        };
        if !align.is_power_of_two() {
            return self.fail("an alignment is a power of two");
        }
        let operands = self.exactly(i, i.operands.len().clamp(2, 3))?;
        let size = self.long(&operands[1], ty)?;
        let number = |body: &mut Self, bits| body.bits(Bank::Double, bits);
        let two = |body: &mut Self, op, a: Slot, b: Slot| {
            let d = body.fresh(Bank::Double);
            body.emit(Op::Int2(op, Scalar::U64), &[d, a, b]);
            d
        };
        // A size beyond 32 bits never fits the stack; with this bound, sums stay below 64 bits.
        let most = number(self, u64::from(u32::MAX));
        let size = two(self, Int2::Min, size, most);
        let (low, mask) = (number(self, align - 1), number(self, !(align - 1)));
        let above = two(self, Int2::Add, free, low);
        let first = two(self, Int2::And, above, mask);
        let behind = two(self, Int2::Add, first, size);
        let fits = self.fresh(Bank::Pred);
        let test = Op::Setp(Compare::Le, Scalar::U64, false, None);
        self.emit(test, &[fits, Slot(0), behind, end, Slot(0)]);
        let nowhere = number(self, NOWHERE);
        let place = self.fresh(Bank::Double);
        self.emit(Op::Select64, &[place, first, nowhere, fits]);
        self.emit(Op::Select64, &[free, behind, free, fits]);
        self.given(&operands[0], ty, place)
    }
}
