//! The runs of instructions that become native code, and the live registers behind them.

use super::def_use::{Var, def_use};
use crate::decode::Decoded;
use crate::decode::form::{Bank, CallSite, Callee, Function, Inst, Op, Passed, Place, Slot};
use std::collections::{BTreeSet, HashSet};

/// Minimum instructions of a run; fewer are not worth a call.
const SHORTEST: usize = 2;
/// Maximum instructions of a run; searches within a run take at most this many steps.
const LONGEST: usize = 1024;

/// A straight run of instructions without a label inside.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) start: usize,
    pub(super) len: usize,
    /// Registers that are written in it and may be read behind it.
    pub(super) live: HashSet<Var>,
}

/// Spaces that a run reads and writes, one bit each.
///
/// Lanes of one group run the whole run before the next group begins. No lane may see a store too
/// early or too late. So a run has no access to a space after a store to it, and no store to a
/// space after an access to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    loads: u8,
    stores: u8,
}

impl Touched {
    /// Adds an instruction in front, if it may share the run.
    fn precede(&mut self, inst: &Inst) -> bool {
        self.follow(inst)
    }

    /// Adds an instruction at the end, if it may share the run.
    pub(super) fn follow(&mut self, inst: &Inst) -> bool {
        let space = |place| match place {
            Place::Shared => 1,
            Place::Global | Place::Const => 2,
            _ => 3,
        };
        match inst.op {
            Op::Load { at, .. } => {
                let apart = self.stores & space(at.place) == 0;
                self.loads |= space(at.place);
                apart
            }
            Op::Store { at, .. } => {
                let apart = (self.loads | self.stores) & space(at.place) == 0;
                self.stores |= space(at.place);
                apart
            }
            _ => true,
        }
    }
}

/// Live registers at a place; `all` if nothing is known.
#[derive(Clone, Default, PartialEq)]
pub(super) struct Live {
    pub(super) all: bool,
    pub(super) vars: BTreeSet<Var>,
}

impl Live {
    fn add(&mut self, var: Var) {
        if !var.is_constant() {
            self.vars.insert(var);
        }
    }

    /// The set before an instruction, from the set behind it.
    pub(super) fn before(&mut self, inst: &Inst, sites: &[CallSite]) {
        match def_use(inst) {
            Some(it) => {
                if inst.guard.is_none() {
                    it.writes.iter().for_each(|var| {
                        self.vars.remove(var);
                    });
                }
                it.reads.into_iter().for_each(|var| self.add(var));
            }
            None if inst.op == Op::Call => {
                let site = &sites[inst.target as usize];
                let callee = match site.callee {
                    Callee::Register(slot) => Some(Passed::Register(Bank::Double, slot)),
                    _ => None,
                };
                for passed in site.args.iter().chain(&callee) {
                    if let Passed::Register(bank, slot) = passed {
                        self.add(Var::new(*bank, *slot));
                    }
                }
            }
            None if !names_all(inst.op) => self.all = true,
            None => {
                for slot in inst.slots {
                    let banks = [Bank::Word, Bank::Double, Bank::Pred];
                    for bank in banks {
                        self.add(Var::new(bank, slot));
                    }
                }
            }
        }
        if let Some(guard) = inst.guard {
            self.add(Var::new(Bank::Pred, Slot(guard.slot)));
        }
    }
}

/// True if an operation reads no registers other than its slots.
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
            | Op::BranchIndex
            | Op::Yield
            | Op::Exit
            | Op::Return
            | Op::Trap
    )
}

/// One function's code as basic blocks.
pub(super) struct Blocks<'d> {
    pub(super) decoded: &'d Decoded,
    pub(super) function: &'d Function,
    /// True for an entry.
    entry: bool,
    end: usize,
    /// Starts of blocks, and the function's end.
    pub(super) starts: Vec<usize>,
    /// Registers that are assumed to be live everywhere.
    always: HashSet<Var>,
}

impl<'d> Blocks<'d> {
    pub(super) fn new(decoded: &'d Decoded, function: usize, entry: bool) -> Self {
        let next = decoded.functions.get(function + 1);
        let end = next.map_or(decoded.code.len(), |next| next.start as usize);
        let function = &decoded.functions[function];
        let mut starts: Vec<usize> = function
            .alive
            .starts
            .iter()
            .map(|at| *at as usize)
            .collect();
        starts.push(end);
        let always = function.alive.always.iter();
        Self {
            decoded,
            function,
            entry,
            end,
            starts,
            always: always.map(|at| place(function, *at)).collect(),
        }
    }

    /// Number of blocks.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Its instructions, if it is a kernel in which every read and written register is named.
    pub(super) fn followed(&self) -> Option<(usize, usize)> {
        let (start, end) = (*self.starts.first()?, self.end);
        // The live ranges of all registers must be known.
        if !self.always.is_empty() {
            return None;
        }
        let code = &self.decoded.code[start..end];
        let known = |inst: &Inst| {
            let named = def_use(inst).is_some() || names_all(inst.op);
            named && !matches!(inst.op, Op::Call | Op::BranchIndex)
        };
        (self.entry && start < end && code.iter().all(known)).then_some((start, end))
    }

    /// Registers that are filled from a warp's place.
    pub(super) fn places(&self) -> HashSet<Var> {
        let words = self
            .function
            .specials
            .iter()
            .map(|(_, slot)| Var::new(Bank::Word, *slot));
        words.collect()
    }

    /// Live registers behind a block.
    pub(super) fn behind(&self, block: usize) -> Live {
        let alive = self.function.alive.behind.get(block).iter();
        Live {
            all: false,
            vars: alive.map(|at| place(self.function, *at)).collect(),
        }
    }

    /// True if a register is live in this set.
    fn lives(&self, alive: &Live, var: &Var) -> bool {
        alive.all || alive.vars.contains(var) || self.always.contains(var)
    }

    /// Steps a set of live registers backwards over a piece of code.
    fn back(&self, alive: &mut Live, start: usize, end: usize) {
        let code = &self.decoded.code[start..end];
        let sites = &self.decoded.sites;
        code.iter().rev().for_each(|inst| alive.before(inst, sites));
    }
}

fn place(function: &Function, register: u32) -> Var {
    let (bank, slot) = function.alive.places[register as usize];
    Var::new(bank, slot)
}

/// The runs of a function; `supported` tells the generator's instructions.
pub(super) fn runs(blocks: &Blocks<'_>, supported: impl Fn(&Inst) -> bool) -> Vec<Run> {
    let code = &blocks.decoded.code;
    let mut runs = Vec::new();
    for block in 0..blocks.len() {
        let mut alive = blocks.behind(block);
        let first = blocks.starts[block];
        let mut at = blocks.starts[block + 1];
        while at > first {
            let end = at;
            let mut written = HashSet::new();
            let mut touched = Touched::default();
            while at > first
                && end - at < LONGEST
                && supported(&code[at - 1])
                && touched.precede(&code[at - 1])
            {
                at -= 1;
                let writes = def_use(&code[at]).map(|it| it.writes).unwrap_or_default();
                written.extend(writes);
            }
            let accesses = touched != Touched::default();
            if end - at >= SHORTEST || accesses {
                written.retain(|var| blocks.lives(&alive, var));
                runs.push(Run {
                    start: at,
                    len: end - at,
                    live: written,
                });
            }
            blocks.back(&mut alive, at, end);
            if at > first && !supported(&code[at - 1]) {
                at -= 1;
                blocks.back(&mut alive, at, at + 1);
            }
        }
    }
    runs
}
