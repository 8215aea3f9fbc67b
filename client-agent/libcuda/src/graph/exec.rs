//! Executable graphs: the steps of a launch.

use std::sync::{Mutex, MutexGuard};

use super::recorded::{Held, Node, Step, Work};
use crate::abi::Handle;
use crate::device::Device;
use crate::handle::table;
use crate::lock::lock;
use crate::status::{Result, Status};
use crate::stream::Stream;

/// An executable graph.
#[derive(Debug)]
pub(crate) struct Exec {
    pub(crate) flags: u64,
    pub(crate) steps: Mutex<Vec<Step>>,
    /// The objects that its graph held at instantiation.
    pub(crate) _held: Held,
}

table!(Exec, INVALID_HANDLE);

impl Exec {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Step>> {
        lock(&self.steps)
    }

    /// Inspects or changes the step of a node.
    pub(crate) fn with<R>(
        &self,
        node: Handle<Node>,
        body: impl FnOnce(&mut Step) -> Result<R>,
    ) -> Result<R> {
        let mut steps = self.lock();
        let step = steps.iter_mut().find(|step| step.node == node);
        body(step.ok_or(Status::INVALID_VALUE)?)
    }

    /// Replaces the work of a child graph's nodes, each by work of its kind, in the same order.
    pub(crate) fn replace_child(&self, node: Handle<Node>, new: Vec<Step>) -> Result {
        let mut steps = self.lock();
        let at = steps.iter().position(|step| step.node == node);
        let at = at.ok_or(Status::INVALID_VALUE)?;
        let Work::Child(child) = &steps[at].work else {
            return Err(Status::INVALID_VALUE);
        };
        let count = child.steps()?.len();
        let inner = steps.get_mut(at + 1..at + 1 + count);
        let inner = inner.ok_or(Status::INVALID_VALUE)?;
        let alike = |(old, new): (&Step, &Step)| {
            old.work.kind() == new.work.kind() && old.after == new.after
        };
        if count != new.len() || !inner.iter().zip(&new).all(alike) {
            return Err(Status::GRAPH_EXEC_UPDATE_FAILURE);
        }
        for (old, new) in inner.iter_mut().zip(new) {
            old.work = new.work;
        }
        Ok(())
    }

    /// Appends its nodes to a device's work, one after the other.
    pub(crate) fn launch(&self, device: &Device, stream: Handle<Stream>, number: u16) -> Result {
        let steps = self.lock();
        let mut enabled = steps.iter().filter(|step| step.enabled);
        enabled.try_for_each(|step| step.work.run(device, stream, number))
    }
}
