//! Graphs: making and looking at them.

use std::ffi::{c_int, c_uint, c_void};

use super::put;
use crate::graph::{Graph, Work, graph, graph_of};
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};

/// Nodes of the caller's.
///
/// # Safety
/// There are as many as the count says.
pub(super) unsafe fn nodes<'a>(list: *const usize, count: usize) -> Result<&'a [usize]> {
    match (count, list.is_null()) {
        (0, _) => Ok(&[]),
        (_, true) => Err(Status::INVALID_VALUE),
        // SAFETY: the caller vouches for it.
        _ => Ok(unsafe { std::slice::from_raw_parts(list, count) }),
    }
}

/// Writes as many of a list as the caller has room for; without room, how many there are.
///
/// # Safety
/// The count is the caller's, and the list has room for so many.
pub(super) unsafe fn list(to: *mut usize, count: *mut usize, found: &[usize]) -> Result {
    if count.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for both.
    unsafe {
        if !to.is_null() {
            let room = count.read();
            for at in 0..room {
                put(to.add(at), found.get(at).copied().unwrap_or(0))?;
            }
        }
        put(
            count,
            if to.is_null() {
                found.len()
            } else {
                found.len().min(count.read())
            },
        )
    }
}

/// Connects nodes, or takes connections away.
///
/// # Safety
/// The lists are of so many nodes.
unsafe fn connect(
    handle: usize,
    from: *const usize,
    to: *const usize,
    count: usize,
    connected: bool,
) -> Result {
    let graph = graph(handle)?;
    // SAFETY: the caller vouches for them.
    let (from, to) = unsafe { (nodes(from, count)?, nodes(to, count)?) };
    from.iter()
        .zip(to)
        .try_for_each(|(from, to)| graph.connect(*from, *to, connected))
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
    fn cuGraphCreate(handle: *mut usize, flags: c_uint) {
        process()?;
        if handle.is_null() || flags != 0 {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { put(handle, Graph::create().handle) }
    }

    fn cuGraphDestroy(handle: usize) {
        process()?;
        graph(handle)?.destroy();
        Ok(())
    }

    fn cuGraphClone(handle: *mut usize, original: usize) {
        process()?;
        let original = graph(original)?;
        if handle.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointer.
        unsafe { put(handle, original.copy().handle) }
    }

    fn cuGraphNodeFindInClone(node: *mut usize, original: usize, clone: usize) {
        let found = graph(clone)?.copy_of(original).ok_or(Status::INVALID_VALUE)?;
        // SAFETY: the caller's pointer.
        unsafe { put(node, found) }
    }

    fn cuGraphAddDependencies(handle: usize, from: *const usize, to: *const usize, count: usize) {
        // SAFETY: the caller's lists.
        unsafe { connect(handle, from, to, count, true) }
    }

    fn cuGraphAddDependencies_v2(
        handle: usize,
        from: *const usize,
        to: *const usize,
        data: *const c_void,
        count: usize,
    ) {
        let _ = data;
        // SAFETY: the caller's lists.
        unsafe { connect(handle, from, to, count, true) }
    }

    fn cuGraphRemoveDependencies(handle: usize, from: *const usize, to: *const usize, count: usize) {
        // SAFETY: the caller's lists.
        unsafe { connect(handle, from, to, count, false) }
    }

    fn cuGraphRemoveDependencies_v2(
        handle: usize,
        from: *const usize,
        to: *const usize,
        data: *const c_void,
        count: usize,
    ) {
        let _ = data;
        // SAFETY: the caller's lists.
        unsafe { connect(handle, from, to, count, false) }
    }

    fn cuGraphGetNodes(handle: usize, to: *mut usize, count: *mut usize) {
        // SAFETY: the caller's pointers.
        unsafe { list(to, count, &graph(handle)?.nodes()) }
    }

    fn cuGraphGetRootNodes(handle: usize, to: *mut usize, count: *mut usize) {
        let graph = graph(handle)?;
        let edges = graph.edges();
        let mut roots = graph.nodes();
        roots.retain(|node| edges.iter().all(|edge| edge.1 != *node));
        // SAFETY: the caller's pointers.
        unsafe { list(to, count, &roots) }
    }

    fn cuGraphGetEdges(handle: usize, from: *mut usize, to: *mut usize, count: *mut usize) {
        let (before, behind): (Vec<_>, Vec<_>) = graph(handle)?.edges().into_iter().unzip();
        if count.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller's pointers.
        unsafe {
            let mut room = count.read();
            list(from, &raw mut room, &before)?;
            list(to, count, &behind)
        }
    }

    fn cuGraphNodeGetDependencies(node: usize, to: *mut usize, count: *mut usize) {
        // SAFETY: the caller's pointers.
        unsafe { list(to, count, &neighbours(node, true)?) }
    }

    fn cuGraphNodeGetDependentNodes(node: usize, to: *mut usize, count: *mut usize) {
        // SAFETY: the caller's pointers.
        unsafe { list(to, count, &neighbours(node, false)?) }
    }

    fn cuGraphNodeGetType(node: usize, kind: *mut c_int) {
        let found = graph_of(node)?.with(node, |work| Ok(work.kind()))?;
        // SAFETY: the caller's pointer.
        unsafe { put(kind, found) }
    }

    fn cuGraphNodeGetContainingGraph(node: usize, handle: *mut usize) {
        // SAFETY: the caller's pointer.
        unsafe { put(handle, graph_of(node)?.handle) }
    }

    fn cuGraphDestroyNode(node: usize) {
        graph_of(node)?.remove(node);
        Ok(())
    }

    fn cuGraphGetId(handle: usize, id: *mut c_uint) {
        graph(handle)?;
        // SAFETY: the caller's pointer.
        unsafe { put(id, handle as c_uint) }
    }

    fn cuGraphChildGraphNodeGetGraph(node: usize, handle: *mut usize) {
        let found = graph_of(node)?.with(node, |work| match work {
            Work::Child(child) => Ok(child.handle),
            _ => Err(Status::INVALID_VALUE),
        })?;
        // SAFETY: the caller's pointer.
        unsafe { put(handle, found) }
    }
}
