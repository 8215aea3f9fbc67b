//! Classes of registers by the relation of their lanes: equal, in steps from lane to lane, or
//! varying.
//!
//! The analysis examines definitions alone, whatever path leads to them. The code that it serves
//! runs a definition for all 32 lanes at once, and checks the registers that it takes over at its
//! start. So a register that diverged lanes wrote differently is found there, and not here.

use crate::decode::form::{
    Bank, Constant, Function, Inst, Int1, Int2, Int3, Logic, Op, Slot, Special,
};
use crate::native::access::Access;
use crate::native::constants::Constants;
use crate::native::def_use::{Var, def_use};
use crate::native::supported::supported;
use ptx::Scalar;
use std::collections::{HashMap, HashSet, VecDeque};

/// Maximum step; 31 of them must fit an instruction's constant.
const WIDEST: i64 = 1 << 24;

/// Knowledge of a register's lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// No definition seen yet.
    Unknown,
    /// Lane 0's value plus the lane times this, modulo the register's size.
    Steps(i64),
    Varying,
}

impl Class {
    fn join(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unknown, it) | (it, Self::Unknown) => it,
            (a, b) if a == b => a,
            _ => Self::Varying,
        }
    }

    fn steps(step: i64) -> Self {
        if step.abs() <= WIDEST {
            Self::Steps(step)
        } else {
            Self::Varying
        }
    }
}

/// The classes of a function's registers.
pub(super) struct Classes<'d> {
    map: HashMap<Var, Class>,
    known: Constants<'d>,
    /// Predicates that only branches read.
    branching: HashSet<Var>,
}

/// Every register that an instruction names.
fn named(inst: &Inst) -> impl Iterator<Item = Var> {
    let banks = [Bank::Word, Bank::Double, Bank::Pred];
    let slots = inst.slots;
    banks
        .into_iter()
        .flat_map(move |bank| slots.map(|slot| Var::new(bank, slot)))
}

/// True if a branch only jumps over a few following instructions that do nothing but load and
/// compute.
fn spans(code: &[Inst], first: usize, at: usize) -> bool {
    let Some(inst) = code.get(at) else {
        return false;
    };
    let Some(end) = (inst.target as usize).checked_sub(first) else {
        return false;
    };
    let short = inst.op == Op::Branch && inst.guard.is_some() && end > at + 1 && end - at <= 64;
    short
        && end <= code.len()
        && code[at + 1..end]
            .iter()
            .all(|inst| supported(inst) && !matches!(inst.op, Op::Store { .. }))
}

/// Predicates that only decide branches. If such a predicate differs between lanes, code for the
/// whole warp cannot use it anyway.
fn branching(code: &[Inst], first: usize) -> HashSet<Var> {
    let mut found: HashSet<Var> = code
        .iter()
        .filter_map(|inst| match inst.op {
            Op::Setp(..) | Op::Logic(..) => Some(Var::new(Bank::Pred, inst.slots[0])),
            _ => None,
        })
        .collect();
    // A predicate that decides only such predicates is one as well. It is examined again if one of
    // them turns out not to be.
    let mut writers: HashMap<Var, Vec<usize>> = HashMap::new();
    for (at, inst) in code.iter().enumerate() {
        if matches!(inst.op, Op::Logic(..)) {
            let var = Var::new(Bank::Pred, inst.slots[0]);
            writers.entry(var).or_default().push(at);
        }
    }
    let mut due = Worklist::new(code.len());
    (0..code.len()).for_each(|at| due.add(at));
    while let Some(at) = due.next() {
        let inst = &code[at];
        let decides = matches!(inst.op, Op::Logic(..))
            && found.contains(&Var::new(Bank::Pred, inst.slots[0]));
        let mut lose = |var: &Var| {
            if found.remove(var) {
                let writers = writers.get(var).into_iter().flatten();
                writers.for_each(|at| due.add(*at));
            }
        };
        let guard = inst.guard.map(|it| Var::new(Bank::Pred, Slot(it.slot)));
        let jumps =
            matches!(inst.op, Op::Branch | Op::Exit | Op::Return) && !spans(code, first, at);
        if !jumps && let Some(guard) = guard {
            lose(&guard);
        }
        match def_use(inst) {
            Some(_) if decides => {}
            Some(it) => it.reads.iter().for_each(lose),
            None => named(inst).for_each(|var| lose(&var)),
        }
    }
    found
}

/// Instructions to examine, each listed once at a time.
struct Worklist {
    list: VecDeque<usize>,
    listed: Vec<bool>,
}

impl Worklist {
    fn new(count: usize) -> Self {
        Self {
            list: VecDeque::new(),
            listed: vec![false; count],
        }
    }

    fn add(&mut self, at: usize) {
        if !std::mem::replace(&mut self.listed[at], true) {
            self.list.push_back(at);
        }
    }

    fn next(&mut self) -> Option<usize> {
        let at = self.list.pop_front()?;
        self.listed[at] = false;
        Some(at)
    }
}

/// The instructions with results that depend on each register.
fn readers(code: &[Inst]) -> HashMap<Var, Vec<usize>> {
    let mut readers: HashMap<Var, Vec<usize>> = HashMap::new();
    for (at, inst) in code.iter().enumerate() {
        let guard = inst.guard.map(|it| Var::new(Bank::Pred, Slot(it.slot)));
        let reads = def_use(inst).map(|it| it.reads).unwrap_or_default();
        for var in reads.into_iter().chain(guard) {
            readers.entry(var).or_default().push(at);
        }
    }
    readers
}

impl<'d> Classes<'d> {
    /// Analyses a function's code.
    pub(super) fn new(function: &Function, code: &[Inst], known: Constants<'d>) -> Self {
        let mut it = Self {
            map: HashMap::new(),
            known,
            branching: branching(code, function.start as usize),
        };
        for (special, slot) in &function.specials {
            let step = i64::from(*special == Special::Tid(0));
            it.add(Var::new(Bank::Word, *slot), Class::Steps(step));
        }
        for (bank, slot) in &function.unwritten {
            it.add(Var::new(*bank, *slot), Class::Steps(0));
        }
        let readers = readers(code);
        let mut due = Worklist::new(code.len());
        (0..code.len()).for_each(|at| due.add(at));
        it.propagate(code, &readers, &mut due);
        // Registers that depend only on themselves have no class yet; they count as varying.
        for inst in code {
            for var in def_use(inst).map(|it| it.writes).unwrap_or_default() {
                if it.of(var) == Class::Unknown {
                    it.map.insert(var, Class::Varying);
                    let readers = readers.get(&var).into_iter().flatten();
                    readers.for_each(|at| due.add(*at));
                }
            }
        }
        it.propagate(code, &readers, &mut due);
        it
    }

    /// Examines instructions until nothing changes; a change examines the readers again.
    fn propagate(&mut self, code: &[Inst], readers: &HashMap<Var, Vec<usize>>, due: &mut Worklist) {
        while let Some(at) = due.next() {
            let inst = &code[at];
            let (class, written): (Class, Vec<Var>) = match def_use(inst) {
                Some(it) => (self.result(inst), it.writes),
                None => {
                    let named = named(inst).filter(|var| !var.is_constant());
                    (Class::Varying, named.collect())
                }
            };
            for var in written {
                if self.add(var, class) {
                    let readers = readers.get(&var).into_iter().flatten();
                    readers.for_each(|at| due.add(*at));
                }
            }
        }
    }

    fn add(&mut self, var: Var, class: Class) -> bool {
        let old = self.of(var);
        let new = old.join(class);
        self.map.insert(var, new);
        new != old
    }

    /// The class of a register or constant.
    pub(super) fn of(&self, var: Var) -> Class {
        if var.is_constant() {
            return Class::Steps(i64::from(self.known.constant(var) == Some(Constant::Lane)));
        }
        self.map.get(&var).copied().unwrap_or(Class::Unknown)
    }

    /// The step of a register, if it has one.
    pub(super) fn step(&self, var: Var) -> Option<i64> {
        match self.of(var) {
            Class::Steps(step) => Some(step),
            _ => None,
        }
    }

    /// A constant's value, as a number of its type.
    pub(super) fn bits(&self, var: Var) -> Option<u64> {
        self.known.bits(var)
    }

    /// True if an instruction is computed once for the warp.
    pub(super) fn is_scalar(&self, inst: &Inst) -> bool {
        let class = self.result(inst);
        let written = def_use(inst).map(|it| it.writes).unwrap_or_default();
        !written.is_empty()
            && matches!(class, Class::Steps(_))
            && written.iter().all(|var| self.of(*var) == class)
    }

    fn result(&self, inst: &Inst) -> Class {
        if !supported(inst) {
            return Class::Varying;
        }
        let class = self.unguarded(inst);
        let Some(guard) = inst.guard else {
            return class;
        };
        if matches!(inst.op, Op::Load { .. }) {
            return Class::Varying;
        }
        match self.of(Var::new(Bank::Pred, Slot(guard.slot))) {
            Class::Steps(0) => class,
            Class::Unknown => Class::Unknown,
            _ => Class::Varying,
        }
    }

    fn unguarded(&self, inst: &Inst) -> Class {
        let Some(it) = def_use(inst) else {
            return Class::Varying;
        };
        let mut reads = it.reads;
        if matches!(inst.op, Op::Logic(Logic::Not | Logic::Copy, ..)) {
            reads.truncate(1);
        }
        let mut steps = Vec::new();
        let mut unknown = false;
        for var in &reads {
            match self.of(*var) {
                Class::Varying => return Class::Varying,
                Class::Unknown => unknown = true,
                Class::Steps(step) => steps.push(step),
            }
        }
        if unknown {
            return Class::Unknown;
        }
        self.stepped(inst, &reads, &steps)
    }

    /// The class of a result if all sources have steps.
    fn stepped(&self, inst: &Inst, reads: &[Var], steps: &[i64]) -> Class {
        let uniform = steps.iter().all(|step| *step == 0);
        // The step of a product, if one factor is the same in all lanes. It must be known if the
        // other is not.
        let product = || match (steps[0], steps[1]) {
            (0, 0) => Some(0),
            (step, 0) => self.factor(reads[1]).map(|factor| step * factor),
            (0, step) => self.factor(reads[0]).map(|factor| step * factor),
            _ => None,
        };
        let class = |step: Option<i64>| step.map_or(Class::Varying, Class::steps);
        match inst.op {
            Op::Move32 | Op::Move64 => Class::steps(steps[0]),
            Op::Convert(to, from, _) if to != Scalar::F32 && from != Scalar::F32 => {
                Class::steps(steps[0])
            }
            Op::Int1(Int1::Neg, _) => Class::steps(-steps[0]),
            Op::Int2(Int2::Add, _) => Class::steps(steps[0] + steps[1]),
            Op::Int2(Int2::Sub, _) => Class::steps(steps[0] - steps[1]),
            Op::Int2(Int2::Mul | Int2::MulWide, _) => class(product()),
            Op::Int2(Int2::Shl, _) if !uniform => {
                let count = self.bits(reads[1]).filter(|count| *count < 24);
                class(count.map(|count| steps[0] << count))
            }
            Op::Int3(Int3::Mad | Int3::MadWide, _) => class(product().map(|it| it + steps[2])),
            Op::Setp(compare, ty, ..) if ty != Scalar::F32 => {
                let known = super::compare::condition(compare, ty).is_some();
                let one_moves = steps.len() == 2 && (steps[0] == 0 || steps[1] == 0);
                let target = Var::new(Bank::Pred, inst.slots[0]);
                let checked = self.branching.contains(&target);
                if known && one_moves && (uniform || checked) {
                    Class::Steps(0)
                } else {
                    Class::Varying
                }
            }
            Op::Load { .. } => {
                let scalar = Access::of(inst).is_some_and(|it| it.ty.size() <= 8);
                if scalar && uniform {
                    Class::Steps(0)
                } else {
                    Class::Varying
                }
            }
            Op::Int1(..) | Op::Int2(..) | Op::Logic(..) | Op::Select32 | Op::Select64
                if uniform =>
            {
                Class::Steps(0)
            }
            _ => Class::Varying,
        }
    }

    /// A constant factor, as a signed number if that makes it small.
    fn factor(&self, var: Var) -> Option<i64> {
        let bits = self.bits(var)?;
        let value = if var.bank() == Bank::Word {
            i64::from(bits as u32 as i32)
        } else {
            bits as i64
        };
        (value.abs() <= WIDEST).then_some(value)
    }
}
