//! Graphs: making and looking at them.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{Count, Handle, InOut, List, Out, OutList};
use crate::graph::{Graph, Node, Work};
use crate::guard::api;
use crate::status::{Result, Status};

/// `CUgraphEdgeData`: ports and a type, all zero for an edge that is nothing but an order.
type EdgeData = [u8; 8];
type Nodes = Vec<Handle<Node>>;

/// Connects nodes, or takes connections away.
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

/// The nodes that a node comes behind.
fn before(node: Handle<Node>) -> Result<Nodes> {
    let edges = node.graph()?.edges().into_iter();
    Ok(edges
        .filter_map(|(from, to)| (to == node).then_some(from))
        .collect())
}

/// The nodes that come behind a node.
fn behind(node: Handle<Node>) -> Result<Nodes> {
    let edges = node.graph()?.edges().into_iter();
    Ok(edges
        .filter_map(|(from, to)| (from == node).then_some(to))
        .collect())
}

/// Answers with both ends of all edges of a graph, and with their data where it is wanted.
fn put_edges(
    graph: Handle<Graph>,
    from: &OutList<'_, Handle<Node>>,
    to: &OutList<'_, Handle<Node>>,
    data: &OutList<'_, EdgeData>,
    count: &InOut<'_, usize>,
) -> Result {
    let (before, behind): (Nodes, Nodes) = graph.get()?.edges().into_iter().unzip();
    data.repeat(count, before.len(), [0; 8])?;
    from.fill(count, &before)?;
    to.answer(count, &behind)
}

/// Answers with nodes, and with the data of the edges to them where it is wanted.
fn put_nodes(
    nodes: &OutList<'_, Handle<Node>>,
    data: &OutList<'_, EdgeData>,
    count: &InOut<'_, usize>,
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
        graph.get()?.destroy();
        Ok(())
    }

    fn cuGraphClone(copy: Out<'_, Handle<Graph>>, original: Handle<Graph>) {
        let original = original.get()?;
        copy.put_made(|| Ok(original.copy().handle))
    }

    fn cuGraphNodeFindInClone(node: Out<'_, Handle<Node>>, original: Handle<Node>, copy: Handle<Graph>) {
        node.put(copy.get()?.copy_of(original).ok_or(Status::INVALID_VALUE)?)
    }

    fn cuGraphAddDependencies(
        graph: Handle<Graph>, from: List<'_, Handle<Node>>, to: List<'_, Handle<Node>>, count: Count<'_>,
    ) => connect(graph, from, to, count, true);
    fn cuGraphAddDependencies_v2(
        graph: Handle<Graph>, from: List<'_, Handle<Node>>, to: List<'_, Handle<Node>>, _data: *const c_void,
        count: Count<'_>,
    ) => connect(graph, from, to, count, true);
    fn cuGraphRemoveDependencies(
        graph: Handle<Graph>, from: List<'_, Handle<Node>>, to: List<'_, Handle<Node>>, count: Count<'_>,
    ) => connect(graph, from, to, count, false);
    fn cuGraphRemoveDependencies_v2(
        graph: Handle<Graph>, from: List<'_, Handle<Node>>, to: List<'_, Handle<Node>>, _data: *const c_void,
        count: Count<'_>,
    ) => connect(graph, from, to, count, false);
    fn cuGraphGetNodes(graph: Handle<Graph>, nodes: OutList<'_, Handle<Node>>, count: InOut<'_, usize>)
        => nodes.answer(&count, &graph.get()?.nodes());

    fn cuGraphGetRootNodes(graph: Handle<Graph>, nodes: OutList<'_, Handle<Node>>, count: InOut<'_, usize>) {
        let graph = graph.get()?;
        let edges = graph.edges();
        let mut roots = graph.nodes();
        roots.retain(|node| edges.iter().all(|edge| edge.1 != *node));
        nodes.answer(&count, &roots)
    }

    fn cuGraphGetEdges(
        graph: Handle<Graph>, from: OutList<'_, Handle<Node>>, to: OutList<'_, Handle<Node>>,
        count: InOut<'_, usize>,
    ) => put_edges(graph, &from, &to, &OutList::NONE, &count);

    fn cuGraphGetEdges_v2(
        graph: Handle<Graph>, from: OutList<'_, Handle<Node>>, to: OutList<'_, Handle<Node>>,
        data: OutList<'_, EdgeData>, count: InOut<'_, usize>,
    ) => put_edges(graph, &from, &to, &data, &count);

    fn cuGraphNodeGetDependencies(node: Handle<Node>, nodes: OutList<'_, Handle<Node>>, count: InOut<'_, usize>)
        => nodes.answer(&count, &before(node)?);

    fn cuGraphNodeGetDependencies_v2(
        node: Handle<Node>, nodes: OutList<'_, Handle<Node>>, data: OutList<'_, EdgeData>,
        count: InOut<'_, usize>,
    ) => put_nodes(&nodes, &data, &count, &before(node)?);

    fn cuGraphNodeGetDependentNodes(node: Handle<Node>, nodes: OutList<'_, Handle<Node>>, count: InOut<'_, usize>)
        => nodes.answer(&count, &behind(node)?);

    fn cuGraphNodeGetDependentNodes_v2(
        node: Handle<Node>, nodes: OutList<'_, Handle<Node>>, data: OutList<'_, EdgeData>,
        count: InOut<'_, usize>,
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
