//! A function cut into pieces that run without an exit, and pieces cut into segments.

use super::class::Classes;
use crate::decode::form::{Inst, Op};
use crate::native::def_use::Var;
use crate::native::plan::{Blocks, Live, Touched};
use crate::native::supported::supported;
use std::collections::{BTreeMap, HashSet};

/// Minimum instructions after an unsupported one; fewer are not worth the entry.
const SHORTEST: usize = 4;

/// Instructions without an access to a space after a store to it, or a store after an access.
pub(super) struct Segment {
    pub(super) start: usize,
    pub(super) end: usize,
    /// Registers with steps that are live at its start.
    pub(super) scalars: Vec<Var>,
    /// Registers that are live behind it.
    pub(super) live: HashSet<Var>,
}

/// The end of a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// An instruction for the interpreter.
    Unknown,
    /// A jump, or the end of the threads.
    Jump,
    /// The next block.
    Falls,
}

/// A basic block, or a part of it between unsupported instructions.
pub(super) struct Piece {
    pub(super) start: usize,
    /// Position of its end.
    pub(super) end: usize,
    pub(super) how: End,
    pub(super) segments: Vec<Segment>,
    /// Registers with steps that are live at its start, before its end, and behind it.
    pub(super) scalars: Vec<Var>,
    pub(super) before: Vec<Var>,
    pub(super) behind: Vec<Var>,
    /// True if the interpreter enters here.
    pub(super) entered: bool,
    /// True if the piece can be reached.
    pub(super) reached: bool,
}

fn is_known(inst: &Inst) -> bool {
    supported(inst) || inst.op == Op::Nothing
}

/// Starts of the segments of a straight piece of code.
fn cuts(code: &[Inst], start: usize, end: usize) -> Vec<usize> {
    let mut cuts = vec![start];
    let mut touched = Touched::default();
    for (at, inst) in code[start..end].iter().enumerate() {
        if !touched.follow(inst) {
            cuts.push(start + at);
            touched = Touched::default();
            touched.follow(inst);
        }
    }
    cuts
}

/// Maximum number of live registers listed per instruction: ten times as many as compiled kernels
/// have.
const LISTED: usize = 256;

/// Cuts a function; `None` if part of it is not supported, or too many registers are live at once.
pub(super) fn pieces(blocks: &Blocks<'_>, classes: &Classes<'_>) -> Option<Vec<Piece>> {
    let code = &blocks.decoded.code;
    let mut pieces = Vec::new();
    let (start, end) = (*blocks.starts.first()?, *blocks.starts.last()?);
    let mut left = LISTED * (end - start);
    for block in 0..blocks.len() {
        let (first, last) = (blocks.starts[block], blocks.starts[block + 1]);
        let mut list = Vec::new();
        let mut at = first;
        while at < last {
            let mut end = at;
            while end < last && is_known(&code[end]) {
                end += 1;
            }
            let how = match code.get(end).filter(|_| end < last).map(|inst| inst.op) {
                None => End::Falls,
                Some(Op::Branch | Op::Exit | Op::Return) => End::Jump,
                Some(_) => End::Unknown,
            };
            list.push((at, end, how));
            at = end + usize::from(how != End::Falls);
        }
        let behind = blocks.behind(block);
        let wanted = list.iter().flat_map(|(start, end, _)| {
            let mut cuts = cuts(code, *start, *end);
            cuts.push(*end);
            cuts
        });
        let sets = alive(code, (first, last), &behind, wanted.collect());
        if sets.values().any(|set| set.all) || behind.all {
            return None;
        }
        let listed = sets.values().map(|set| set.vars.len());
        left = left.checked_sub(listed.sum())?;
        for (start, end, how) in list {
            pieces.push(piece(
                code,
                (start, end, how),
                start == first,
                &sets,
                &behind,
                classes,
            ));
        }
    }
    Some(pieces)
}

fn scalars(set: &Live, classes: &Classes<'_>) -> Vec<Var> {
    let stepped = |var: &&Var| !var.is_constant() && classes.step(**var).is_some();
    set.vars.iter().filter(stepped).copied().collect()
}

fn piece(
    code: &[Inst],
    (start, end, how): (usize, usize, End),
    first: bool,
    sets: &BTreeMap<usize, Live>,
    behind: &Live,
    classes: &Classes<'_>,
) -> Piece {
    let mut starts = cuts(code, start, end);
    starts.push(end);
    let none = Live::default();
    let set = |at: &usize| sets.get(at).unwrap_or(&none);
    let segments = starts.windows(2).filter(|pair| pair[0] < pair[1]);
    let segments = segments.map(|pair| Segment {
        start: pair[0],
        end: pair[1],
        scalars: scalars(set(&pair[0]), classes),
        live: set(&pair[1]).vars.iter().copied().collect(),
    });
    // A piece before an unsupported instruction is left at once.
    let worth = if how == End::Unknown { SHORTEST } else { 1 };
    let entered = end - start >= if first { worth } else { SHORTEST };
    Piece {
        start,
        end,
        how,
        segments: segments.collect(),
        scalars: scalars(set(&start), classes),
        before: scalars(set(&end), classes),
        behind: scalars(behind, classes),
        entered,
        reached: first || entered,
    }
}

/// Live registers before the wanted instructions of a block.
fn alive(
    code: &[Inst],
    (first, last): (usize, usize),
    behind: &Live,
    wanted: HashSet<usize>,
) -> BTreeMap<usize, Live> {
    let mut sets = BTreeMap::new();
    let mut now = behind.clone();
    for at in (first..=last).rev() {
        if at < last {
            now.before(&code[at], &[]);
        }
        if wanted.contains(&at) {
            sets.insert(at, now.clone());
        }
    }
    sets
}
