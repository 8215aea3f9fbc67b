//! The reach of an entry by calls: constants, and the stacks that the calls take.

use super::form::{Constant, Frame, Function};
use std::sync::Arc;

/// Maximum bytes of a recursive program's register stacks, per warp.
const RECURSION_REGISTERS: u32 = 1 << 20;
/// Maximum bytes of a recursive program's stack of local memory, per thread.
const RECURSION_LOCAL: u32 = 32 << 10;

/// Constants with their places, in the order of the places.
pub(crate) type Placed = Arc<[(u32, Constant)]>;

/// Stack sizes of functions, including everything that they call.
pub(super) struct Stacks {
    need: Vec<Frame>,
    /// True for each function of unknown need: it calls by address, or calls itself.
    unbounded: Vec<bool>,
}

impl Stacks {
    /// Computes the stacks of all functions; visits each once.
    pub(super) fn of(functions: &[Function]) -> Self {
        let mut it = Self {
            need: vec![Frame::default(); functions.len()],
            unbounded: vec![false; functions.len()],
        };
        // Depth-first without recursion: 0 unseen, 1 on the path, 2 done with its need known.
        let mut state = vec![0_u8; functions.len()];
        let mut path = Vec::new();
        for start in 0..functions.len() {
            if state[start] == 0 {
                state[start] = 1;
                path.push((start, 0_usize));
            }
            while let Some((at, next)) = path.last_mut() {
                let (at, callee) = (*at, functions[*at].calls.get(*next));
                *next += 1;
                let Some(callee) = callee.map(|callee| *callee as usize) else {
                    it.end(at, &functions[at]);
                    state[at] = 2;
                    path.pop();
                    continue;
                };
                match state[callee] {
                    0 => {
                        state[callee] = 1;
                        path.push((callee, 0));
                    }
                    1 => it.unbounded[at] = true,
                    _ => {}
                }
            }
        }
        it
    }

    /// Finishes a function after its callees, except those that are on the current path.
    fn end(&mut self, at: usize, function: &Function) {
        let mut need = Frame::default();
        let mut unbounded = self.unbounded[at] || function.indirect;
        for callee in &function.calls {
            let below = self.need[*callee as usize];
            need.words = need.words.max(below.words);
            need.doubles = need.doubles.max(below.doubles);
            need.preds = need.preds.max(below.preds);
            need.local = need.local.max(below.local);
            unbounded |= self.unbounded[*callee as usize];
        }
        let own = function.frame;
        self.need[at] = Frame {
            words: own.words.saturating_add(need.words),
            doubles: own.doubles.saturating_add(need.doubles),
            preds: own.preds.saturating_add(need.preds),
            local: own.local.saturating_add(need.local),
        };
        self.unbounded[at] = unbounded;
    }

    /// The stack of the deepest chain of calls; a bounded allowance if that is unknown.
    pub(super) fn stack(&self, start: usize) -> Frame {
        let mut total = self.need[start];
        if self.unbounded[start] {
            total.words = total.words.saturating_add(RECURSION_REGISTERS);
            total.doubles = total.doubles.saturating_add(RECURSION_REGISTERS);
            total.preds = total.preds.saturating_add(RECURSION_REGISTERS / 128);
            total.local = total.local.saturating_add(RECURSION_LOCAL);
        }
        total.local = total.local.next_multiple_of(16);
        total
    }
}

/// Maximum steps: per function, call and constant, and additionally per module.
const STEPS: (usize, usize) = (16, 1 << 20);

/// The constants that entries can reach. If many entries reach much, they get all constants of the
/// module. Separate lists would grow with the product.
pub(super) struct Reach<'f> {
    functions: &'f [Function],
    all: (Placed, Placed),
    steps: usize,
    /// The entry that reached a function last.
    seen: Vec<u32>,
}

fn placed(list: &[Constant]) -> Placed {
    (0..).zip(list.iter().copied()).collect()
}

impl<'f> Reach<'f> {
    /// Prepares the search in a module's functions and constants, of words and of doubles.
    pub(super) fn new(
        functions: &'f [Function],
        (words, doubles): (&[Constant], &[Constant]),
    ) -> Self {
        let calls: usize = functions.iter().map(|it| it.calls.len()).sum();
        let size = functions.len() + calls + words.len() + doubles.len();
        Self {
            functions,
            all: (placed(words), placed(doubles)),
            steps: STEPS.0 * size + STEPS.1,
            seen: vec![u32::MAX; functions.len()],
        }
    }

    /// Constants used by an entry and by everything that it may call.
    pub(super) fn of(&mut self, start: usize) -> (Placed, Placed) {
        let (mut words, mut doubles) = (Vec::new(), Vec::new());
        let mut path = vec![start];
        while let Some(at) = path.pop() {
            if std::mem::replace(&mut self.seen[at], start as u32) == start as u32 {
                continue;
            }
            let function = &self.functions[at];
            let (own_words, own_doubles) = &function.constants;
            let size = 1 + own_words.len() + own_doubles.len() + function.calls.len();
            let left = self.steps.checked_sub(size);
            // A call by address may reach every function.
            let Some(left) = left.filter(|_| !function.indirect) else {
                return self.all.clone();
            };
            self.steps = left;
            words.extend(own_words);
            doubles.extend(own_doubles);
            path.extend(function.calls.iter().map(|callee| *callee as usize));
        }
        let sort = |mut list: Vec<u32>, all: &Placed| {
            list.sort_unstable();
            list.dedup();
            list.into_iter().map(|at| all[at as usize]).collect()
        };
        (sort(words, &self.all.0), sort(doubles, &self.all.1))
    }
}
