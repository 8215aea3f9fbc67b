//! Registers that an instruction reads and writes: its uses and definitions.

use crate::decode::form::{Bank, Inst, Int2, Int3, Op, Slot};
use ptx::Scalar;

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

/// What an instruction reads and writes, guard left out.
#[derive(Default)]
pub(super) struct DefUse {
    pub(super) writes: Vec<Var>,
    pub(super) reads: Vec<Var>,
}

fn twice(ty: Scalar) -> Bank {
    if ty.size() == 4 {
        Bank::Double
    } else {
        Bank::Word
    }
}

/// What an instruction reads and writes, if the generator or the liveness analysis understands it; `None`:
/// it may read anything it names.
pub(super) fn def_use(inst: &Inst) -> Option<DefUse> {
    use Bank::{Double, Pred, Word};
    let s = inst.slots;
    let mut it = DefUse::default();
    let mut plain = |write: Bank, reads: &[Bank]| {
        it.writes.push(Var::new(write, s[0]));
        let sources = reads.iter().zip(&s[1..]);
        it.reads
            .extend(sources.map(|(bank, slot)| Var::new(*bank, *slot)));
    };
    match inst.op {
        Op::Move32 => plain(Word, &[Word]),
        Op::Move64 => plain(Double, &[Double]),
        Op::Pack64 => plain(Double, &[Word, Word]),
        Op::Int1(_, ty) => {
            // Counts of bits are words whatever they count in.
            if Bank::of(ty) != Word {
                return None;
            }
            plain(Word, &[Word]);
        }
        Op::Int2(Int2::MulWide, ty) => plain(twice(ty), &[Bank::of(ty); 2]),
        Op::Int2(Int2::Shl | Int2::Shr, ty) => plain(Bank::of(ty), &[Bank::of(ty), Word]),
        Op::Int2(op, ty) => {
            let simple = matches!(
                op,
                Int2::Add
                    | Int2::Sub
                    | Int2::Mul
                    | Int2::Min
                    | Int2::Max
                    | Int2::And
                    | Int2::Or
                    | Int2::Xor
            );
            if !simple {
                return None;
            }
            plain(Bank::of(ty), &[Bank::of(ty); 2]);
        }
        Op::Int3(Int3::Mad, ty) => plain(Bank::of(ty), &[Bank::of(ty); 3]),
        Op::Int3(Int3::MadWide, ty) => {
            plain(twice(ty), &[Bank::of(ty), Bank::of(ty), twice(ty)]);
        }
        Op::Float2(_, ty, _) => plain(Bank::of(ty), &[Bank::of(ty); 2]),
        Op::Float1(_, ty, _) => plain(Bank::of(ty), &[Bank::of(ty)]),
        Op::Fma(ty, ..) => plain(Bank::of(ty), &[Bank::of(ty); 3]),
        Op::Convert(to, from, _) => plain(Bank::of(to), &[Bank::of(from)]),
        Op::Setp(_, ty, _, with) => {
            plain(Pred, &[]);
            if inst.imm != 0 {
                it.writes.push(Var::new(Pred, s[1]));
            }
            it.reads
                .extend([2, 3].map(|at| Var::new(Bank::of(ty), s[at])));
            if with.is_some() {
                it.reads.push(Var::new(Pred, s[4]));
            }
        }
        Op::Select32 => plain(Word, &[Word, Word, Pred]),
        Op::Select64 => plain(Double, &[Double, Double, Pred]),
        Op::Logic(..) => plain(Pred, &[Pred, Pred]),
        Op::Load {
            ty, lanes, wide, ..
        } => {
            it.reads
                .push(Var::new(if wide { Double } else { Word }, s[0]));
            let parts = s[1..].iter().take(usize::from(lanes));
            it.writes
                .extend(parts.map(|slot| Var::new(Bank::of(ty), *slot)));
        }
        Op::Store {
            ty, lanes, wide, ..
        } => {
            it.reads
                .push(Var::new(if wide { Double } else { Word }, s[0]));
            let parts = s[1..].iter().take(usize::from(lanes));
            it.reads
                .extend(parts.map(|slot| Var::new(Bank::of(ty), *slot)));
        }
        Op::Branch
        | Op::Exit
        | Op::Return
        | Op::Trap
        | Op::Yield
        | Op::Nothing
        | Op::Fence
        | Op::Barrier { red: None, .. } => {
            // Barrier numbers and counts are read where they lie.
            it.reads.extend([1, 2].map(|at| Var::new(Word, s[at])));
            it.reads.retain(|_| matches!(inst.op, Op::Barrier { .. }));
        }
        _ => return None,
    }
    Some(it)
}
