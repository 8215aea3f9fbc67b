//! Which instructions become native code, and which registers are alive behind them.

use super::roles::{Var, roles};
use crate::decode::Decoded;
use crate::decode::form::{Bank, Inst, Op, Place, Slot};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Fewer instructions than this are not worth a call.
const SHORTEST: usize = 2;

/// A straight run of instructions without a label inside.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) len: usize,
    /// Registers written in it that may be read behind it.
    pub(super) live: HashSet<Var>,
}

/// Spaces that a run reads and writes, a bit each.
///
/// Lanes of one group run the whole run before the next group begins. So that no lane sees a store
/// too early or too late, a run has no access to a space behind a store to it, and no store to a
/// space behind an access to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    loads: u8,
    stores: u8,
}

impl Touched {
    /// Notes an instruction in front of those noted, if it may share a run with them.
    fn precede(&mut self, inst: &Inst) -> bool {
        self.follow(inst)
    }

    /// Notes an instruction behind those noted, if it may share a run with them.
    pub(super) fn follow(&mut self, inst: &Inst) -> bool {
        let space = |place| match place {
            Place::Shared => 1,
            Place::Global | Place::Const => 2,
            _ => 3,
        };
        match inst.op {
            Op::Load { place, .. } => {
                let apart = self.stores & space(place) == 0;
                self.loads |= space(place);
                apart
            }
            Op::Store { place, .. } => {
                let apart = (self.loads | self.stores) & space(place) == 0;
                self.stores |= space(place);
                apart
            }
            _ => true,
        }
    }
}

/// Registers alive at a place; `all` where nothing is known.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Live {
    pub(super) all: bool,
    pub(super) vars: BTreeSet<Var>,
}

impl Live {
    fn join(&mut self, other: &Self) {
        self.all |= other.all;
        self.vars.extend(&other.vars);
    }

    /// The set before an instruction, from the set behind it.
    pub(super) fn before(&mut self, inst: &Inst) {
        match roles(inst) {
            Some(roles) => {
                if inst.guard.is_none() {
                    self.vars.retain(|var| !roles.writes.contains(var));
                }
                self.vars.extend(roles.reads);
            }
            None if !names_all(inst.op) => self.all = true,
            None => {
                for slot in inst.slots {
                    let banks = [Bank::Word, Bank::Double, Bank::Pred];
                    self.vars.extend(banks.map(|bank| Var::new(bank, slot)));
                }
            }
        }
        if let Some(guard) = inst.guard {
            self.vars.insert(Var::new(Bank::Pred, Slot(guard.slot)));
        }
    }
}

/// Whether an operation's slots are all the registers it reads.
fn names_all(op: Op) -> bool {
    matches!(
        op,
        Op::Shuffle(_)
            | Op::Vote(..)
            | Op::Match(..)
            | Op::Redux(..)
            | Op::Activemask
            | Op::WarpSync
            | Op::Barrier { .. }
            | Op::Atomic { .. }
            | Op::Clock(_)
            | Op::Place(_)
            | Op::Lanemask(_)
            | Op::IsSpace(_)
            | Op::FrameAddress
            | Op::Pack32(_)
            | Op::Unpack32(_)
            | Op::Unpack64
            | Op::Pack64x4
            | Op::Unpack64x4
            | Op::Int1(..)
            | Op::Int2(..)
            | Op::Int3(..)
            | Op::Carry(..)
            | Op::Convert(..)
            | Op::Integral(..)
            | Op::Set(..)
            | Op::Setp(..)
            | Op::Slct(..)
            | Op::Testp(..)
            | Op::Float1(..)
            | Op::Float2(..)
            | Op::Fma(..)
            | Op::SelectPred
            | Op::CopyAsync { .. }
            | Op::Yield
            | Op::Exit
            | Op::Return
            | Op::Trap
    )
}

fn ends(op: Op) -> bool {
    matches!(
        op,
        Op::Branch | Op::BranchIndex | Op::Call | Op::Return | Op::Exit | Op::Trap
    )
}

/// One function's code as basic blocks.
pub(super) struct Blocks<'d> {
    pub(super) decoded: &'d Decoded,
    function: usize,
    entry: bool,
    end: usize,
    /// Starts of blocks, and the function's end.
    pub(super) starts: Vec<usize>,
    index: HashMap<usize, usize>,
}

impl<'d> Blocks<'d> {
    pub(super) fn new(decoded: &'d Decoded, function: usize) -> Self {
        let start = decoded.functions[function].start as usize;
        let next = decoded.functions.get(function + 1);
        let end = next.map_or(decoded.code.len(), |next| next.start as usize);
        let mut starts = BTreeSet::from([start, end]);
        for (at, inst) in decoded.code[start..end].iter().enumerate() {
            match inst.op {
                Op::Branch => starts.extend([inst.target as usize]),
                Op::BranchIndex => {
                    let table = &decoded.tables[inst.imm as usize];
                    starts.extend(table.iter().map(|target| *target as usize));
                }
                _ => {}
            }
            if ends(inst.op) {
                starts.insert(start + at + 1);
            }
        }
        starts.retain(|at| (start..=end).contains(at));
        let starts: Vec<usize> = starts.into_iter().collect();
        let index = starts
            .iter()
            .enumerate()
            .map(|(at, start)| (*start, at))
            .collect();
        let entry = decoded
            .entries
            .iter()
            .any(|entry| entry.function as usize == function);
        Self {
            decoded,
            function,
            entry,
            end,
            starts,
            index,
        }
    }

    /// Its instructions, if it is a kernel in which all that is read and written is named.
    pub(super) fn followed(&self) -> Option<(usize, usize)> {
        let (start, end) = (*self.starts.first()?, self.end);
        let code = &self.decoded.code[start..end];
        let known = |inst: &Inst| {
            inst.op != Op::Call
                && (roles(inst).is_some() || names_all(inst.op) || inst.op == Op::BranchIndex)
        };
        (self.entry && start < end && code.iter().all(known)).then_some((start, end))
    }

    /// Registers that a warp's place fills.
    pub(super) fn places(&self) -> HashSet<Var> {
        let specials = &self.decoded.functions[self.function].specials;
        let words = specials.iter().map(|(_, slot)| Var::new(Bank::Word, *slot));
        words.collect()
    }

    /// What is alive behind a block.
    pub(super) fn behind(&self, block: usize, live: &[Live]) -> Live {
        let last_at = self.starts[block + 1] - 1;
        let last = &self.decoded.code[last_at];
        let mut out = Live::default();
        let to = |out: &mut Live, at: usize| match self.index.get(&at) {
            Some(block) if *block < live.len() => out.join(&live[*block]),
            _ => out.all |= at != self.end,
        };
        match last.op {
            Op::Branch => to(&mut out, last.target as usize),
            Op::BranchIndex => {
                let table = &self.decoded.tables[last.imm as usize];
                table
                    .iter()
                    .for_each(|target| to(&mut out, *target as usize));
            }
            Op::Exit | Op::Trap => {}
            Op::Return if self.entry => {}
            Op::Call | Op::Return => out.all = true,
            _ => to(&mut out, last_at + 1),
        }
        if ends(last.op) && last.guard.is_some() {
            to(&mut out, last_at + 1);
        }
        out
    }

    /// What is alive at the start of every block.
    pub(super) fn live(&self) -> Vec<Live> {
        let count = self.starts.len() - 1;
        let mut live = vec![Live::default(); count];
        let mut changed = true;
        while changed {
            changed = false;
            for block in (0..count).rev() {
                let mut now = self.behind(block, &live);
                let code = &self.decoded.code[self.starts[block]..self.starts[block + 1]];
                code.iter().rev().for_each(|inst| now.before(inst));
                if now != live[block] {
                    live[block] = now;
                    changed = true;
                }
            }
        }
        live
    }
}

/// The runs of a function; `supported` says what the generator can do.
pub(super) fn runs(
    decoded: &Decoded,
    function: usize,
    supported: impl Fn(&Inst) -> bool,
) -> Vec<Run> {
    let blocks = Blocks::new(decoded, function);
    if blocks.starts.len() < 2 {
        return Vec::new();
    }
    let live = blocks.live();
    let mut runs = Vec::new();
    for block in 0..live.len() {
        let mut behind = blocks.behind(block, &live);
        let mut at = blocks.starts[block + 1];
        while at > blocks.starts[block] {
            let end = at;
            let alive = behind.clone();
            let mut written = HashSet::new();
            let mut touched = Touched::default();
            while at > blocks.starts[block]
                && supported(&decoded.code[at - 1])
                && touched.precede(&decoded.code[at - 1])
            {
                at -= 1;
                behind.before(&decoded.code[at]);
                written.extend(
                    roles(&decoded.code[at])
                        .map(|it| it.writes)
                        .unwrap_or_default(),
                );
            }
            let accesses = touched != Touched::default();
            if end - at >= SHORTEST || accesses {
                written.retain(|var| alive.all || alive.vars.contains(var));
                runs.push(Run {
                    start: at,
                    len: end - at,
                    live: written,
                });
            }
            if at > blocks.starts[block] && !supported(&decoded.code[at - 1]) {
                at -= 1;
                behind.before(&decoded.code[at]);
            }
        }
    }
    runs
}
