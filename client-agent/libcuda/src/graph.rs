//! Graphs: work that is recorded here, and launched as one run of ops. A session runs its ops in
//! one order, so that a graph's launch is its nodes in an order that its dependencies allow.

#![expect(
    unsafe_code,
    reason = "runs copies and functions that the program named"
)]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use crate::copy::set_rows;
use crate::device::Device;
use crate::handle::Handles;
use crate::launch::{Arguments, Shape, pack, start};
use crate::module::KERNELS;
use crate::status::{Result, Status};
use crate::volume::Copy3D;
use crate::work;

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
    params: Arc<[u8]>,
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

/// A function of the program's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostCall {
    pub(crate) function: unsafe extern "C" fn(*mut c_void),
    pub(crate) data: usize,
}

impl Launch {
    /// A launch whose parameters are taken now.
    ///
    /// # Safety
    /// The arguments' pointers are what the kernel's image asks for.
    pub(crate) unsafe fn new(kernel: usize, shape: Shape, arguments: Arguments) -> Result<Self> {
        let of = KERNELS.get(kernel).ok_or(Status::INVALID_HANDLE)?;
        let mut block = Vec::new();
        // SAFETY: the caller vouches for it.
        unsafe { pack(&of, arguments, &mut block)? };
        let params: Arc<[u8]> = block.into();
        let base = params.as_ptr() as usize;
        let each = &of.entry().params;
        let pointers = each.iter().map(|param| base + param.offset as usize);
        Ok(Self {
            kernel,
            shape,
            pointers: pointers.collect(),
            params,
        })
    }
}

impl Work {
    /// `CUgraphNodeType`.
    pub(crate) fn kind(&self) -> i32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(_) => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
        }
    }

    /// Appends it to a device's work.
    fn run(&self, device: &Device, stream: usize, number: u16) -> Result {
        match self {
            Self::Kernel(launch) => {
                let run = |kernel: &_| start(device, kernel, launch.shape, number, &launch.params);
                KERNELS
                    .with(launch.kernel, run)
                    .unwrap_or(Err(Status::INVALID_HANDLE))
            }
            // SAFETY: the program keeps what a node names for as long as it launches the graph.
            Self::Copy(copy) => unsafe { copy.run() },
            Self::Fill(fill) => fill.run(),
            Self::Host(call) => {
                work::sync(device)?;
                // SAFETY: as above.
                unsafe { (call.function)(call.data as *mut c_void) };
                Ok(())
            }
            Self::Wait(event) => crate::event::wait(*event, device),
            Self::Record(event) => crate::event::record(*event, stream),
            Self::Child(_) | Self::Empty => Ok(()),
        }
    }
}

impl Fill {
    pub(crate) fn run(&self) -> Result {
        let width = u8::try_from(self.width).map_err(|_| Status::INVALID_VALUE)?;
        let pitch = match self.rows {
            0 | 1 => self.count * self.width as usize,
            _ => self.pitch,
        };
        set_rows(
            self.address,
            pitch,
            self.value,
            width,
            self.count,
            self.rows,
        )
    }
}

/// A graph.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) handle: usize,
    nodes: Mutex<BTreeMap<usize, Node>>,
}

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
        };
        GRAPHS.add_with(make).1
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Node>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A graph that can be launched.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) flags: u64,
    pub(crate) steps: Mutex<Vec<Step>>,
}

pub(crate) static EXECS: LazyLock<Handles<Exec>> = LazyLock::new(Handles::new);

impl Exec {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Step>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the step of a node, or changes it.
    pub(crate) fn with<R>(
        &self,
        node: usize,
        body: impl FnOnce(&mut Step) -> Result<R>,
    ) -> Result<R> {
        let mut steps = self.lock();
        let step = steps.iter_mut().find(|step| step.node == node);
        body(step.ok_or(Status::INVALID_VALUE)?)
    }

    /// Appends its nodes to a device's work, one behind the other.
    pub(crate) fn launch(&self, device: &Device, stream: usize, number: u16) -> Result {
        let steps = self.lock();
        let mut enabled = steps.iter().filter(|step| step.enabled);
        enabled.try_for_each(|step| step.work.run(device, stream, number))
    }
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
