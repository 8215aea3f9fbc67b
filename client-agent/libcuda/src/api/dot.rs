//! Graphs as text.

use std::ffi::c_uint;
use std::fmt::Write as _;

use crate::abi::{Handle, Text};
use crate::graph::{Graph, Work};
use crate::guard::api;
use crate::status::{Result, Status};

/// A graph in the `dot` language.
fn dot(graph: &Graph) -> Result<String> {
    let mut out = "digraph graph_".to_owned();
    // Writing to a string does not fail.
    let _ = writeln!(out, "{} {{", graph.handle.number());
    for node in graph.nodes() {
        let (label, node) = (node.with_work(|work| Ok(label(work)))?, node.number());
        let _ = writeln!(out, "  n{node} [shape=box, label=\"{node}: {label}\"];");
    }
    for (from, to) in graph.edges() {
        let _ = writeln!(out, "  n{} -> n{};", from.number(), to.number());
    }
    out.push_str("}\n");
    Ok(out)
}

fn label(work: &Work) -> String {
    match work {
        Work::Kernel(launch) => {
            let name = launch.kernel.with(|kernel| kernel.entry().name.clone());
            let (name, shape) = (name.unwrap_or("a kernel".into()), &launch.how.shape);
            format!("{name}, grid {:?}, block {:?}", shape.grid, shape.block)
        }
        Work::Copy(_) => "copy".into(),
        Work::Fill(fill) => format!("set, {} times {} bytes", fill.count, fill.width),
        Work::Host(_) => "host function".into(),
        Work::Child(child) => format!("graph {}", child.handle.number()),
        Work::Empty => "empty".into(),
        Work::Wait(event) => format!("wait for event {event:?}"),
        Work::Record(event) => format!("record event {event:?}"),
    }
}

api! {
    // The flags have no effect: the output always has everything.
    fn cuGraphDebugDotPrint(graph: Handle<Graph>, path: Text<'_>, _flags: c_uint) {
        let graph = graph.get()?;
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
        let record = Work::Record(Handle::new(0x10));
        let second = graph.add(record, &[first]).expect("added");
        let text = dot(&graph).expect("no node is gone");
        let edge = format!("n{} -> n{};", first.number(), second.number());
        assert!(text.contains(&edge), "{text}");
        assert!(text.contains("record event 0x10"), "{text}");
        graph.destroy();
    }
}
