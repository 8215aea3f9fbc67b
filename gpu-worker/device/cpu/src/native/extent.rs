//! The range that accesses through one address register cover, from each of them on.

use super::access::Access;
use super::def_use::{Var, def_use};
use crate::decode::form::{Inst, Place};
use std::collections::HashMap;

/// Offsets of the accesses through a register while it stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// Offset of the lowest access.
    pub(super) least: i64,
    /// Offset behind the last byte.
    pub(super) most: i64,
    pub(super) write: bool,
}

impl Extent {
    fn of(inst: &Inst, it: Access) -> Self {
        Self {
            least: inst.imm,
            most: inst.imm + it.stride(),
            write: it.write,
        }
    }

    fn join(self, other: Self) -> Self {
        Self {
            least: self.least.min(other.least),
            most: self.most.max(other.most),
            write: self.write || other.write,
        }
    }
}

/// Accesses of one kind ahead, through registers that are not written in between.
#[derive(Default)]
struct Ahead(HashMap<Var, Vec<(i64, Place, Extent)>>);

impl Ahead {
    fn find(&mut self, inst: &Inst, it: Access) -> Option<&mut Extent> {
        let list = self.0.get_mut(&it.var(inst))?;
        let mut list = list.iter_mut();
        let same =
            |known: &&mut (i64, Place, Extent)| (known.0, known.1) == (it.stride(), it.place);
        list.find(same).map(|known| &mut known.2)
    }

    fn add(&mut self, inst: &Inst, it: Access) {
        let own = Extent::of(inst, it);
        match self.find(inst, it) {
            Some(known) => *known = known.join(own),
            None => {
                let list = self.0.entry(it.var(inst)).or_default();
                list.push((it.stride(), it.place, own));
            }
        }
    }
}

/// The range that each access and the later ones through the same register cover, by instruction.
/// If `apart`, an access without a guard counts only others without a guard.
pub(super) fn extents(code: &[Inst], apart: bool) -> Vec<Option<Extent>> {
    let (mut all, mut plain) = (Ahead::default(), Ahead::default());
    let mut out = vec![None; code.len()];
    for (inst, out) in code.iter().zip(&mut out).rev() {
        match def_use(inst) {
            Some(it) => {
                for var in &it.writes {
                    all.0.remove(var);
                    plain.0.remove(var);
                }
            }
            None => {
                all.0.clear();
                plain.0.clear();
            }
        }
        let Some(it) = Access::of(inst) else { continue };
        all.add(inst, it);
        if inst.guard.is_none() {
            plain.add(inst, it);
        }
        let ahead = if apart && inst.guard.is_none() {
            &mut plain
        } else {
            &mut all
        };
        *out = ahead.find(inst, it).copied();
    }
    out
}
