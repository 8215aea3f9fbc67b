//! What an entry can reach by calls: constants, and the stacks that they take.

use super::form::Frame;
use super::module::Decoded;
use std::collections::BTreeSet;

/// Constants used by a function and whatever it may call.
pub(super) fn reachable(decoded: &Decoded, start: usize) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let mut seen = vec![false; decoded.functions.len()];
    let mut path = vec![start];
    let (mut words, mut doubles) = (BTreeSet::new(), BTreeSet::new());
    while let Some(at) = path.pop() {
        if std::mem::replace(&mut seen[at], true) {
            continue;
        }
        let function = &decoded.functions[at];
        words.extend(&function.constants.0);
        doubles.extend(&function.constants.1);
        path.extend(function.calls.iter().map(|callee| *callee as usize));
        if function.indirect {
            path.extend(0..decoded.functions.len());
        }
    }
    (words, doubles)
}

/// Largest stacks a recursive program gets, bytes per warp.
const RECURSION_REGISTERS: u32 = 1 << 20;
/// Largest stack of local memory a recursive program gets, bytes per thread.
const RECURSION_LOCAL: u32 = 32 << 10;

/// What the deepest chain of calls takes; a bounded allowance where it cannot be known.
pub(super) fn stack(decoded: &Decoded, start: usize) -> Frame {
    // Depth-first without recursion: 0 unseen, 1 on the path, 2 done with its need known.
    let functions = &decoded.functions;
    let mut state = vec![0_u8; functions.len()];
    let mut need = vec![Frame::default(); functions.len()];
    let mut unbounded = false;
    let mut path = vec![(start, 0_usize)];
    state[start] = 1;
    while let Some((at, next)) = path.last_mut() {
        let function = &functions[*at];
        unbounded |= function.indirect;
        if let Some(&callee) = function.calls.get(*next) {
            *next += 1;
            let callee = callee as usize;
            match state[callee] {
                0 => {
                    state[callee] = 1;
                    path.push((callee, 0));
                }
                1 => unbounded = true,
                _ => {}
            }
            continue;
        }
        let below = function.calls.iter().map(|callee| need[*callee as usize]);
        let deepest = below.fold(Frame::default(), |a, b| Frame {
            words: a.words.max(b.words),
            doubles: a.doubles.max(b.doubles),
            preds: a.preds.max(b.preds),
            local: a.local.max(b.local),
        });
        let own = function.frame;
        need[*at] = Frame {
            words: own.words.saturating_add(deepest.words),
            doubles: own.doubles.saturating_add(deepest.doubles),
            preds: own.preds.saturating_add(deepest.preds),
            local: own.local.saturating_add(deepest.local),
        };
        state[*at] = 2;
        path.pop();
    }
    let mut total = need[start];
    if unbounded {
        total.words = total.words.saturating_add(RECURSION_REGISTERS);
        total.doubles = total.doubles.saturating_add(RECURSION_REGISTERS);
        total.preds = total.preds.saturating_add(RECURSION_REGISTERS / 128);
        total.local = total.local.saturating_add(RECURSION_LOCAL);
    }
    total.local = total.local.next_multiple_of(16);
    total
}
