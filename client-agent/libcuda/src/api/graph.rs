//! Graphs: making and looking at them.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{Count, InOut, List, Out, OutList};
use crate::graph::{Graph, Work, graph, graph_of};
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};

/// Connects nodes, or takes connections away.
fn connect<'a>(
    handle: usize,
    from: List<'a, usize>,
    to: List<'a, usize>,
    count: Count<'a>,
    connected: bool,
) -> Result {
    let graph = graph(handle)?;
    let mut edges = from.items(count)?.zip(to.items(count)?);
    edges.try_for_each(|(from, to)| graph.connect(from, to, connected))
}

/// The nodes that a node comes behind, or that come behind it.
pub(super) fn neighbours(node: usize, before: bool) -> Result<Vec<usize>> {
    let edges = graph_of(node)?.edges();
    let found = edges.iter().filter_map(|(from, to)| match before {
        true => (*to == node).then_some(*from),
        false => (*from == node).then_some(*to),
    });
    Ok(found.collect())
}

api! {
    fn cuGraphCreate(handle: Out<'_, usize>, flags: c_uint) {
        process()?;
        handle.check()?;
        if flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        handle.put(Graph::create().handle)
    }

    fn cuGraphDestroy(handle: usize) {
        process()?;
        graph(handle)?.destroy();
        Ok(())
    }

    fn cuGraphClone(handle: Out<'_, usize>, original: usize) {
        process()?;
        let original = graph(original)?;
        handle.check()?;
        handle.put(original.copy().handle)
    }

    fn cuGraphNodeFindInClone(node: Out<'_, usize>, original: usize, clone: usize) {
        let found = graph(clone)?.copy_of(original).ok_or(Status::INVALID_VALUE)?;
        node.put(found)
    }

    fn cuGraphAddDependencies(
        handle: usize,
        from: List<'_, usize>,
        to: List<'_, usize>,
        count: Count<'_>,
    ) {
        connect(handle, from, to, count, true)
    }

    fn cuGraphAddDependencies_v2(
        handle: usize,
        from: List<'_, usize>,
        to: List<'_, usize>,
        data: *const c_void,
        count: Count<'_>,
    ) {
        let _ = data;
        connect(handle, from, to, count, true)
    }

    fn cuGraphRemoveDependencies(
        handle: usize,
        from: List<'_, usize>,
        to: List<'_, usize>,
        count: Count<'_>,
    ) {
        connect(handle, from, to, count, false)
    }

    fn cuGraphRemoveDependencies_v2(
        handle: usize,
        from: List<'_, usize>,
        to: List<'_, usize>,
        data: *const c_void,
        count: Count<'_>,
    ) {
        let _ = data;
        connect(handle, from, to, count, false)
    }

    fn cuGraphGetNodes(handle: usize, to: OutList<'_, usize>, count: InOut<'_, usize>) {
        to.answer(&count, &graph(handle)?.nodes())
    }

    fn cuGraphGetRootNodes(handle: usize, to: OutList<'_, usize>, count: InOut<'_, usize>) {
        let graph = graph(handle)?;
        let edges = graph.edges();
        let mut roots = graph.nodes();
        roots.retain(|node| edges.iter().all(|edge| edge.1 != *node));
        to.answer(&count, &roots)
    }

    fn cuGraphGetEdges(
        handle: usize,
        from: OutList<'_, usize>,
        to: OutList<'_, usize>,
        count: InOut<'_, usize>,
    ) {
        let (before, behind): (Vec<_>, Vec<_>) = graph(handle)?.edges().into_iter().unzip();
        from.fill(&count, &before)?;
        to.answer(&count, &behind)
    }

    fn cuGraphNodeGetDependencies(node: usize, to: OutList<'_, usize>, count: InOut<'_, usize>) {
        to.answer(&count, &neighbours(node, true)?)
    }

    fn cuGraphNodeGetDependentNodes(node: usize, to: OutList<'_, usize>, count: InOut<'_, usize>) {
        to.answer(&count, &neighbours(node, false)?)
    }

    fn cuGraphNodeGetType(node: usize, kind: Out<'_, c_int>) {
        let found = graph_of(node)?.with(node, |work| Ok(work.kind()))?;
        kind.put(found)
    }

    fn cuGraphNodeGetContainingGraph(node: usize, handle: Out<'_, usize>) {
        handle.put(graph_of(node)?.handle)
    }

    fn cuGraphDestroyNode(node: usize) {
        graph_of(node)?.remove(node);
        Ok(())
    }

    fn cuGraphGetId(handle: usize, id: Out<'_, c_uint>) {
        graph(handle)?;
        id.put(handle as c_uint)
    }

    fn cuGraphChildGraphNodeGetGraph(node: usize, handle: Out<'_, usize>) {
        let found = graph_of(node)?.with(node, |work| match work {
            Work::Child(child) => Ok(child.handle),
            _ => Err(Status::INVALID_VALUE),
        })?;
        handle.put(found)
    }
}
