//! Registers that may be read before they are written: those a frame must find zeroed.
//!
//! A frame's registers lie where an earlier block's or call's lay. Clearing all of them each time
//! would cost; so the reads and writes of a body are noted while it is decoded, and the usual
//! backward analysis over its basic blocks says which registers are alive at its start.

use super::form::{Bank, Frame, GuardSlot, Inst, Op, Passed, Slot};

/// A register.
pub(crate) type Register = (Bank, Slot);

/// A read of a register, or a write that no guard can prevent, by the statement whose code begins
/// at `at`. Reads of a statement come before its writes.
#[derive(Clone, Copy, Debug)]
struct Access {
    at: u32,
    register: Register,
    write: bool,
}

/// What a body's statements do to its registers, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    list: Vec<Access>,
    /// Where the current statement's code begins.
    at: u32,
    guarded: bool,
}

/// Beyond so many words of bit sets the analysis gives up and clears every candidate.
const SET_LIMIT: usize = 1 << 20;
/// Beyond so many passes, too. Loops nested in each other take one each.
const PASSES: usize = 64;

impl Accesses {
    /// A statement begins.
    pub(crate) fn statement(&mut self, at: usize, guard: Option<GuardSlot>) {
        self.at = at as u32;
        self.guarded = guard.is_some();
    }

    pub(crate) fn read(&mut self, bank: Bank, slot: Slot) {
        let register = (bank, slot);
        // A target may be decoded before a source; the source is read first all the same.
        let mut place = self.list.len();
        while place > 0 && self.list[place - 1].at == self.at && self.list[place - 1].write {
            place -= 1;
        }
        let access = Access {
            at: self.at,
            register,
            write: false,
        };
        self.list.insert(place, access);
    }

    pub(crate) fn write(&mut self, bank: Bank, slot: Slot) {
        if !self.guarded {
            self.list.push(Access {
                at: self.at,
                register: (bank, slot),
                write: true,
            });
        }
    }
}

/// A body's basic blocks.
struct Blocks {
    /// First instruction of each, counted from the body's start.
    starts: Vec<usize>,
    next: Vec<Vec<usize>>,
    /// Whether it may return.
    returns: Vec<bool>,
}

impl Blocks {
    /// Cuts a body; jumps are resolved.
    fn of(code: &[Inst], first: usize, tables: &[Vec<u32>]) -> Self {
        let targets = |inst: &Inst| -> Vec<usize> {
            match inst.op {
                Op::Branch => vec![inst.target as usize - first],
                Op::BranchIndex => {
                    let table = &tables[inst.imm as usize];
                    table
                        .iter()
                        .map(|target| *target as usize - first)
                        .collect()
                }
                _ => Vec::new(),
            }
        };
        let ends = |op: Op| {
            matches!(
                op,
                Op::Branch | Op::BranchIndex | Op::Return | Op::Exit | Op::Trap
            )
        };
        let mut leads = vec![false; code.len() + 1];
        leads[0] = true;
        for (at, inst) in code.iter().enumerate() {
            leads[at + 1] |= ends(inst.op);
            for target in targets(inst) {
                leads[target] = true;
            }
        }
        let starts: Vec<usize> = (0..code.len()).filter(|at| leads[*at]).collect();
        let block = |at: usize| starts.partition_point(|start| *start <= at) - 1;
        let (mut next, mut returns) = (Vec::new(), Vec::new());
        for (index, _) in starts.iter().enumerate() {
            let end = starts.get(index + 1).copied().unwrap_or(code.len());
            let last = &code[end - 1];
            let falls = !ends(last.op) || last.guard.is_some();
            let mut list: Vec<usize> = targets(last).into_iter().map(block).collect();
            if falls && end < code.len() {
                list.push(index + 1);
            }
            next.push(list);
            returns.push(last.op == Op::Return);
        }
        Self {
            starts,
            next,
            returns,
        }
    }
}

/// A function whose registers are looked at.
pub(crate) struct Subject<'a> {
    pub(crate) code: &'a [Inst],
    /// Where its code begins in the module's.
    pub(crate) first: usize,
    pub(crate) tables: &'a [Vec<u32>],
    pub(crate) frame: Frame,
    pub(crate) params: &'a [Passed],
    pub(crate) results: &'a [Passed],
}

fn registers(list: &[Passed]) -> impl Iterator<Item = Register> {
    list.iter().filter_map(|passed| match passed {
        Passed::Register(bank, slot) => Some((*bank, *slot)),
        Passed::Local(..) => None,
    })
}

/// Sets of candidates, one row of words per block.
struct Sets {
    width: usize,
    /// Read before a write of the same block.
    exposed: Vec<u64>,
    written: Vec<u64>,
    alive: Vec<u64>,
}

/// Registers numbered from 0, and tables by that number.
struct Numbers {
    words: usize,
    doubles: usize,
    all: usize,
}

impl Numbers {
    fn of(frame: Frame) -> Self {
        let words = frame.words as usize / 128;
        let doubles = frame.doubles as usize / 256;
        let all = words + doubles + frame.preds as usize;
        Self {
            words,
            doubles,
            all,
        }
    }

    fn number(&self, (bank, slot): Register) -> usize {
        let at = slot.0 as usize;
        match bank {
            Bank::Word => at / 128,
            Bank::Double => self.words + at / 256,
            Bank::Pred => self.words + self.doubles + at,
        }
    }
}

/// No candidate, no block.
const NONE: u32 = u32::MAX;

/// Registers that some block reads before it writes them, each with its number among them.
struct Candidates {
    numbers: Numbers,
    list: Vec<Register>,
    index: Vec<u32>,
}

impl Candidates {
    fn new(numbers: Numbers) -> Self {
        let index = vec![NONE; numbers.all];
        Self {
            numbers,
            list: Vec::new(),
            index,
        }
    }

    fn add(&mut self, register: Register) {
        let place = &mut self.index[self.numbers.number(register)];
        if *place == NONE {
            *place = self.list.len() as u32;
            self.list.push(register);
        }
    }

    fn find(&self, register: Register) -> Option<usize> {
        let at = self.index[self.numbers.number(register)];
        (at != NONE).then_some(at as usize)
    }
}

/// The registers that may be read before they are written; parameters are written by the call.
pub(crate) fn unwritten(accesses: &Accesses, subject: &Subject<'_>) -> Vec<Register> {
    if subject.code.is_empty() {
        return Vec::new();
    }
    let blocks = Blocks::of(subject.code, subject.first, subject.tables);
    let numbers = Numbers::of(subject.frame);
    let (exposed, written) = summary(accesses, &blocks, subject.first, &numbers);
    let mut candidates = Candidates::new(numbers);
    for (_, register) in &exposed {
        candidates.add(*register);
    }
    for register in registers(subject.results) {
        candidates.add(register);
    }
    let width = candidates.list.len().div_ceil(64);
    let count = blocks.starts.len();
    let params: Vec<Register> = registers(subject.params).collect();
    let mut all = candidates.list.clone();
    all.retain(|register| !params.contains(register));
    if width * count > SET_LIMIT {
        return all;
    }
    let set = |list: &[(usize, Register)]| {
        let mut bits = vec![0_u64; width * count];
        for (block, register) in list {
            if let Some(at) = candidates.find(*register) {
                bits[block * width + at / 64] |= 1 << (at % 64);
            }
        }
        bits
    };
    let mut sets = Sets {
        width,
        exposed: set(&exposed),
        written: set(&written),
        alive: vec![0; width * count],
    };
    let found = registers(subject.results).filter_map(|register| candidates.find(register));
    let results: Vec<usize> = found.collect();
    if settle(&mut sets, &blocks, &results) {
        let alive = |at: usize| sets.alive[at / 64] >> (at % 64) & 1 != 0;
        all.retain(|register| candidates.find(*register).is_some_and(alive));
    }
    all
}

type ByBlock = Vec<(usize, Register)>;

/// What each block reads before it writes it, and what it writes.
fn summary(
    accesses: &Accesses,
    blocks: &Blocks,
    first: usize,
    numbers: &Numbers,
) -> (ByBlock, ByBlock) {
    let (mut exposed, mut written) = (Vec::new(), Vec::new());
    // The block that wrote a register last.
    let mut writer = vec![NONE; numbers.all];
    let mut block = 0;
    for access in &accesses.list {
        let at = access.at as usize - first;
        while blocks
            .starts
            .get(block + 1)
            .is_some_and(|start| *start <= at)
        {
            block += 1;
        }
        let last = &mut writer[numbers.number(access.register)];
        if *last == block as u32 {
            continue;
        }
        if access.write {
            *last = block as u32;
            written.push((block, access.register));
        } else {
            exposed.push((block, access.register));
        }
    }
    (exposed, written)
}

/// Runs the analysis backwards until nothing changes; false if that takes too long.
fn settle(sets: &mut Sets, blocks: &Blocks, results: &[usize]) -> bool {
    let width = sets.width;
    let mut after = vec![0_u64; width];
    for _ in 0..PASSES {
        let mut changed = false;
        for block in (0..blocks.starts.len()).rev() {
            after.fill(0);
            for next in &blocks.next[block] {
                for (word, alive) in after.iter_mut().zip(&sets.alive[next * width..]) {
                    *word |= alive;
                }
            }
            if blocks.returns[block] {
                for at in results {
                    after[at / 64] |= 1 << (at % 64);
                }
            }
            for (at, word) in after.iter().enumerate() {
                let place = block * width + at;
                let alive = sets.exposed[place] | word & !sets.written[place];
                changed |= alive != sets.alive[place];
                sets.alive[place] = alive;
            }
        }
        if !changed {
            return true;
        }
    }
    false
}
