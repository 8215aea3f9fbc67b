//! Edges of graphs with their data, and graphs as text.

use std::ffi::c_uint;
use std::fmt::Write as _;

use super::graph::neighbours;
use crate::abi::{InOut, OutList, Text};
use crate::graph::{Graph, Work, graph};
use crate::guard::api;
use crate::status::{Result, Status};

/// `CUgraphEdgeData`: ports and a type, all zero for an edge that is nothing but an order.
pub(crate) type EdgeData = [u8; 8];

/// A graph in the language of `dot`.
fn dot(graph: &Graph) -> Result<String> {
    let mut out = "digraph graph_".to_owned();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{} {{", graph.handle);
    for node in graph.nodes() {
        let what = graph.with(node, |work| Ok(label(work)))?;
        let _ = writeln!(out, "  n{node} [shape=box, label=\"{node}: {what}\"];");
    }
    for (from, to) in graph.edges() {
        let _ = writeln!(out, "  n{from} -> n{to};");
    }
    out.push_str("}\n");
    Ok(out)
}

fn label(work: &Work) -> String {
    match work {
        Work::Kernel(launch) => {
            let name = crate::module::KERNELS.get(launch.kernel);
            let name = name.map_or("a kernel".into(), |kernel| kernel.entry().name.clone());
            let shape = &launch.shape;
            format!("{name}, grid {:?}, block {:?}", shape.grid, shape.block)
        }
        Work::Copy(_) => "copy".into(),
        Work::Fill(fill) => format!("set, {} times {} bytes", fill.count, fill.width),
        Work::Host(_) => "host function".into(),
        Work::Child(child) => format!("graph {}", child.handle),
        Work::Empty => "empty".into(),
        Work::Wait(event) => format!("wait for event {event:#x}"),
        Work::Record(event) => format!("record event {event:#x}"),
    }
}

api! {
    fn cuGraphGetEdges_v2(
        handle: usize,
        from: OutList<'_, usize>,
        to: OutList<'_, usize>,
        data: OutList<'_, EdgeData>,
        count: InOut<'_, usize>,
    ) {
        let (before, behind): (Vec<_>, Vec<_>) = graph(handle)?.edges().into_iter().unzip();
        data.repeat(&count, before.len(), [0; 8])?;
        from.fill(&count, &before)?;
        to.answer(&count, &behind)
    }

    fn cuGraphNodeGetDependencies_v2(
        node: usize,
        to: OutList<'_, usize>,
        data: OutList<'_, EdgeData>,
        count: InOut<'_, usize>,
    ) {
        let found = neighbours(node, true)?;
        data.repeat(&count, found.len(), [0; 8])?;
        to.answer(&count, &found)
    }

    fn cuGraphNodeGetDependentNodes_v2(
        node: usize,
        to: OutList<'_, usize>,
        data: OutList<'_, EdgeData>,
        count: InOut<'_, usize>,
    ) {
        let found = neighbours(node, false)?;
        data.repeat(&count, found.len(), [0; 8])?;
        to.answer(&count, &found)
    }

    fn cuGraphDebugDotPrint(handle: usize, path: Text<'_>, flags: c_uint) {
        // How much is wanted: all there is fits.
        let _ = flags;
        let graph = graph(handle)?;
        std::fs::write(path.take()?, dot(&graph)?).map_err(|_| Status::OPERATING_SYSTEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_written_with_all_its_edges() {
        let graph = Graph::create();
        let first = graph.add(Work::Empty, &[]).expect("added");
        let second = graph.add(Work::Record(0x10), &[first]).expect("added");
        let text = dot(&graph).expect("no node is gone");
        assert!(text.contains(&format!("n{first} -> n{second};")), "{text}");
        assert!(text.contains("record event 0x10"), "{text}");
        graph.destroy();
    }
}
