//! Asynchronous copies, memory barrier objects, hints to caches, and clusters of one block.

use super::form::{Bank, Constant, Limit, Op, Slot, Wait};
use super::operand::{Body, Named};
use super::parts::Parts;
use crate::error::BuildResult as Result;
use ptx::{Instruction, Operand, Scalar, Space};

/// Parts that hints may have besides their space.
const HINTS: [&str; 12] = [
    "L1",
    "L2",
    "L2::evict_last",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_unchanged",
    "L1::evict_last",
    "L1::evict_normal",
    "fractional",
    "range",
    "cvt",
    "b64",
];

/// Operations on a memory barrier object, except `pending_count`.
const BARRIER_VERBS: [&str; 8] = [
    "init",
    "inval",
    "expect_tx",
    "complete_tx",
    "arrive",
    "arrive_drop",
    "test_wait",
    "try_wait",
];

impl<'a> Body<'_, 'a> {
    /// Decodes it if it belongs to this family.
    pub(super) fn copies(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<bool> {
        match parts.head {
            "cp" => self.copy(i, parts)?,
            "mbarrier" => self.memory_barrier(i, parts)?,
            "prefetch" | "prefetchu" | "applypriority" | "discard" => {
                parts.pick(Space::from_text);
                parts.ignore(&HINTS);
                self.address(i.operands.first())?;
                self.emit(Op::Nothing, &[]);
            }
            // A policy is opaque and unused.
            "createpolicy" => {
                parts.pick(Space::from_text);
                parts.ignore(&HINTS);
                let Some(to) = i.operands.first() else {
                    return self.fail("`createpolicy` takes a register");
                };
                let none = self.constant(Bank::Double, Constant::Bits(0));
                let d = self.target(to, Scalar::B64)?;
                self.emit(Op::Move64, &[d, none]);
            }
            // Grids of a session run one after the other, and registers are not a shared resource.
            "griddepcontrol" => {
                if !parts.take("wait") && !parts.take("launch_dependents") {
                    return self.fail("`griddepcontrol` waits or launches dependents");
                }
                self.exactly(i, 0)?;
                self.emit(Op::Nothing, &[]);
            }
            "setmaxnreg" => {
                parts.ignore(&["inc", "dec", "sync", "aligned", "u32"]);
                self.exactly(i, 1)?;
                self.emit(Op::Nothing, &[]);
            }
            // The block is the only one of its cluster, so the address maps to itself.
            "mapa" => {
                parts.pick(Space::from_text);
                let ty = self.ty(parts)?;
                let operands = self.exactly(i, 3)?;
                let a = self.source(&operands[1], ty)?;
                let d = self.target(&operands[0], ty)?;
                self.emit(Op::moving(ty), &[d, a]);
            }
            "getctarank" => {
                parts.pick(Space::from_text);
                self.ty(parts)?;
                let operands = self.exactly(i, 2)?;
                let first = self.constant(Bank::Word, Constant::Bits(0));
                let d = self.target(&operands[0], Scalar::U32)?;
                self.emit(Op::Move32, &[d, first]);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn copy(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        if !parts.take("async") {
            return self.fail(format!("`{}` is not supported", i.opcode));
        }
        if parts.take("mbarrier") {
            parts.take("arrive");
            return self.copies_arrive(i, parts);
        }
        let bulk = parts.take("bulk");
        // Copies complete immediately, so there is nothing to wait for.
        if parts.take("commit_group") || parts.take("wait_all") {
            self.exactly(i, 0)?;
            self.emit(Op::Nothing, &[]);
            return Ok(());
        }
        if parts.take("wait_group") {
            parts.take("read");
            let operands = self.exactly(i, 1)?;
            if !matches!(operands[0], Operand::Integer(0..)) {
                return self.fail("`wait_group` takes a number of groups");
            }
            self.emit(Op::Nothing, &[]);
            return Ok(());
        }
        if bulk {
            if !(parts.take("prefetch") && parts.take("L2")) {
                return self.fail("bulk copies are not supported");
            }
            parts.ignore(&["global", "L2::cache_hint"]);
            self.address(i.operands.first())?;
            self.emit(Op::Nothing, &[]);
            return Ok(());
        }
        self.copy_few(i, parts)
    }

    /// `cp.async` of 4, 8 or 16 bytes.
    fn copy_few(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let past_first = parts.take("cg");
        let hinted = parts.take("L2::cache_hint");
        parts.ignore_hints();
        parts.ignore(&["shared", "shared::cta", "global"]);
        let bytes = match i.operands.get(2) {
            Some(Operand::Integer(bytes @ (4 | 8 | 16))) => *bytes as u8,
            _ => return self.fail("`cp.async` copies 4, 8 or 16 bytes"),
        };
        if past_first && bytes != 16 {
            return self.fail("`cp.async.cg` copies 16 bytes");
        }
        let mut more = &i.operands[3..];
        if hinted && let [rest @ .., _] = more {
            more = rest;
        }
        let limit = match more {
            [] => None,
            [one] => Some(one),
            _ => return self.fail("`cp.async` has too many operands"),
        };
        let to = self.memory(i.operands.first(), Some(Space::Shared))?;
        let from = self.memory(i.operands.get(1), Some(Space::Global))?;
        let (limit, slot) = match limit {
            None => (Limit::None, Slot(0)),
            Some(operand) if self.is_predicate(operand) => {
                let (slot, negated) = self.signed_predicate(operand)?;
                (Limit::Ignored(negated), slot)
            }
            Some(operand) => (Limit::Bytes, self.source(operand, Scalar::U32)?),
        };
        let Ok(offset) = i32::try_from(from.offset) else {
            return self.fail("the source's offset is too large");
        };
        let op = Op::CopyAsync {
            bytes,
            wide: [to.at.wide, from.at.wide],
            limit,
        };
        let at = self.emit_with(op, &[to.slot, from.slot, slot], to.offset);
        self.builder.out.code[at].target = offset as u32;
        Ok(())
    }

    fn is_predicate(&mut self, operand: &Operand<'a>) -> bool {
        match *operand {
            Operand::Not(_) => true,
            Operand::Name(name) => {
                matches!(self.find(name), Some(Named::Register(Bank::Pred, _)))
            }
            _ => false,
        }
    }

    /// Decodes `cp.async.mbarrier.arrive`. The copies before it are complete, so it arrives now.
    /// Without `.noinc` it first makes room for its own arrival, so it changes nothing.
    fn copies_arrive(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        let counted = parts.take("noinc");
        let space = parts.pick(Space::from_text);
        parts.take("b64");
        let operands = self.exactly(i, 1)?;
        let memory = self.memory(operands.first(), space)?;
        let count = self.constant(Bank::Word, Constant::Bits(u64::from(counted)));
        let old = self.fresh(Bank::Double);
        let wait = Wait::Arrive {
            expect: false,
            drop: false,
        };
        let op = Op::MemoryBarrier {
            wait,
            at: memory.at,
        };
        self.emit_with(op, &[old, memory.slot, count], memory.offset);
        Ok(())
    }

    fn memory_barrier(&mut self, i: &Instruction<'a>, parts: &mut Parts<'a>) -> Result<()> {
        parts.ignore(&["acquire", "release", "relaxed", "cta", "cluster", "b64"]);
        if parts.take("pending_count") {
            return self.typed(Op::PendingCount, i);
        }
        let verb = parts.pick(|part| BARRIER_VERBS.contains(&part).then_some(part));
        let verb = self.wanted(verb, "`mbarrier` needs an operation")?;
        parts.take("noComplete");
        let expect = parts.take("expect_tx");
        let parity = parts.take("parity");
        let drop = verb == "arrive_drop";
        let wait = match verb {
            "init" => Wait::Init,
            "inval" => Wait::Invalidate,
            "expect_tx" => Wait::Expect,
            "complete_tx" => Wait::Complete,
            "arrive" | "arrive_drop" => Wait::Arrive { expect, drop },
            _ => Wait::Test { parity },
        };
        self.barrier_object(i, parts.pick(Space::from_text), wait)
    }

    /// Decodes the operands of an `mbarrier` instruction.
    fn barrier_object(
        &mut self,
        i: &Instruction<'a>,
        space: Option<Space>,
        wait: Wait,
    ) -> Result<()> {
        let test = matches!(wait, Wait::Test { .. });
        // An arrival at another block's barrier returns no state.
        let remote = matches!(i.operands.first(), Some(Operand::Address(_)));
        let results = usize::from(!remote && (test || matches!(wait, Wait::Arrive { .. })));
        let memory = self.memory(i.operands.get(results), space)?;
        let by_state = wait == Wait::Test { parity: false };
        let one = self.constant(Bank::Word, Constant::Bits(1));
        let value = match i.operands.get(results + 1) {
            Some(operand) if by_state => self.source(operand, Scalar::B64)?,
            Some(operand) => self.source(operand, Scalar::U32)?,
            None if matches!(wait, Wait::Arrive { expect: false, .. } | Wait::Invalidate) => one,
            None => return self.fail(format!("`{}` takes a number", i.opcode)),
        };
        let kind = if test { Scalar::Pred } else { Scalar::B64 };
        let d = match i.operands.first() {
            Some(to) if results == 1 => self.target(to, kind)?,
            _ => self.fresh(Bank::of(kind)),
        };
        let op = Op::MemoryBarrier {
            wait,
            at: memory.at,
        };
        self.emit_with(op, &[d, memory.slot, value], memory.offset);
        Ok(())
    }
}
