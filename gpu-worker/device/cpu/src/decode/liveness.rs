//! Liveness: the instructions between which each register of a body is needed.
//!
//! Each register is followed backwards from the blocks that read it to the blocks that write it.
//! That takes as many steps as there are blocks in which it is live. All registers together have a
//! budget of steps in proportion to the body. A register that finds no steps left is assumed to be
//! live everywhere, which is correct but wastes room.

use super::accesses::Accesses;
use super::flow::Flow;
use super::form::{Inst, Op, Passed, Slot};
use super::lists::Lists;
use crate::error::BuildError;
use crate::watched::Watched;

/// Steps for each instruction and each access, and for every body.
const STEPS: (usize, usize) = (16, 1 << 16);

/// Approximate bytes that the analysis takes for a register.
const REGISTER: usize = 64;

/// The body that is analysed.
pub(super) struct Subject<'a> {
    pub(super) code: &'a [Inst],
    /// Start of its code in the module's.
    pub(super) first: usize,
    pub(super) flow: &'a Flow,
    pub(super) accesses: &'a Accesses,
    /// Number of its registers.
    pub(super) registers: usize,
    /// The part of the module's pool of operands and calls that is decoded.
    pub(super) pool: &'a [Slot],
    pub(super) calls: &'a [super::form::CallSite],
    /// Registers for its arguments and results.
    pub(super) params: &'a [u32],
    pub(super) results: &'a [u32],
    /// Registers that keep a value from the start to the end.
    pub(super) kept: &'a [u32],
    /// Cancels the analysis on request.
    pub(super) watched: &'a Watched<'a>,
}

/// The first and the last instruction for which a register must keep its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Span {
    /// The span of a register without accesses.
    pub(super) const NEVER: Self = Self {
        first: u32::MAX,
        last: 0,
    };

    fn add(&mut self, first: u32, last: u32) {
        self.first = self.first.min(first);
        self.last = self.last.max(last);
    }
}

/// Result of the analysis of a body.
#[derive(Default)]
pub(super) struct Lives {
    pub(super) spans: Vec<Span>,
    /// Registers that may be read before they are written: a frame must zero them.
    pub(super) unwritten: Vec<u32>,
    /// Registers that are live behind each block.
    pub(super) behind: Lists,
    /// Registers that are assumed to be live everywhere.
    pub(super) always: Vec<u32>,
}

/// Spans of the registers that each statement names; within a statement, no two registers share a
/// place.
fn named(subject: &Subject<'_>) -> Vec<Span> {
    let mut spans = vec![Span::NEVER; subject.registers];
    let end = subject.code.len() as u32;
    let begins = &subject.accesses.begins;
    let mut at = 0;
    let mut begun = (0_u32, subject.pool.len() as u32);
    for place in 0..=begins.len() {
        // Code before the first statement and behind the last has no operands in the pool.
        let (until, pool) = begins
            .get(place)
            .map_or((end, subject.pool.len() as u32), |begin| {
                (begin.code - subject.first as u32, begin.pool)
            });
        let mut add = |slot: Slot| {
            if let Some(register) = slot.number() {
                spans[register].add(begun.0, until.max(begun.0 + 1) - 1);
            }
        };
        while at < until {
            let inst = &subject.code[at as usize];
            inst.slots.iter().for_each(|slot| add(*slot));
            if let Some(guard) = inst.guard {
                add(Slot(guard.slot));
            }
            if inst.op == Op::Call {
                subject.calls[inst.target as usize]
                    .registers()
                    .for_each(|slot| add(*slot));
            }
            at += 1;
        }
        let pooled = begun.1.min(pool) as usize..pool as usize;
        subject.pool[pooled].iter().for_each(|slot| add(*slot));
        begun = (until, pool);
    }
    spans
}

/// The accesses of each register, in order: the block, and true for a write.
fn by_register(subject: &Subject<'_>) -> Lists {
    let mut block = 0;
    let starts = &subject.flow.starts;
    let mut pairs = Vec::with_capacity(subject.accesses.list.len());
    for access in &subject.accesses.list {
        let at = access.at - subject.first as u32;
        while starts.get(block + 1).is_some_and(|start| *start <= at) {
            block += 1;
        }
        pairs.push((
            access.register,
            (block as u32) << 1 | u32::from(access.write),
        ));
    }
    Lists::of(subject.registers, &pairs)
}

/// Follows registers backwards, one after another.
struct Walk<'a> {
    flow: &'a Flow,
    steps: usize,
    /// The register that reached a node last: at its start, behind it, and by a write in it.
    inside: Vec<u32>,
    outside: Vec<u32>,
    written: Vec<u32>,
    path: Vec<u32>,
    /// Blocks, each with a register that is live behind it.
    behind: Vec<(u32, u32)>,
}

/// No register.
const NONE: u32 = u32::MAX;

/// Result of following a register.
struct Trace {
    span: Span,
    /// True if the register is live at the start of the body.
    begins: bool,
}

impl<'a> Walk<'a> {
    fn new(flow: &'a Flow, steps: usize) -> Self {
        let none = || vec![NONE; flow.nodes];
        Self {
            flow,
            steps,
            inside: none(),
            outside: none(),
            written: none(),
            path: Vec::new(),
            behind: Vec::new(),
        }
    }

    /// Marks a register as live at a node's start, and therefore behind all predecessors. False if
    /// no steps are left.
    fn enter(&mut self, register: u32, node: u32, trace: &mut Trace) -> bool {
        let flow = self.flow;
        if std::mem::replace(&mut self.inside[node as usize], register) == register {
            return true;
        }
        if let Some(start) = flow.starts.get(node as usize) {
            trace.span.add(*start, *start);
            trace.begins |= node == 0;
        }
        let before = flow.before.get(node as usize);
        self.path.extend(before);
        let left = self.steps.checked_sub(1 + before.len());
        self.steps = left.unwrap_or(0);
        left.is_some()
    }

    /// Follows a register from its accesses, and from the returns if it is returned. `None` if no
    /// steps are left.
    fn follow(&mut self, register: u32, accesses: &[u32], returned: bool) -> Option<Trace> {
        let mut trace = Trace {
            span: Span::NEVER,
            begins: false,
        };
        let flow = self.flow;
        let found = self.behind.len();
        self.path.clear();
        for access in accesses.iter().filter(|access| *access & 1 != 0) {
            self.written[(access >> 1) as usize] = register;
        }
        if returned {
            self.path.extend(&flow.returns);
        }
        let mut block = NONE;
        let mut fits = true;
        for access in accesses {
            let first = std::mem::replace(&mut block, access >> 1) != access >> 1;
            if first && access & 1 == 0 {
                fits &= self.enter(register, block, &mut trace);
            }
        }
        while fits && let Some(node) = self.path.pop() {
            if std::mem::replace(&mut self.outside[node as usize], register) == register {
                continue;
            }
            if (node as usize) < flow.starts.len() {
                let last = flow.end_of(node as usize) - 1;
                trace.span.add(last, last);
                self.behind.push((node, register));
            }
            if self.written[node as usize] != register {
                fits = self.enter(register, node, &mut trace);
            }
        }
        if !fits {
            self.behind.truncate(found);
            return None;
        }
        Some(trace)
    }
}

/// Analyses a body.
pub(super) fn lives(subject: &Subject<'_>) -> Result<Lives, BuildError> {
    let mut spans = named(subject);
    let end = subject.code.len().max(1) as u32 - 1;
    let everywhere = Span {
        first: 0,
        last: end,
    };
    for register in subject.params {
        spans[*register as usize].add(0, 0);
    }
    if subject.code.is_empty() {
        return Ok(Lives {
            spans,
            ..Lives::default()
        });
    }
    let accesses = by_register(subject);
    let size = subject.code.len() + subject.accesses.list.len();
    let mut walk = Walk::new(subject.flow, STEPS.0 * size + STEPS.1);
    // Registers that hold a value when the body begins.
    let mut is_given = vec![false; subject.registers];
    let mut is_result = vec![false; subject.registers];
    let mark = |flags: &mut Vec<bool>, list: &[u32]| {
        list.iter().for_each(|at| flags[*at as usize] = true);
    };
    mark(&mut is_given, subject.params);
    mark(&mut is_given, subject.kept);
    mark(&mut is_result, subject.results);
    let (mut unwritten, mut always) = (Vec::new(), Vec::new());
    for register in 0..subject.registers {
        subject.watched.grown(REGISTER)?;
        let (number, list) = (register as u32, accesses.get(register));
        let begins = match walk.follow(number, list, is_result[register]) {
            Some(trace) => {
                let Span { first, last } = trace.span;
                spans[register].add(first, last);
                trace.begins
            }
            None => {
                spans[register] = everywhere;
                always.push(number);
                true
            }
        };
        if begins && !is_given[register] {
            unwritten.push(number);
        }
    }
    for register in subject.kept {
        spans[*register as usize] = everywhere;
    }
    Ok(Lives {
        spans,
        unwritten,
        behind: Lists::of(subject.flow.starts.len(), &walk.behind),
        always,
    })
}

/// The register numbers in a list of arguments or results.
pub(super) fn numbers(list: &[Passed]) -> Vec<u32> {
    let number = |passed: &Passed| match passed {
        Passed::Register(_, slot) => slot.number().map(|number| number as u32),
        Passed::Local(..) => None,
    };
    list.iter().filter_map(number).collect()
}
