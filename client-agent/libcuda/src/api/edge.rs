//! Edges of graphs with their data, and graphs as text.

use std::ffi::{c_char, c_uint};
use std::fmt::Write as _;

use super::graph::{list, neighbours};
use super::text;
use crate::graph::{Graph, Work, graph};
use crate::guard::api;
use crate::status::{Result, Status};

/// `CUgraphEdgeData`: ports and a type, all zero for an edge that is nothing but an order.
pub(crate) type EdgeData = [u8; 8];

/// Writes the data of the edges that a list has room for.
///
/// # Safety
/// The count is the caller's, and the data have room for so many, or are null.
unsafe fn plain(data: *mut EdgeData, count: *const usize, there: usize) -> Result {
    if count.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    if !data.is_null() {
        // SAFETY: the caller vouches for both.
        unsafe {
            for at in 0..count.read().min(there) {
                data.add(at).write_unaligned([0; 8]);
            }
        }
    }
    Ok(())
}

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
        from: *mut usize,
        to: *mut usize,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        let (before, behind): (Vec<_>, Vec<_>) = graph(handle)?.edges().into_iter().unzip();
        // SAFETY: the caller's pointers.
        unsafe {
            plain(data, count, before.len())?;
            let mut room = count.read();
            list(from, &raw mut room, &before)?;
            list(to, count, &behind)
        }
    }

    fn cuGraphNodeGetDependencies_v2(
        node: usize,
        to: *mut usize,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        let found = neighbours(node, true)?;
        // SAFETY: the caller's pointers.
        unsafe {
            plain(data, count, found.len())?;
            list(to, count, &found)
        }
    }

    fn cuGraphNodeGetDependentNodes_v2(
        node: usize,
        to: *mut usize,
        data: *mut EdgeData,
        count: *mut usize,
    ) {
        let found = neighbours(node, false)?;
        // SAFETY: the caller's pointers.
        unsafe {
            plain(data, count, found.len())?;
            list(to, count, &found)
        }
    }

    fn cuGraphDebugDotPrint(handle: usize, path: *const c_char, flags: c_uint) {
        // How much is told: all there is fits.
        let _ = flags;
        let graph = graph(handle)?;
        // SAFETY: the caller's pointer.
        let path = unsafe { text(path)? };
        std::fs::write(path, dot(&graph)?).map_err(|_| Status::OPERATING_SYSTEM)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_graph_is_told_with_all_its_edges() {
        let graph = Graph::create();
        let first = graph.add(Work::Empty, &[]).expect("added");
        let second = graph.add(Work::Record(0x10), &[first]).expect("added");
        let told = dot(&graph).expect("no node is gone");
        assert!(told.contains(&format!("n{first} -> n{second};")), "{told}");
        assert!(told.contains("record event 0x10"), "{told}");
        graph.destroy();
    }
}
