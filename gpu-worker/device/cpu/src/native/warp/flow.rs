//! Pieces one after another, and the jumps between them.

use super::blocks::{End, Piece};
use super::hammock::Hammock;
use super::{Region, ending, on_stack};
use crate::decode::form::{Bank, Inst, Op, Slot};
use crate::engine::context::Context;
use crate::native::assembler::{Cc, Label, RAX, RBP, RCX, Rm};
use crate::native::def_use::{Var, def_use};
use crate::native::values::Scalar;
use std::mem::offset_of;

impl Region<'_> {
    /// Registers and the current locations of their values; those of the warp's place are also in
    /// memory.
    pub(super) fn holding(&self, vars: &[Var]) -> Vec<(Var, Scalar)> {
        let values = vars.iter().filter(|var| !self.places.contains(var));
        values
            .filter_map(|var| Some((*var, *self.lower.values.scalars.get(var)?)))
            .collect()
    }

    pub(super) fn piece(&mut self, piece: &Piece, next: Option<usize>) -> Option<()> {
        let label = self.labels[&piece.start];
        self.asm().bind(label);
        self.begun = piece.start;
        self.checked.clear();
        self.top = self.base;
        self.place_scalars();
        for segment in &piece.segments {
            self.segment(segment, piece.end, None);
        }
        let behind = self.lower.kept[piece.end.min(self.lower.kept.len() - 1)];
        match piece.how {
            End::Unknown => {
                let values = self.holding(&piece.before);
                let out = self.exit(ending::LEFT, piece.end, values);
                self.asm().jump(out);
            }
            End::Falls => {
                self.settle(&piece.behind);
                self.count(piece.end - piece.start);
                if next != Some(piece.end) {
                    self.begun = piece.end;
                    let values = self.holding(&piece.behind);
                    let out = self.exit(ending::LEFT, piece.end, values);
                    self.asm().jump(out);
                }
            }
            End::Jump => self.jump(piece, &behind, next)?,
        }
        Some(())
    }

    /// Moves new values to their homes between blocks.
    fn settle(&mut self, behind: &[Var]) {
        for var in behind {
            let home = on_stack(self.homes[var]);
            let Some((now, step)) = self.lower.values.scalars.get(var).copied() else {
                continue;
            };
            if now == home {
                continue;
            }
            let wide = var.bank() == Bank::Double;
            let asm = self.asm();
            asm.g(wide, 0x8b, RAX.0, now);
            asm.g(wide, 0x89, RAX.0, home);
            self.lower.values.rename(*var, Some((home, step)));
        }
    }

    /// Emits a branch or the end of the threads, for all lanes or none.
    fn jump(&mut self, piece: &Piece, inst: &Inst, next: Option<usize>) -> Option<()> {
        let at = piece.end;
        let ran = at + 1 - piece.start;
        let before = self.holding(&piece.before);
        self.settle(&piece.behind);
        let Some(guard) = inst.guard else {
            self.count(ran);
            return self.go(inst, at, next);
        };
        let var = Var::new(Bank::Pred, Slot(guard.slot));
        let bits = match self.lower.values.scalars.get(&var) {
            Some((place, _)) => *place,
            None => Rm::At(RBP, guard.slot as i32 * 4),
        };
        let uniform = self.lower.values.scalars.contains_key(&var);
        self.asm().g(false, 0x8b, RAX.0, bits);
        if !uniform {
            let apart = self.parted(inst, at, before);
            let asm = self.asm();
            asm.lea(RCX, RAX, 1);
            asm.with(false, 7, RCX, 1);
            asm.jump_if(Cc::Above, apart);
        }
        self.count(ran);
        let stays = self.asm().label();
        // test eax, eax
        self.asm().code.extend([0x85, 0xc0]);
        let (holds, fails) = if guard.negated {
            (Cc::Equal, Cc::NotEqual)
        } else {
            (Cc::NotEqual, Cc::Equal)
        };
        if inst.op == Op::Branch && inst.target as usize > at {
            let target = *self.labels.get(&(inst.target as usize))?;
            self.asm().jump_if(holds, target);
        } else {
            self.asm().jump_if(fails, stays);
            self.go(inst, at, None)?;
        }
        self.asm().bind(stays);
        if next != Some(at + 1) {
            let label = *self.labels.get(&(at + 1))?;
            self.asm().jump(label);
        }
        Some(())
    }

    /// Target of a warp that diverges at a branch.
    fn parted(&mut self, inst: &Inst, at: usize, before: Vec<(Var, Scalar)>) -> Label {
        let body = self.harmless.get(&(at + 1)).copied();
        let over = |(_, end): &(usize, usize)| {
            let guard = inst.guard.map(|it| Var::new(Bank::Pred, Slot(it.slot)));
            let written = self.lower.kept[at + 1..*end].iter().filter_map(def_use);
            let mut written = written.flat_map(|it| it.writes);
            let target = inst.op == Op::Branch && inst.target as usize == *end;
            target && !written.any(|var| Some(var) == guard)
        };
        let (Some((body, _)), Some(guard)) = (body.filter(over), inst.guard) else {
            return self.exit(ending::LEFT, at, before);
        };
        let label = self.asm().label();
        self.hammocks.push(Hammock {
            label,
            branch: at,
            begun: self.begun,
            body,
            guard,
            before,
            top: self.top,
        });
        label
    }

    /// Jumps to the target of a branch or exit.
    fn go(&mut self, inst: &Inst, at: usize, next: Option<usize>) -> Option<()> {
        if inst.op != Op::Branch {
            let leave = self.leave;
            let asm = self.asm();
            asm.set(RAX, ending::ENDED << 32);
            asm.jump(leave);
            return Some(());
        }
        let target = inst.target as usize;
        let label = *self.labels.get(&target)?;
        if target <= at && !cfg!(unchecked_access) {
            self.poll(target);
        }
        if next != Some(target) {
            self.asm().jump(label);
        }
        Some(())
    }

    /// Counts a backward jump, and leaves there if the warp must stop.
    fn poll(&mut self, target: usize) {
        let spun = self.spun(target);
        let field = Self::field;
        let asm = self.asm();
        asm.g(false, 0x83, 5, field(offset_of!(Context<'_>, jumps)));
        asm.code.push(1);
        asm.jump_if(Cc::BelowEqual, spun);
        asm.load(RAX, field(offset_of!(Context<'_>, executed)));
        asm.g(true, 0x3b, RAX.0, field(offset_of!(Context<'_>, until)));
        asm.jump_if(Cc::AboveEqual, spun);
        asm.load(RAX, field(offset_of!(Context<'_>, stop)));
        asm.compare_byte(Rm::At(RAX, 0), 0);
        asm.jump_if(Cc::NotEqual, spun);
    }

    fn spun(&mut self, target: usize) -> Label {
        let vars = self.living.get(&target).cloned().unwrap_or_default();
        let values = self.holding(&vars);
        let begun = std::mem::replace(&mut self.begun, target);
        let label = self.exit(ending::SPUN, target, values);
        self.begun = begun;
        label
    }
}

impl Region<'_> {
    /// Emits the piece for all lanes, then continues behind it.
    pub(super) fn hammock(&mut self, it: Hammock, piece: &Piece) -> Option<()> {
        self.asm().bind(it.label);
        self.begun = it.begun;
        self.checked.clear();
        self.top = it.top;
        self.place_scalars();
        let lanes = Slot(it.guard.slot);
        self.lower.blend = Some((lanes, !it.guard.negated));
        self.segment(&piece.segments[0], piece.end, Some((it.branch, it.before)));
        self.lower.blend = None;
        self.count(piece.end - it.begun);
        let target = *self.labels.get(&piece.end)?;
        self.asm().jump(target);
        Some(())
    }

    /// Resets registers to their homes between blocks.
    pub(super) fn place_scalars(&mut self) {
        self.lower.values.clear();
        let homes: Vec<(Var, i32)> = self.homes.iter().map(|(var, at)| (*var, *at)).collect();
        for (var, at) in homes {
            if let Some(step) = self.classes.step(var) {
                self.lower.values.scalars.insert(var, (on_stack(at), step));
            }
        }
    }
}
