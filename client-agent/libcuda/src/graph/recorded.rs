//! A recorded graph: its nodes, their work, and the dependencies of each.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::abi::{Handle, HostCall};
use crate::copy3d::Copy3D;
use crate::event::Event;
use crate::fill::Fill;
use crate::handle::{Object, table};
use crate::launch::How;
use crate::lock::lock;
use crate::module::Kernel;
use crate::status::{Result, Status};
use crate::user_object::UserObject;

/// The work of a node.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Kernel(Launch),
    Copy(Copy3D<'static>),
    Fill(Fill),
    Host(HostCall),
    /// The nodes of a child graph.
    Child(Arc<Graph>),
    Empty,
    Wait(Handle<Event>),
    Record(Handle<Event>),
}

/// A launch with its parameters packed.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: Handle<Kernel>,
    pub(crate) how: How,
    pub(super) params: Arc<[u8]>,
    /// Addresses of the parameters in the block.
    pub(crate) pointers: Arc<[usize]>,
}

/// A graph.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) handle: Handle<Self>,
    nodes: Mutex<BTreeMap<Handle<Node>, Recorded>>,
    /// User objects that live as long as the graph, each by its handle.
    held: Mutex<Held>,
    /// The owner, if a node owns the graph.
    pub(super) owner: Mutex<Option<Owner>>,
}

/// The owner of a child graph: the graph of its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) parent: Handle<Graph>,
    /// True if the program created the graph and gave it away, so that it is no longer independent.
    pub(super) moved: bool,
}

/// User objects, one entry for each reference.
pub(crate) type Held = Vec<(Handle<UserObject>, Arc<UserObject>)>;

/// A node of a graph, by its handle. Handles of nodes grow, so a graph's nodes are in the order of
/// their creation.
pub(crate) struct Node {
    graph: Handle<Graph>,
}

table!(Graph, INVALID_HANDLE);
table!(Node, INVALID_HANDLE);

/// The record of a node in its graph.
#[derive(Debug, Clone)]
struct Recorded {
    work: Work,
    after: BTreeSet<Handle<Node>>,
    /// The node that it is a copy of, or itself.
    original: Handle<Node>,
}

impl Handle<Node> {
    /// The graph of the node.
    pub(crate) fn graph(self) -> Result<Arc<Graph>> {
        self.with(|node| node.graph)?.get()
    }

    /// Inspects or changes the work of the node.
    pub(crate) fn with_work<R>(self, body: impl FnOnce(&mut Work) -> Result<R>) -> Result<R> {
        let graph = self.graph()?;
        let mut nodes = lock(&graph.nodes);
        body(&mut nodes.get_mut(&self).ok_or(Node::UNKNOWN)?.work)
    }
}

impl Graph {
    pub(crate) fn create() -> Arc<Self> {
        let make = |handle| Self {
            handle,
            nodes: Mutex::default(),
            held: Mutex::default(),
            owner: Mutex::default(),
        };
        Self::table().add_with(make).1
    }

    /// The user objects that the graph holds.
    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }

    pub(crate) fn hold(&self, handle: Handle<UserObject>, object: Arc<UserObject>, count: u32) {
        let again = (0..count).map(|_| (handle, Arc::clone(&object)));
        self.held().extend(again);
    }

    pub(crate) fn let_go(&self, handle: Handle<UserObject>, count: u32) -> Result {
        for _ in 0..count {
            let mut held = self.held();
            let at = held.iter().position(|(of, _)| *of == handle);
            let object = held.swap_remove(at.ok_or(Status::INVALID_VALUE)?);
            // The drop runs the program's destructor, so not under our lock.
            drop(held);
            drop(object);
        }
        Ok(())
    }

    /// Adds a node with dependencies on other nodes of the graph.
    pub(crate) fn add(&self, work: Work, after: &[Handle<Node>]) -> Result<Handle<Node>> {
        let mut nodes = lock(&self.nodes);
        let behind: BTreeSet<Handle<Node>> = after.iter().copied().collect();
        if behind.len() != after.len() || !after.iter().all(|node| nodes.contains_key(node)) {
            return Err(Status::INVALID_VALUE);
        }
        if let Work::Child(child) = &work {
            child.own(self.handle);
        }
        let handle = Node::table().add(Node { graph: self.handle });
        let node = Recorded {
            work,
            after: behind,
            original: handle,
        };
        nodes.insert(handle, node);
        Ok(handle)
    }

    /// Copies the graph and its nodes.
    pub(crate) fn copy(&self) -> Arc<Self> {
        let other = Self::create();
        other.held().clone_from(&self.held());
        let mut copies = HashMap::new();
        let mut nodes = lock(&other.nodes);
        for (handle, node) in lock(&self.nodes).iter() {
            let copy = Node::table().add(Node {
                graph: other.handle,
            });
            copies.insert(*handle, copy);
            let work = match &node.work {
                Work::Child(child) => {
                    let child = child.copy();
                    child.own(other.handle);
                    Work::Child(child)
                }
                work => work.clone(),
            };
            let node = Recorded {
                work,
                after: node.after.clone(),
                original: *handle,
            };
            nodes.insert(copy, node);
        }
        for node in nodes.values_mut() {
            node.after = node.after.iter().map(|before| copies[before]).collect();
        }
        drop(nodes);
        other
    }

    /// The node of this graph that is a copy of `original`.
    pub(crate) fn copy_of(&self, original: Handle<Node>) -> Option<Handle<Node>> {
        let nodes = lock(&self.nodes);
        let found = nodes.iter().find(|(_, node)| node.original == original);
        found.map(|(handle, _)| *handle)
    }

    pub(crate) fn connect(&self, from: Handle<Node>, to: Handle<Node>, connected: bool) -> Result {
        let mut nodes = lock(&self.nodes);
        if from == to || !nodes.contains_key(&from) {
            return Err(Status::INVALID_VALUE);
        }
        let node = nodes.get_mut(&to).ok_or(Status::INVALID_VALUE)?;
        let changed = match connected {
            true => node.after.insert(from),
            false => node.after.remove(&from),
        };
        changed.then_some(()).ok_or(Status::INVALID_VALUE)
    }

    /// All nodes, in the order of their creation.
    pub(crate) fn nodes(&self) -> Vec<Handle<Node>> {
        lock(&self.nodes).keys().copied().collect()
    }

    /// All dependencies: each node with a node that depends on it.
    pub(crate) fn edges(&self) -> Vec<(Handle<Node>, Handle<Node>)> {
        let nodes = lock(&self.nodes);
        let pairs = nodes
            .iter()
            .flat_map(|(to, node)| node.after.iter().map(|from| (*from, *to)));
        pairs.collect()
    }

    pub(crate) fn remove(&self, node: Handle<Node>) {
        let mut nodes = lock(&self.nodes);
        let removed = nodes.remove(&node);
        for other in nodes.values_mut() {
            other.after.remove(&node);
        }
        drop(nodes);
        let _ = node.remove();
        if let Some(Work::Child(child)) = removed.map(|node| node.work) {
            child.destroy();
        }
    }

    /// Removes the graph and its nodes from the tables.
    pub(crate) fn destroy(&self) {
        // The handle may be unknown already.
        let _ = self.handle.remove();
        let held = std::mem::take(&mut *self.held());
        drop(held);
        for (handle, node) in std::mem::take(&mut *lock(&self.nodes)) {
            let _ = handle.remove();
            if let Work::Child(child) = node.work {
                child.destroy();
            }
        }
    }

    /// The nodes in an order that their dependencies allow, with those of child graphs. Among nodes
    /// that could be next, the one created first.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`] if their dependencies form a cycle.
    pub(crate) fn steps(&self) -> Result<Vec<Step>> {
        let nodes = lock(&self.nodes);
        let mut waiting: HashMap<Handle<Node>, usize> = HashMap::new();
        let mut behind: HashMap<Handle<Node>, Vec<Handle<Node>>> = HashMap::new();
        let mut ready = BTreeSet::new();
        for (handle, node) in nodes.iter() {
            match node.after.len() {
                0 => _ = ready.insert(*handle),
                count => _ = waiting.insert(*handle, count),
            }
            for before in &node.after {
                behind.entry(*before).or_default().push(*handle);
            }
        }
        let (mut steps, mut ordered) = (Vec::with_capacity(nodes.len()), 0);
        while let Some(handle) = ready.pop_first() {
            let node = &nodes[&handle];
            ordered += 1;
            steps.push(Step {
                node: handle,
                work: node.work.clone(),
                after: node.after.len(),
                enabled: true,
            });
            if let Work::Child(child) = &node.work {
                steps.extend(child.steps()?);
            }
            for next in behind.remove(&handle).unwrap_or_default() {
                let left = waiting.entry(next).or_default();
                *left -= 1;
                if *left == 0 {
                    ready.insert(next);
                }
            }
        }
        match ordered == nodes.len() {
            true => Ok(steps),
            false => Err(Status::INVALID_VALUE),
        }
    }
}

/// A node in the launch order of its graph.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) node: Handle<Node>,
    pub(crate) work: Work,
    /// Number of nodes that it depends on.
    pub(crate) after: usize,
    pub(crate) enabled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_dependencies_and_then_the_making() {
        let graph = Graph::create();
        let add = |after: &[Handle<Node>]| graph.add(Work::Empty, after).expect("it is added");
        let (a, b) = (add(&[]), add(&[]));
        let c = add(&[b]);
        graph.connect(c, a, true).expect("new");
        assert_eq!(graph.connect(c, a, true), Err(Status::INVALID_VALUE));
        let child = graph.copy();
        let d = graph.add(Work::Child(child.copy()), &[a]).expect("added");
        let order = |graph: &Graph| -> Result<Vec<Handle<Node>>> {
            Ok(graph.steps()?.iter().map(|step| step.node).collect())
        };
        let steps = order(&graph).expect("no circle");
        assert_eq!((&steps[..4], steps.len()), (&[b, c, a, d][..], 7));
        assert!(child.copy_of(b).is_some() && child.copy_of(d).is_none());
        assert_eq!(graph.edges(), [(c, a), (b, c), (a, d)]);
        graph.connect(a, b, true).expect("new");
        assert_eq!(order(&graph), Err(Status::INVALID_VALUE), "a circle");
        graph.remove(c);
        assert_eq!(order(&graph).map(|it| it.len()), Ok(6));
        graph.destroy();
        assert!(a.graph().is_err());
    }
}
