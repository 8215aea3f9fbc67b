//! Decoded instructions with their lane loops.

use crate::decode::form::{Inst, Op};
use crate::lane_loop::{Handler, Isa};
use crate::ops;

/// Scheduling class of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A lane loop.
    Lanes,
    /// A lane loop that waits for the lanes named in this slot.
    Gather(usize),
    Branch,
    /// Anything else.
    Control,
}

/// One executable instruction.
pub(crate) struct Step {
    pub(crate) handler: Handler,
    /// Predicate of the guard, or `UNGUARDED`.
    pub(crate) guard: u32,
    /// All ones if the guard is negated.
    pub(crate) flip: u32,
    pub(crate) kind: Kind,
    pub(crate) inst: Inst,
    /// Native code for this and the following instructions.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) native: Option<crate::native::Native>,
    /// Native code for a whole warp from here on.
    #[cfg(all(target_arch = "x86_64", unix))]
    pub(crate) warp: Option<crate::native::Warp>,
}

pub(crate) const UNGUARDED: u32 = u32::MAX;

fn kind(op: Op) -> Kind {
    match op {
        Op::Branch => Kind::Branch,
        Op::Shuffle(_) => Kind::Gather(5),
        Op::Vote(..) | Op::Redux(..) | Op::Elect => Kind::Gather(2),
        Op::Match(..) => Kind::Gather(3),
        Op::WarpSync => Kind::Gather(1),
        Op::Mma(_)
        | Op::MmaSparse(_)
        | Op::MmaQuads(_)
        | Op::MatrixRows { .. }
        | Op::MatrixTurn
        | Op::MatrixLines { .. } => Kind::Gather(0),
        Op::BranchIndex
        | Op::Call
        | Op::Return
        | Op::Exit
        | Op::Trap
        | Op::Yield
        | Op::Place(_)
        | Op::ClusterArrive
        | Op::ClusterWait
        | Op::Barrier { .. } => Kind::Control,
        _ => Kind::Lanes,
    }
}

/// True if an operation can run at all.
pub(crate) fn runs(op: Op) -> bool {
    !matches!(kind(op), Kind::Lanes | Kind::Gather(_))
        || op == Op::WarpSync
        || ops::handler(op, Isa::Portable).is_some()
}

/// Pairs instructions with their loops; `runs` has rejected all others before.
pub(crate) fn steps(code: &[Inst], isa: Isa) -> Vec<Step> {
    let nothing = ops::nothing(isa);
    code.iter()
        .map(|inst| Step {
            handler: ops::handler(inst.op, isa).unwrap_or(nothing),
            guard: inst.guard.map_or(UNGUARDED, |guard| guard.slot),
            flip: inst
                .guard
                .map_or(0, |guard| if guard.negated { u32::MAX } else { 0 }),
            kind: kind(inst.op),
            inst: *inst,
            #[cfg(all(target_arch = "x86_64", unix))]
            native: None,
            #[cfg(all(target_arch = "x86_64", unix))]
            warp: None,
        })
        .collect()
}
