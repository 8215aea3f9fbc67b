//! Registers that an instruction reads and writes: its uses and definitions.

use crate::decode::form::{Bank, Inst, Op, Slot};

/// A register of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Var(pub(super) u8, pub(super) u32);

impl Var {
    pub(super) fn new(bank: Bank, slot: Slot) -> Self {
        let bank = match bank {
            Bank::Word => 0,
            Bank::Double => 1,
            Bank::Pred => 2,
        };
        Self(bank, slot.0)
    }

    pub(super) fn bank(self) -> Bank {
        match self.0 {
            0 => Bank::Word,
            1 => Bank::Double,
            _ => Bank::Pred,
        }
    }

    pub(super) fn is_constant(self) -> bool {
        self.0 < 2 && self.1 & Slot::CONSTANT != 0
    }
}

/// Registers that an instruction reads and writes, without its guard.
#[derive(Default)]
pub(super) struct DefUse {
    pub(super) writes: Vec<Var>,
    pub(super) reads: Vec<Var>,
}

/// Registers that an instruction reads and writes, if the generator or the liveness analysis
/// understands it. `None`: it may read any register that it names.
pub(super) fn def_use(inst: &Inst) -> Option<DefUse> {
    let var = |bank: Bank, at: usize| Var::new(bank, inst.slots[at]);
    if let Some(signature) = inst.op.signature() {
        let sources = signature.sources().iter().enumerate();
        return Some(DefUse {
            writes: vec![var(Bank::of(signature.target), 0)],
            reads: sources.map(|(at, ty)| var(Bank::of(*ty), 1 + at)).collect(),
        });
    }
    let mut it = DefUse::default();
    match inst.op {
        Op::Setp(_, ty, _, with) => {
            let targets = if inst.imm == 0 { 1 } else { 2 };
            it.writes.extend((0..targets).map(|at| var(Bank::Pred, at)));
            it.reads.extend([2, 3].map(|at| var(Bank::of(ty), at)));
            it.reads.extend(with.map(|_| var(Bank::Pred, 4)));
        }
        Op::Load { at, ty, lanes } | Op::Store { at, ty, lanes } => {
            let address = if at.wide { Bank::Double } else { Bank::Word };
            it.reads.push(var(address, 0));
            let values = (1..=usize::from(lanes)).map(|at| var(Bank::of(ty), at));
            match inst.op {
                Op::Load { .. } => it.writes.extend(values),
                _ => it.reads.extend(values),
            }
        }
        // Barrier numbers and counts are read directly from their registers.
        Op::Barrier { red: None, .. } => it.reads.extend([1, 2].map(|at| var(Bank::Word, at))),
        Op::Branch | Op::Exit | Op::Return | Op::Trap | Op::Yield | Op::Nothing | Op::Fence => {}
        _ => return None,
    }
    Some(it)
}
