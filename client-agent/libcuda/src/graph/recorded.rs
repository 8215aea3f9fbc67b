//! A graph as it is recorded: nodes, what they do, and what they come behind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::abi::HostCall;
use crate::copy3d::Copy3D;
use crate::handle::Handles;
use crate::launch::Shape;
use crate::status::{Result, Status};
use crate::user_object::UserObject;

/// What a node does.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Kernel(Launch),
    Copy(Copy3D),
    Fill(Fill),
    Host(HostCall),
    /// The nodes of a graph of the node's own.
    Child(Arc<Graph>),
    Empty,
    Wait(usize),
    Record(usize),
}

/// A launch with its parameters packed.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) kernel: usize,
    pub(crate) shape: Shape,
    pub(super) params: Arc<[u8]>,
    /// Addresses of the parameters there, for who asks.
    pub(crate) pointers: Arc<[usize]>,
}

/// A set of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) width: u32,
    pub(crate) count: usize,
    pub(crate) rows: usize,
}

/// A graph.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) handle: usize,
    nodes: Mutex<BTreeMap<usize, Node>>,
    /// Objects of the program's that live as long as it does, each by its handle.
    held: Mutex<Held>,
}

/// Objects of the program's, as often as they are held.
pub(crate) type Held = Vec<(usize, Arc<UserObject>)>;

/// Handles of nodes grow, so that a graph's nodes are in the order of their making.
#[derive(Debug, Clone)]
struct Node {
    work: Work,
    after: BTreeSet<usize>,
    /// The node that it is a copy of, or itself.
    original: usize,
}

pub(crate) static GRAPHS: LazyLock<Handles<Graph>> = LazyLock::new(Handles::new);
/// The graph of each node.
pub(crate) static NODES: LazyLock<Handles<usize>> = LazyLock::new(Handles::new);

/// The graph of a handle.
pub(crate) fn graph(handle: usize) -> Result<Arc<Graph>> {
    GRAPHS.get(handle).ok_or(Status::INVALID_HANDLE)
}

/// The graph that a node belongs to.
pub(crate) fn graph_of(node: usize) -> Result<Arc<Graph>> {
    graph(*NODES.get(node).ok_or(Status::INVALID_HANDLE)?)
}

impl Graph {
    pub(crate) fn create() -> Arc<Self> {
        let make = |handle| Self {
            handle,
            nodes: Mutex::default(),
            held: Mutex::default(),
        };
        GRAPHS.add_with(make).1
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Objects that it holds.
    pub(crate) fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hold(&self, handle: usize, object: Arc<UserObject>, count: u32) {
        let again = (0..count).map(|_| (handle, Arc::clone(&object)));
        self.held().extend(again);
    }

    pub(crate) fn let_go(&self, handle: usize, count: u32) -> Result {
        for _ in 0..count {
            let mut held = self.held();
            let at = held.iter().position(|(of, _)| *of == handle);
            let object = held.swap_remove(at.ok_or(Status::INVALID_VALUE)?);
            // What it takes down is the program's: not under our lock.
            drop(held);
            drop(object);
        }
        Ok(())
    }

    /// Adds a node behind others of the graph.
    pub(crate) fn add(&self, work: Work, after: &[usize]) -> Result<usize> {
        let mut nodes = self.lock();
        if !after.iter().all(|node| nodes.contains_key(node)) {
            return Err(Status::INVALID_VALUE);
        }
        let handle = NODES.add(self.handle);
        let node = Node {
            work,
            after: after.iter().copied().collect(),
            original: handle,
        };
        nodes.insert(handle, node);
        Ok(handle)
    }

    /// A graph with copies of the same nodes.
    pub(crate) fn copy(&self) -> Arc<Self> {
        let other = Self::create();
        other.held().clone_from(&self.held());
        let mut copies = HashMap::new();
        let mut nodes = other.lock();
        for (handle, node) in self.lock().iter() {
            let copy = NODES.add(other.handle);
            copies.insert(*handle, copy);
            let work = match &node.work {
                Work::Child(child) => Work::Child(child.copy()),
                work => work.clone(),
            };
            let node = Node {
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

    /// The node here that is a copy of another graph's.
    pub(crate) fn copy_of(&self, original: usize) -> Option<usize> {
        let nodes = self.lock();
        let found = nodes.iter().find(|(_, node)| node.original == original);
        found.map(|(handle, _)| *handle)
    }

    /// Looks at a node's work, or changes it.
    pub(crate) fn with<R>(
        &self,
        node: usize,
        body: impl FnOnce(&mut Work) -> Result<R>,
    ) -> Result<R> {
        let mut nodes = self.lock();
        body(&mut nodes.get_mut(&node).ok_or(Status::INVALID_HANDLE)?.work)
    }

    pub(crate) fn connect(&self, from: usize, to: usize, connected: bool) -> Result {
        let mut nodes = self.lock();
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

    /// All nodes, in the order of their making.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        self.lock().keys().copied().collect()
    }

    /// All dependencies: what comes before, what behind.
    pub(crate) fn edges(&self) -> Vec<(usize, usize)> {
        let nodes = self.lock();
        let pairs = nodes
            .iter()
            .flat_map(|(to, node)| node.after.iter().map(|from| (*from, *to)));
        pairs.collect()
    }

    pub(crate) fn remove(&self, node: usize) {
        let mut nodes = self.lock();
        nodes.remove(&node);
        for other in nodes.values_mut() {
            other.after.remove(&node);
        }
        NODES.remove(node);
    }

    /// The graph is not known any more, nor its nodes.
    pub(crate) fn destroy(&self) {
        GRAPHS.remove(self.handle);
        let held = std::mem::take(&mut *self.held());
        drop(held);
        for (handle, node) in std::mem::take(&mut *self.lock()) {
            NODES.remove(handle);
            if let Work::Child(child) = node.work {
                child.destroy();
            }
        }
    }

    /// The nodes in an order that their dependencies allow, children's among them; of those that
    /// could be next, the one made first.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`] where they depend on one another in a circle.
    pub(crate) fn steps(&self) -> Result<Vec<Step>> {
        let nodes = self.lock();
        let mut waiting: HashMap<usize, usize> = HashMap::new();
        let mut behind: HashMap<usize, Vec<usize>> = HashMap::new();
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

/// A node in the order of its graph's launches.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) node: usize,
    pub(crate) work: Work,
    /// How many it depends on.
    pub(crate) after: usize,
    pub(crate) enabled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_follow_dependencies_and_then_the_making() {
        let graph = Graph::create();
        let add = |after: &[usize]| graph.add(Work::Empty, after).expect("it is added");
        let (a, b) = (add(&[]), add(&[]));
        let c = add(&[b]);
        graph.connect(c, a, true).expect("new");
        assert_eq!(graph.connect(c, a, true), Err(Status::INVALID_VALUE));
        let child = graph.copy();
        let d = graph.add(Work::Child(child.copy()), &[a]).expect("added");
        let order = |graph: &Graph| -> Result<Vec<usize>> {
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
        assert!(graph_of(a).is_err());
    }
}
