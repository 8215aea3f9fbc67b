//! The order in which the lanes of a diverged warp run: the earliest block first. In this order, a
//! block comes after all blocks that lead to it.
//!
//! As a rule that is the order of the text. But compilers also write a loop's end before its body,
//! or the code behind a loop before the loop. In the order of the text, lanes that have left the
//! body would then run ahead of the others. A GPU has them wait for one another where their paths
//! meet, and some programs depend on it. Lanes that leave a loop straight for the head of an
//! enclosing loop do not wait, because the head is the earlier of the two.

use super::flow::Flow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bodies of more blocks keep the order of their text. The search for another order takes, at
/// worst, as many steps as the square of the number of blocks.
const BLOCKS: usize = 4096;

/// An unknown node.
const NONE: u32 = u32::MAX;

/// The blocks of a body in the order in which diverged lanes run, if it is not that of the text.
pub(super) fn order(flow: &Flow) -> Option<Vec<u32>> {
    let blocks = flow.starts.len();
    if flow.nodes > BLOCKS {
        return None;
    }
    let graph = Graph::of(flow);
    let order = graph.sorted(flow);
    let as_written = order
        .iter()
        .enumerate()
        .all(|(at, block)| at as u32 == *block);
    debug_assert_eq!(order.len(), blocks, "each block has its turn");
    (!as_written).then_some(order)
}

/// Nodes and edges; the last node stands for the end of the threads.
struct Graph {
    before: Vec<Vec<u32>>,
    behind: Vec<Vec<u32>>,
}

impl Graph {
    fn of(flow: &Flow) -> Self {
        let end = flow.nodes;
        let mut before: Vec<Vec<u32>> = (0..end).map(|at| flow.before.get(at).to_vec()).collect();
        let mut behind = vec![Vec::new(); end + 1];
        for (node, list) in before.iter().enumerate() {
            list.iter()
                .for_each(|from| behind[*from as usize].push(node as u32));
        }
        let last = (0..end).filter(|at| behind[*at].is_empty());
        let last: Vec<u32> = last.map(|at| at as u32).collect();
        last.iter()
            .for_each(|at| behind[*at as usize].push(end as u32));
        before.push(last);
        Self { before, behind }
    }

    /// The order: among the blocks that are ready, the first of the text is next.
    fn sorted(&self, flow: &Flow) -> Vec<u32> {
        let (end, count) = (self.behind.len() - 1, self.behind.len());
        let dominators = Tree::of(0, &self.behind, &self.before);
        let behind_all = Tree::of(end, &self.before, &self.behind);
        let mut edges: Vec<Vec<u32>> = self.behind.clone();
        for (from, to) in edges.iter_mut().enumerate() {
            to.retain(|to| !dominators.is_above(*to, from as u32));
        }
        // The code behind a loop waits for the whole loop.
        for (head, body) in self.loops(&dominators) {
            let mut meet = behind_all.above[head];
            while meet != NONE && body[meet as usize] {
                meet = behind_all.above[meet as usize];
            }
            // Another round of an enclosing loop is not behind the loop.
            if meet == NONE || meet as usize == end || dominators.is_above(meet, head as u32) {
                continue;
            }
            let within = (0..count).filter(|at| body[*at] && !edges[*at].contains(&meet));
            for from in within.collect::<Vec<_>>() {
                edges[from].push(meet);
            }
        }
        let mut waits = vec![0_u32; count];
        edges
            .iter()
            .flatten()
            .for_each(|to| waits[*to as usize] += 1);
        // A table of targets stands for no instruction, so it follows its predecessor at once.
        let place = |node: u32| {
            if (node as usize) < flow.starts.len() {
                node + 1
            } else {
                0
            }
        };
        let mut ready: BinaryHeap<Reverse<(u32, u32)>> = BinaryHeap::new();
        let free = (0..count as u32).filter(|at| waits[*at as usize] == 0);
        ready.extend(free.map(|at| Reverse((place(at), at))));
        let mut done = vec![false; count];
        let mut order = Vec::with_capacity(count);
        let mut next = 0;
        loop {
            let node = match ready.pop() {
                Some(Reverse((_, node))) => node,
                // A loop with more than one entry begins at its first block in the text.
                None => match (next..count).find(|at| !done[*at]) {
                    Some(at) => at as u32,
                    None => break,
                },
            };
            if std::mem::replace(&mut done[node as usize], true) {
                continue;
            }
            while next < count && done[next] {
                next += 1;
            }
            order.push(node);
            for to in &edges[node as usize] {
                waits[*to as usize] -= 1;
                if waits[*to as usize] == 0 {
                    ready.push(Reverse((place(*to), *to)));
                }
            }
        }
        order.retain(|node| (*node as usize) < flow.starts.len());
        order
    }

    /// Each loop: its head, and the nodes in it.
    fn loops(&self, dominators: &Tree) -> Vec<(usize, Vec<bool>)> {
        let mut found = Vec::new();
        for head in 0..self.before.len() {
            let back = self.before[head].iter();
            let mut open: Vec<u32> = back
                .filter(|from| dominators.is_above(head as u32, **from))
                .copied()
                .collect();
            if open.is_empty() {
                continue;
            }
            let mut body = vec![false; self.before.len()];
            body[head] = true;
            while let Some(node) = open.pop() {
                if !std::mem::replace(&mut body[node as usize], true) {
                    open.extend(&self.before[node as usize]);
                }
            }
            found.push((head, body));
        }
        found
    }
}

/// A dominator tree. Every path from the root to a node passes through the nodes above it.
struct Tree {
    above: Vec<u32>,
    /// Times at which a walk through the tree entered and left each node.
    walk: Vec<(u32, u32)>,
}

impl Tree {
    /// By the method of Cooper, Harvey and Kennedy ("A simple, fast dominance algorithm").
    fn of(root: usize, behind: &[Vec<u32>], before: &[Vec<u32>]) -> Self {
        let order = backwards(root, behind);
        let mut rank = vec![NONE; behind.len()];
        for (at, node) in order.iter().enumerate() {
            rank[*node as usize] = at as u32;
        }
        let mut above = vec![NONE; behind.len()];
        above[root] = root as u32;
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for node in order.iter().skip(1) {
                let known = before[*node as usize].iter().copied();
                let known = known.filter(|from| above[*from as usize] != NONE);
                let common = known.reduce(|mut a, mut b| {
                    while a != b {
                        if rank[a as usize] > rank[b as usize] {
                            a = above[a as usize];
                        } else {
                            b = above[b as usize];
                        }
                    }
                    a
                });
                let common = common.unwrap_or(NONE);
                changed |= std::mem::replace(&mut above[*node as usize], common) != common;
            }
        }
        above[root] = NONE;
        let mut below = vec![Vec::new(); behind.len()];
        for (node, up) in above.iter().enumerate().filter(|(_, up)| **up != NONE) {
            below[*up as usize].push(node as u32);
        }
        let walk = walk(root, &below);
        Self { above, walk }
    }

    /// True if each path to `node` passes through `top`.
    fn is_above(&self, top: u32, node: u32) -> bool {
        let (top, node) = (self.walk[top as usize], self.walk[node as usize]);
        node.1 != 0 && top.0 <= node.0 && node.1 <= top.1
    }
}

/// The reachable nodes in reverse postorder: each before its successors, except along jumps back.
fn backwards(root: usize, behind: &[Vec<u32>]) -> Vec<u32> {
    let mut order: Vec<(u32, u32)> = walk(root, behind)
        .iter()
        .enumerate()
        .filter(|(_, (_, left))| *left != 0)
        .map(|(node, (_, left))| (*left, node as u32))
        .collect();
    order.sort_unstable_by_key(|(left, _)| Reverse(*left));
    order.into_iter().map(|(_, node)| node).collect()
}

/// Times at which a depth-first walk entered and last left each node; 0 for unreachable nodes.
fn walk(root: usize, behind: &[Vec<u32>]) -> Vec<(u32, u32)> {
    let mut times = vec![(0, 0); behind.len()];
    let mut clock = 1;
    let mut path = vec![(root as u32, 0)];
    times[root].0 = clock;
    while let Some((node, at)) = path.last_mut() {
        clock += 1;
        let next = behind[*node as usize].get(*at).copied();
        *at += 1;
        match next {
            Some(next) if times[next as usize].0 == 0 => {
                times[next as usize].0 = clock;
                path.push((next, 0));
            }
            Some(_) => {}
            None => {
                times[*node as usize].1 = clock;
                path.pop();
            }
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::lists::Lists;

    /// The order of blocks with these edges.
    fn ordered(blocks: u32, edges: &[(u32, u32)]) -> Option<Vec<u32>> {
        let before: Vec<(u32, u32)> = edges.iter().map(|(from, to)| (*to, *from)).collect();
        order(&Flow {
            starts: (0..blocks).collect(),
            end: blocks,
            nodes: blocks as usize,
            before: Lists::of(blocks as usize, &before),
            returns: Vec::new(),
        })
    }

    #[test]
    fn what_is_in_order_stays() {
        // A loop, and two paths that meet behind it.
        let edges = [(0, 1), (1, 1), (1, 2), (2, 3), (2, 4), (3, 5), (4, 5)];
        assert_eq!(ordered(6, &edges), None);
        // A path out of a loop that is inside it: code waits for the loop only where paths meet.
        assert_eq!(
            ordered(5, &[(0, 1), (1, 2), (1, 3), (3, 1), (2, 4), (3, 4)]),
            None
        );
    }

    #[test]
    fn the_end_of_a_loop_comes_behind_its_body() {
        // 0 leads to 2; 1 ends each round of the outer loop; 3 is a loop within it.
        let edges = [(0, 2), (1, 2), (1, 4), (2, 1), (2, 3), (3, 3), (3, 1)];
        assert_eq!(ordered(5, &edges), Some(vec![0, 2, 3, 1, 4]));
    }

    #[test]
    fn what_is_behind_a_loop_waits_for_it() {
        assert_eq!(ordered(3, &[(0, 1), (0, 2), (2, 0)]), Some(vec![0, 2, 1]));
    }

    #[test]
    fn a_loop_with_two_ways_in_begins_where_the_text_does() {
        let edges = [(0, 1), (0, 2), (1, 2), (2, 1), (2, 3)];
        assert_eq!(ordered(4, &edges), None);
    }

    #[test]
    fn what_nothing_leads_to_has_its_turn() {
        assert_eq!(ordered(3, &[(0, 2), (1, 2)]), None);
    }

    proptest::proptest! {
        #[test]
        fn each_block_has_one_turn_and_comes_behind_what_leads_to_it(
            edges in proptest::collection::vec((0_u32..12, 0_u32..12), 0..30)
        ) {
            let order = ordered(12, &edges).unwrap_or_else(|| (0..12).collect());
            let mut sorted = order.clone();
            sorted.sort_unstable();
            proptest::prop_assert_eq!(sorted, (0..12).collect::<Vec<_>>());
            // Without a jump back, every edge comes from an earlier block.
            let forward: Vec<_> = edges.iter().copied().filter(|(from, to)| from < to).collect();
            proptest::prop_assert_eq!(ordered(12, &forward), None);
        }
    }
}
