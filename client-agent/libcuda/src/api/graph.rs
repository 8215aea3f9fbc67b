//! Graphs: creation and inspection.

use std::ffi::{c_int, c_uint};

use crate::abi::{Count, Handle, InOut, List, Out, OutList, Unused};
use crate::graph::{Graph, Node, Work};
use crate::guard::api;
use crate::status::{Result, Status};

/// `CUgraphEdgeData`: ports and a type, all zero for an edge that only orders its nodes.
type EdgeData = [u8; 8];
type Nodes = Vec<Handle<Node>>;

/// Adds or removes edges between nodes.
fn connect<'a>(
    graph: Handle<Graph>,
    from: List<'a, Handle<Node>>,
    to: List<'a, Handle<Node>>,
    count: Count<'a>,
    connected: bool,
) -> Result {
    let graph = graph.get()?;
    let mut edges = from.items(count)?.zip(to.items(count)?);
    edges.try_for_each(|(from, to)| graph.connect(from, to, connected))
}

/// The nodes that a node depends on.
fn before(node: Handle<Node>) -> Result<Nodes> {
    let edges = node.graph()?.edges().into_iter();
    Ok(edges
        .filter_map(|(from, to)| (to == node).then_some(from))
        .collect())
}

/// The nodes that depend on a node.
fn behind(node: Handle<Node>) -> Result<Nodes> {
    let edges = node.graph()?.edges().into_iter();
    Ok(edges
        .filter_map(|(from, to)| (from == node).then_some(to))
        .collect())
}

/// Answers with both ends of all edges of a graph, and with their data if wanted.
fn put_edges<'c>(
    graph: Handle<Graph>,
    from: &OutList<'c, Handle<Node>>,
    to: &OutList<'c, Handle<Node>>,
    data: &OutList<'c, EdgeData>,
    count: &InOut<'c, usize>,
) -> Result {
    let (before, behind): (Nodes, Nodes) = graph.get()?.edges().into_iter().unzip();
    data.repeat(count, before.len(), [0; 8])?;
    from.fill(count, &before)?;
    to.answer(count, &behind)
}

/// Answers with nodes, and with the data of the edges to them if wanted.
fn put_nodes<'c>(
    nodes: &OutList<'c, Handle<Node>>,
    data: &OutList<'c, EdgeData>,
    count: &InOut<'c, usize>,
    found: &[Handle<Node>],
) -> Result {
    data.repeat(count, found.len(), [0; 8])?;
    nodes.answer(count, found)
}

api! {
    fn cuGraphCreate(graph: Out<'_, Handle<Graph>>, flags: c_uint) {
        graph.put_made(|| match flags {
            0 => Ok(Graph::create().handle),
            _ => Err(Status::INVALID_VALUE),
        })
    }

    fn cuGraphDestroy(graph: Handle<Graph>) {
        let graph = graph.get()?;
        graph.is_free()?;
        graph.destroy();
        Ok(())
    }

    fn cuGraphClone(copy: Out<'_, Handle<Graph>>, original: Handle<Graph>) {
        let original = original.get()?;
        copy.put_made(|| Ok(original.copy().handle))
    }

    fn cuGraphNodeFindInClone(node: Out<'_, Handle<Node>>, original: Handle<Node>, copy: Handle<Graph>) {
        node.put(copy.get()?.copy_of(original).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuGraphAddDependencies<'c>(
        graph: Handle<Graph>, from: List<'c, Handle<Node>>, to: List<'c, Handle<Node>>, count: Count<'c>,
    ) => connect(graph, from, to, count, true);
    fn cuGraphAddDependencies_v2<'c>(
        graph: Handle<Graph>, from: List<'c, Handle<Node>>, to: List<'c, Handle<Node>>, _data: Unused<'_>,
        count: Count<'c>,
    ) => connect(graph, from, to, count, true);
    fn cuGraphRemoveDependencies<'c>(
        graph: Handle<Graph>, from: List<'c, Handle<Node>>, to: List<'c, Handle<Node>>, count: Count<'c>,
    ) => connect(graph, from, to, count, false);
    fn cuGraphRemoveDependencies_v2<'c>(
        graph: Handle<Graph>, from: List<'c, Handle<Node>>, to: List<'c, Handle<Node>>, _data: Unused<'_>,
        count: Count<'c>,
    ) => connect(graph, from, to, count, false);
    fn cuGraphGetNodes<'c>(graph: Handle<Graph>, nodes: OutList<'c, Handle<Node>>, count: InOut<'c, usize>)
        => nodes.answer(&count, &graph.get()?.nodes());

    fn cuGraphGetRootNodes<'c>(graph: Handle<Graph>, nodes: OutList<'c, Handle<Node>>, count: InOut<'c, usize>) {
        let graph = graph.get()?;
        let edges = graph.edges();
        let mut roots = graph.nodes();
        roots.retain(|node| edges.iter().all(|edge| edge.1 != *node));
        nodes.answer(&count, &roots)
    }

    fn cuGraphGetEdges<'c>(
        graph: Handle<Graph>, from: OutList<'c, Handle<Node>>, to: OutList<'c, Handle<Node>>,
        count: InOut<'c, usize>,
    ) => put_edges(graph, &from, &to, &OutList::NONE, &count);

    fn cuGraphGetEdges_v2<'c>(
        graph: Handle<Graph>, from: OutList<'c, Handle<Node>>, to: OutList<'c, Handle<Node>>,
        data: OutList<'c, EdgeData>, count: InOut<'c, usize>,
    ) => put_edges(graph, &from, &to, &data, &count);

    fn cuGraphNodeGetDependencies<'c>(node: Handle<Node>, nodes: OutList<'c, Handle<Node>>, count: InOut<'c, usize>)
        => nodes.answer(&count, &before(node)?);

    fn cuGraphNodeGetDependencies_v2<'c>(
        node: Handle<Node>, nodes: OutList<'c, Handle<Node>>, data: OutList<'c, EdgeData>,
        count: InOut<'c, usize>,
    ) => put_nodes(&nodes, &data, &count, &before(node)?);

    fn cuGraphNodeGetDependentNodes<'c>(node: Handle<Node>, nodes: OutList<'c, Handle<Node>>, count: InOut<'c, usize>)
        => nodes.answer(&count, &behind(node)?);

    fn cuGraphNodeGetDependentNodes_v2<'c>(
        node: Handle<Node>, nodes: OutList<'c, Handle<Node>>, data: OutList<'c, EdgeData>,
        count: InOut<'c, usize>,
    ) => put_nodes(&nodes, &data, &count, &behind(node)?);

    fn cuGraphNodeGetType(node: Handle<Node>, kind: Out<'_, c_int>)
        => kind.put(node.with_work(|work| Ok(work.kind()))?);
    fn cuGraphNodeGetContainingGraph(node: Handle<Node>, graph: Out<'_, Handle<Graph>>)
        => graph.put(node.graph()?.handle);

    fn cuGraphDestroyNode(node: Handle<Node>) {
        node.graph()?.remove(node);
        Ok(())
    }

    fn cuGraphGetId(graph: Handle<Graph>, id: Out<'_, c_uint>) {
        graph.check()?;
        id.put(graph.number() as c_uint)
    }

    fn cuGraphChildGraphNodeGetGraph(node: Handle<Node>, graph: Out<'_, Handle<Graph>>) {
        graph.put(node.with_work(|work| match work {
            Work::Child(child) => Ok(child.handle),
            _ => Err(Status::INVALID_VALUE),
        })?)
    }
}
