//! `atom`, `red`, and memory ordering.

use super::data::MemoryOperand;
use super::form::{Atomic, Bank, Constant, Op, Slot};
use super::operand::Body;
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar, Space};

/// True if an operation exists for a type, alone or for `lanes` at once.
fn exists(op: Atomic, ty: Scalar, lanes: usize) -> bool {
    use Scalar::{B16, B32, B64, B128, Bf16, Bf16x2, F16, F16x2, F32, F64, S32, S64, U32, U64};
    let pairs = matches!(ty, F16x2 | Bf16x2);
    let halves = matches!(ty, F16 | Bf16);
    if lanes > 1 {
        return match op {
            Atomic::Add if ty == F32 => matches!(lanes, 2 | 4),
            Atomic::Add | Atomic::Min | Atomic::Max if pairs => matches!(lanes, 2 | 4),
            Atomic::Add | Atomic::Min | Atomic::Max if halves => matches!(lanes, 2 | 4 | 8),
            _ => false,
        };
    }
    let bits = matches!(ty, B32 | B64);
    let integers = matches!(ty, U32 | S32 | U64 | S64);
    match op {
        Atomic::And | Atomic::Or | Atomic::Xor => bits || integers,
        Atomic::Exch => bits || integers || matches!(ty, F32 | F64 | B128),
        Atomic::Cas => bits || integers || matches!(ty, B16 | F32 | F64 | B128),
        Atomic::Inc | Atomic::Dec => ty == U32,
        Atomic::Add => integers || matches!(ty, F32 | F64) || halves || pairs,
        Atomic::Min | Atomic::Max => integers,
    }
}

impl<'a> Body<'_, 'a> {
    /// Decodes it if it belongs to this family.
    pub(super) fn atomics(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        match parts.head {
            "atom" | "red" => self.atomic(i, parts)?,
            "membar" | "fence" => {
                self.exactly(i, 0)?;
                parts.ignore(&["gl", "cta", "sys", "gpu", "cluster"]);
                parts.ignore(&["sc", "acq_rel", "acquire", "release"]);
                parts.ignore(&["mbarrier_init", "proxy", "alias", "async", "global"]);
                parts.ignore(&["shared::cta", "shared::cluster", "async::generic"]);
                parts.ignore(&[
                    "sync_restrict::shared::cta",
                    "sync_restrict::shared::cluster",
                ]);
                self.emit(Op::Fence, &[]);
            }
            // Grids of a session run one after another, so earlier ones are done.
            "griddepcontrol" => {
                self.exactly(i, 0)?;
                parts.ignore(&["wait", "launch_dependents"]);
                self.emit(Op::Fence, &[]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn atomic(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let hinted = parts.take("L2::cache_hint");
        parts.ignore(&["cta", "cluster", "gpu", "sys", "relaxed"]);
        let before = parts.take("release");
        let both = parts.take("acq_rel");
        let after = parts.take("acquire");
        let exact = parts.take("noftz");
        let space = parts.pick(Space::from_text);
        let kind = parts.pick(Atomic::from_text);
        let kind = self.wanted(kind, "an atomic operation is missing")?;
        let lanes = usize::from(parts.lanes());
        let ty = self.ty(parts)?;
        let fetch = parts.head == "atom";
        let narrow = matches!(
            ty,
            Scalar::F16 | Scalar::F16x2 | Scalar::Bf16 | Scalar::Bf16x2
        );
        if !exists(kind, ty, lanes)
            || exact && !narrow
            || !fetch && matches!(kind, Atomic::Exch | Atomic::Cas)
        {
            return self.fail(format!("there is no `{}`", i.opcode));
        }
        if !matches!(space, None | Some(Space::Global | Space::Shared))
            || lanes > 1 && space == Some(Space::Shared)
        {
            return self.fail("atomics of this kind are not for this space");
        }
        let mut operands = i.operands.as_slice();
        if hinted && let [rest @ .., _] = operands {
            operands = rest;
        }
        if before || both {
            self.emit(Op::Fence, &[]);
        }
        self.exchange(i, (operands, space), (kind, ty), (lanes, fetch))?;
        if after || both {
            self.emit(Op::Fence, &[]);
        }
        Ok(())
    }

    fn exchange(
        &mut self,
        i: &Instruction<'a>,
        (operands, space): (&[Operand<'a>], Option<Space>),
        (op, ty): (Atomic, Scalar),
        (lanes, fetch): (usize, bool),
    ) -> Result<()> {
        let sources = if op == Atomic::Cas { 2 } else { 1 };
        let first = usize::from(fetch);
        let wanted = first + 1 + sources;
        if operands.len() != wanted {
            return self.fail(format!("`{}` takes {wanted} operands", i.opcode));
        }
        let memory = self.memory(operands.get(first), space)?;
        let at = memory.at;
        if ty == Scalar::B128 {
            return self.exchange_wide(operands, memory);
        }
        if lanes > 1 {
            let values = self.registers(operands.get(first + 1), lanes)?;
            let values = self.sources(values, ty)?;
            let results = if fetch {
                let results = self.registers(operands.first(), lanes)?;
                self.targets(results, ty)?
            } else {
                Vec::new()
            };
            let pooled = self.pooled(values.into_iter().chain(results));
            let op = Op::AtomicVector {
                at,
                op,
                ty,
                lanes: lanes as u8,
                fetch,
            };
            self.emit_pooled(op, &[memory.slot], memory.offset, pooled);
            return Ok(());
        }
        let b = self.source(&operands[first + 1], ty)?;
        let c = if sources == 2 {
            self.source(&operands[first + 2], ty)?
        } else {
            b
        };
        let d = if fetch {
            self.target(&operands[0], ty)?
        } else {
            Slot(0)
        };
        let op = Op::Atomic { at, op, ty, fetch };
        self.emit_with(op, &[d, memory.slot, b, c], memory.offset);
        Ok(())
    }

    /// `.b128`: registers are pairs of 64 bits.
    fn exchange_wide(&mut self, operands: &[Operand<'a>], memory: MemoryOperand) -> Result<()> {
        let [to, _, given @ ..] = operands else {
            return self.fail("a result, an address and values are wanted here");
        };
        let mut slots = Vec::new();
        for operand in [to].into_iter().chain(given) {
            slots.extend(self.halves(operand)?);
        }
        let cas = given.len() == 2;
        let pooled = self.pooled(slots);
        let none = self.constant(Bank::Word, Constant::Bits(0));
        let op = Op::AtomicWide { at: memory.at, cas };
        self.emit_pooled(op, &[memory.slot, none], memory.offset, pooled);
        Ok(())
    }
}
