//! Last uses of a run's results, and the results that are used at all.

use super::Lower;
use crate::decode::form::{Bank, Op, Slot};
use crate::native::def_use::{Var, def_use};
use crate::native::plan::Run;
use std::collections::HashSet;

impl Lower<'_> {
    /// For each instruction, the registers that no later instruction of the run, nor any code
    /// behind it, reads.
    pub(in crate::native) fn last_uses(&self, run: &Run) -> Vec<Vec<Var>> {
        let mut seen: HashSet<Var> = run.live.clone();
        let mut out = vec![Vec::new(); self.code.len()];
        for (index, inst) in self.code.iter().enumerate().rev() {
            let Some(it) = def_use(inst) else { continue };
            let guard = inst
                .guard
                .map(|guard| Var::new(Bank::Pred, Slot(guard.slot)));
            let named = it.writes.iter().chain(&it.reads).chain(&guard);
            for var in named {
                if seen.insert(*var) {
                    out[index].push(*var);
                }
            }
            if inst.guard.is_none() {
                for var in it.writes.iter().filter(|var| !it.reads.contains(var)) {
                    // Its previous value is not needed before this write.
                    seen.remove(var);
                }
            }
        }
        out
    }

    /// Instructions with results that are used, or with other effects than computing.
    pub(in crate::native) fn needed(&self, run: &Run) -> Vec<bool> {
        let mut live: HashSet<Var> = run.live.clone();
        let mut out = vec![true; self.code.len()];
        for (index, inst) in self.code.iter().enumerate().rev() {
            let Some(it) = def_use(inst) else { continue };
            let acts = matches!(inst.op, Op::Load { .. } | Op::Store { .. });
            out[index] = acts || it.writes.iter().any(|var| live.contains(var));
            if !out[index] {
                continue;
            }
            if inst.guard.is_none() {
                it.writes.iter().for_each(|var| {
                    live.remove(var);
                });
            } else {
                live.extend(&it.writes);
            }
            live.extend(&it.reads);
            live.extend(
                inst.guard
                    .map(|guard| Var::new(Bank::Pred, Slot(guard.slot))),
            );
        }
        out
    }
}
