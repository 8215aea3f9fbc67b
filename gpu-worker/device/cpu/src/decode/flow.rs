//! A body's basic blocks and the edges between them.

use super::form::{Inst, Op};
use super::lists::Lists;
use std::collections::HashMap;

/// A body's basic blocks.
///
/// A table of targets is a node of its own behind the blocks, between the jumps that use it and its
/// targets. Many jumps by one long table therefore do not need as many edges as their product.
pub(super) struct Flow {
    /// First instruction of each block, counted from the body's start.
    pub(super) starts: Vec<u32>,
    /// Instructions of the body.
    pub(super) end: u32,
    /// Nodes: blocks, then tables.
    pub(super) nodes: usize,
    /// Predecessors of each node.
    pub(super) before: Lists,
    /// Blocks that may return.
    pub(super) returns: Vec<u32>,
}

/// True if an instruction ends its block.
pub(crate) fn ends(op: Op) -> bool {
    matches!(
        op,
        Op::Branch | Op::BranchIndex | Op::Return | Op::Exit | Op::Trap
    )
}

impl Flow {
    /// Cuts a body into blocks. Its code begins at `first` of the module's; jumps are resolved.
    pub(super) fn of(code: &[Inst], first: usize, tables: &[Vec<u32>]) -> Self {
        let mut used: HashMap<usize, u32> = HashMap::new();
        let mut leads = vec![false; code.len() + 1];
        leads[0] = true;
        for (at, inst) in code.iter().enumerate() {
            leads[at + 1] |= ends(inst.op);
            match inst.op {
                Op::Branch => leads[inst.target as usize - first] = true,
                Op::BranchIndex => {
                    let next = used.len() as u32;
                    used.entry(inst.imm as usize).or_insert_with(|| {
                        let targets = tables[inst.imm as usize].iter();
                        targets.for_each(|target| leads[*target as usize - first] = true);
                        next
                    });
                }
                _ => {}
            }
        }
        let starts: Vec<u32> = (0..code.len() as u32)
            .filter(|at| leads[*at as usize])
            .collect();
        let mut it = Self {
            end: code.len() as u32,
            nodes: starts.len() + used.len(),
            before: Lists::default(),
            returns: Vec::new(),
            starts,
        };
        it.join(code, first, tables, &used);
        it
    }

    fn join(
        &mut self,
        code: &[Inst],
        first: usize,
        tables: &[Vec<u32>],
        used: &HashMap<usize, u32>,
    ) {
        let blocks = self.starts.len();
        let mut edges = Vec::new();
        // A label behind the last instruction leads out of the body; no code runs there.
        let mut edge = |from: usize, target: u32| {
            let at = target - first as u32;
            if at < self.end {
                edges.push((self.block(at) as u32, from as u32));
            }
        };
        for (table, node) in used {
            let node = blocks + *node as usize;
            tables[*table].iter().for_each(|target| edge(node, *target));
        }
        let mut returns = Vec::new();
        let mut joined = Vec::new();
        for block in 0..blocks {
            let end = self.end_of(block);
            let last = &code[end as usize - 1];
            match last.op {
                Op::Branch => edge(block, last.target),
                Op::BranchIndex => {
                    let node = blocks as u32 + used[&(last.imm as usize)];
                    joined.push((node, block as u32));
                }
                Op::Return => returns.push(block as u32),
                _ => {}
            }
            if !ends(last.op) || last.guard.is_some() {
                edge(block, end + first as u32);
            }
        }
        edges.append(&mut joined);
        self.before = Lists::of(self.nodes, &edges);
        self.returns = returns;
    }

    /// The block that an instruction is in.
    pub(super) fn block(&self, at: u32) -> usize {
        self.starts.partition_point(|start| *start <= at) - 1
    }

    /// The end of a block.
    pub(super) fn end_of(&self, block: usize) -> u32 {
        self.starts.get(block + 1).copied().unwrap_or(self.end)
    }
}
