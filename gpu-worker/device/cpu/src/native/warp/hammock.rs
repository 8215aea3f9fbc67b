//! A branch over a few instructions that only compute. If lanes diverge at it, the instructions run
//! for all lanes but count only in those that would have run them.

use super::blocks::{End, Piece};
use super::class::Classes;
use crate::decode::form::{Bank, GuardSlot, Inst};
use crate::native::access::Access;
use crate::native::assembler::Label;
use crate::native::def_use::{Var, def_use};
use crate::native::strided::is_known;
use crate::native::values::Scalar;

/// A branch over a piece that runs for all lanes if they diverge.
pub(super) struct Hammock {
    pub(super) label: Label,
    /// The branch, its block, and the piece between it and its target.
    pub(super) branch: usize,
    pub(super) begun: usize,
    pub(super) body: usize,
    pub(super) guard: GuardSlot,
    /// Live values before the branch, and the stack that holds them.
    pub(super) before: Vec<(Var, Scalar)>,
    pub(super) top: i32,
}

/// True if the piece behind a branch that spans it can run for lanes that do not take it.
pub(super) fn is_harmless(kept: &[Inst], piece: &Piece, classes: &Classes<'_>) -> bool {
    let whole = piece.how == End::Falls && piece.segments.len() == 1;
    whole
        && kept[piece.start..piece.end].iter().all(|inst| {
            let placed = Access::of(inst).is_none_or(|it| {
                let step = classes.step(it.var(inst));
                !it.write && step.is_some_and(|step| is_known(inst, it, step))
            });
            let written = def_use(inst).map(|it| it.writes).unwrap_or_default();
            let kept_apart = |var: &Var| {
                let lives = piece.segments[0].live.contains(var);
                !lives || var.bank() != Bank::Pred && classes.step(*var).is_none()
            };
            placed && written.iter().all(kept_apart)
        })
}
