//! One segment: values computed once, the checks of its addresses, then the lanes.

use super::blocks::Segment;
use super::scalar::LAST;
use super::{Blame, Checked, Region, ending, on_stack};
use crate::decode::form::{Inst, Place};
use crate::native::access::{Access, Stub};
use crate::native::address_pattern::{AddressPattern, around, bounds, site};
use crate::native::assembler::{Cc, R8, RAX, RBX, RCX, RDI, RDX, RSI};
use crate::native::def_use::{Var, def_use};
use crate::native::extent::{Extent, extents};
use crate::native::plan::Run;
use crate::native::strided::{Host, is_known};
use crate::native::support;
use crate::native::values::Scalar;
use std::collections::HashMap;

/// A register that an instruction changes, and its value before.
type Change = (Var, Option<Scalar>);

impl Region<'_> {
    /// Emits a segment; `back` is the exit, if it is not at the segment's start.
    pub(super) fn segment(
        &mut self,
        segment: &Segment,
        end: usize,
        back: Option<(usize, Vec<(Var, Scalar)>)>,
    ) {
        let run = Run {
            start: segment.start,
            len: segment.end - segment.start,
            live: segment.live.clone(),
        };
        self.deopt = None;
        (self.start, self.held) =
            back.unwrap_or_else(|| (segment.start, self.holding(&segment.scalars)));
        let kept = self.lower.kept;
        self.lower.first = segment.start;
        self.lower.code = &kept[segment.start..segment.end];
        self.lower.extents.clear();
        if !self.reach.0.contains(&segment.start) || self.reach.0.end != end {
            let reach = segment.start..end;
            self.reach = (reach.clone(), extents(&kept[reach], true));
        }
        self.lower.blame = ending::FAULT << 32 | segment.start as u64;
        self.lower.fault = self.asm().label();
        self.blames.push(Blame {
            label: self.lower.fault,
            begun: self.start,
            values: self.held.clone(),
        });
        self.lower.hosts.clear();
        let last = self.lower.last_uses(&run);
        let mut needed = self.lower.needed(&run);
        let mut changes: Vec<Change> = Vec::new();
        let mut once: HashMap<usize, Vec<(Var, Scalar)>> = HashMap::new();
        for (index, needed) in needed.iter_mut().enumerate().filter(|(_, needed)| **needed) {
            let at = segment.start + index;
            let inst = kept[at];
            if !self.classes.is_scalar(&inst) {
                self.host(at, &inst, index);
                continue;
            }
            *needed = false;
            let new = self.once(at, &inst, &mut changes);
            once.insert(index, new);
        }
        if needed.iter().any(|needed| *needed) {
            self.lower.once = once;
            self.lanes(&run, &changes, &last, &needed);
        }
    }

    /// Computes an instruction for the warp; returns the new contents of its registers.
    fn once(&mut self, at: usize, inst: &Inst, changes: &mut Vec<Change>) -> Vec<(Var, Scalar)> {
        let written = def_use(inst).map(|it| it.writes).unwrap_or_default();
        let held = |it: &Self, var: &Var| it.lower.values.scalars.get(var).copied();
        let old: Vec<Option<Scalar>> = written.iter().map(|var| held(self, var)).collect();
        if let Some(it) = Access::of(inst) {
            if let Some((slot, offset)) = self.check(at, inst, it) {
                self.uniform_load(inst, it, offset, slot);
            }
        } else {
            self.scalar(inst);
        }
        let mut list = Vec::new();
        for (var, old) in written.iter().zip(old) {
            if let Some(new) = held(self, var) {
                changes.push((*var, old));
                list.push((*var, new));
            }
        }
        list
    }

    /// Emits the vector part, for each eight lanes.
    fn lanes(&mut self, run: &Run, changes: &[Change], last: &[Vec<Var>], needed: &[bool]) {
        for group in 0..4 {
            for (var, old) in changes.iter().rev() {
                self.lower.values.rename(*var, *old);
            }
            let values = &mut self.lower.values;
            values.clear();
            values.group = group;
            values.stack = self.top;
            self.lower.group(run, last, needed);
            self.most = self.most.max(self.lower.values.stack);
        }
        self.lower.values.group = 0;
    }

    /// Checks a vector access in advance, if its addresses go in steps.
    fn host(&mut self, at: usize, inst: &Inst, index: usize) {
        let Some(it) = Access::of(inst) else { return };
        let Some(step) = self.classes.step(it.var(inst)) else {
            return;
        };
        if !is_known(inst, it, step) {
            return;
        }
        if let Some((slot, offset)) = self.check(at, inst, it) {
            let host = Host { slot, offset, step };
            self.lower.hosts.insert(index, host);
        }
    }

    /// Stack place of a host address and lane 0's distance from it, checked for all lanes.
    fn check(&mut self, at: usize, inst: &Inst, it: Access) -> Option<(i32, i64)> {
        let var = it.var(inst);
        let step = self.classes.step(var)?;
        let (address, align) = (self.at(var), it.stride());
        let known = self.checked.iter().find(|known| {
            (known.address, known.place, known.align) == (address, it.place, align)
                && known.least <= inst.imm
                && inst.imm + align <= known.most
                && (known.write || !it.write)
        });
        if let Some(known) = known {
            return Some((known.slot, inst.imm - known.low));
        }
        let (range, extents) = &self.reach;
        let extent = extents[at - range.start].unwrap_or(Extent {
            least: inst.imm,
            most: inst.imm + align,
            write: it.write,
        });
        let Extent { least, most, write } = extent;
        let low = least + (LAST * step).min(0);
        let checked = Checked {
            address,
            place: it.place,
            align,
            least,
            most,
            write,
            slot: self.slot(),
            low,
        };
        self.checked.push(checked);
        let len = most - least + LAST * step.abs();
        self.range(checked, it.wide, len);
        Some((checked.slot, inst.imm - low))
    }

    /// Checks a range of bytes and leaves its host address on the stack.
    fn range(&mut self, checked: Checked, wide: bool, len: i64) {
        let deopt = self.deopt();
        let shape = AddressPattern {
            id: 0,
            stride: checked.align,
            least: checked.low,
            most: checked.most,
            write: checked.write,
            place: checked.place,
            number: self.sites,
            at: 0,
        };
        self.sites += 1;
        let asm = self.asm();
        let (retry, miss) = (asm.label(), asm.label());
        asm.g(wide, 0x8b, RAX.0, checked.address);
        asm.bind(retry);
        bounds(asm, shape, len, (deopt, miss), wide);
        asm.save(on_stack(checked.slot), RCX);
        let emit = move |asm: &mut crate::native::assembler::Assembler| {
            if shape.place == Place::Shared {
                return asm.jump(deopt);
            }
            asm.save(on_stack(8), RAX);
            around(asm, 0, &[], |asm| {
                asm.load(RDI, RBX);
                asm.lea(RDX, RAX, shape.least as i32);
                asm.set(RSI, site(shape) as u64);
                asm.set(RCX, len as u64);
                asm.set(R8, u64::from(shape.write));
                asm.set(RAX, support::find as *const () as u64);
                asm.call(RAX);
            });
            asm.code.extend([0x85, 0xc0]);
            asm.load(RAX, on_stack(8));
            asm.jump_if(Cc::NotEqual, retry);
            asm.jump(deopt);
        };
        self.lower.stubs.push(Stub {
            entry: miss,
            emit: Box::new(emit),
        });
    }
}
