//! Ownership of graphs: by the program, or by the node of which the graph is the child.

use std::sync::MutexGuard;

use super::recorded::{Graph, Owner};
use crate::abi::Handle;
use crate::lock::lock;
use crate::status::{Result, Status};

impl Graph {
    fn owner(&self) -> MutexGuard<'_, Option<Owner>> {
        lock(&self.owner)
    }

    /// Makes a node of another graph the owner, unless the graph has one.
    pub(crate) fn own(&self, parent: Handle<Self>) {
        let moved = false;
        self.owner().get_or_insert(Owner { parent, moved });
    }

    /// Moves the graph into another graph.
    ///
    /// # Errors
    /// [`Status::INVALID_VALUE`] if a node owns it already, or if it contains the other graph.
    pub(super) fn move_into(&self, parent: &Self) -> Result {
        let mut next = Some(parent.handle);
        while let Some(handle) = next {
            if handle == self.handle {
                return Err(Status::INVALID_VALUE);
            }
            next = handle.get()?.owner().map(|owner| owner.parent);
        }
        let (mut owner, parent, moved) = (self.owner(), parent.handle, true);
        match owner.is_some() {
            true => Err(Status::INVALID_VALUE),
            false => {
                *owner = Some(Owner { parent, moved });
                Ok(())
            }
        }
    }

    /// Undoes a failed transfer to another graph: a moved graph is the program's again, a copy is
    /// destroyed.
    pub(crate) fn give_back(&self) {
        let owner = self.owner().take();
        if !owner.is_some_and(|owner| owner.moved) {
            self.destroy();
        }
    }

    /// Refuses a graph that is owned by a node, which alone may destroy it.
    pub(crate) fn is_free(&self) -> Result {
        match *self.owner() {
            Some(_) => Err(Status::INVALID_VALUE),
            None => Ok(()),
        }
    }

    /// Refuses a graph that was moved, because it is no longer independent.
    pub(crate) fn is_whole(&self) -> Result {
        match *self.owner() {
            Some(Owner { moved: true, .. }) => Err(Status::INVALID_VALUE),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorded::Work;
    use super::*;

    #[test]
    fn a_moved_graph_is_its_nodes_and_no_graph_gets_into_itself() {
        let [parent, child, grandchild] = [(); 3].map(|()| Graph::create());
        assert_eq!(child.move_into(&child), Err(Status::INVALID_VALUE));
        grandchild.move_into(&child).expect("it is free");
        let inner = child
            .add(Work::Child(grandchild.clone()), &[])
            .expect("added");
        child.move_into(&parent).expect("it is free");
        let node = parent.add(Work::Child(child.clone()), &[]).expect("added");
        assert_eq!(child.move_into(&parent), Err(Status::INVALID_VALUE));
        assert_eq!(
            parent.move_into(&grandchild),
            Err(Status::INVALID_VALUE),
            "a circle"
        );
        assert!(child.is_free().is_err() && child.is_whole().is_err());
        assert!(parent.is_free().is_ok() && parent.is_whole().is_ok());
        // Nodes of a copy own their graphs too, but nothing was moved there.
        let copy = parent.copy();
        let of_copy = copy.nodes()[0].with_work(|work| match work {
            Work::Child(child) => Ok(child.clone()),
            _ => Err(Status::UNKNOWN),
        });
        let of_copy = of_copy.expect("a child");
        assert!(of_copy.is_free().is_err() && of_copy.is_whole().is_ok());
        parent.remove(node);
        assert!(
            child.handle.get().is_err() && inner.graph().is_err(),
            "gone with its node"
        );
        assert!(grandchild.handle.get().is_err() && of_copy.handle.get().is_ok());
        let other = Graph::create();
        other.move_into(&parent).expect("it is free");
        other.give_back();
        assert!(other.is_free().is_ok());
    }
}
