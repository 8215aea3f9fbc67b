//! Each thread's stack of contexts, by their handles.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

use crate::abi::Handle;
use crate::context::Context;
use crate::status::{Result, Status};

/// Number of contexts of a thread that are stored in the stack itself.
const NEAR: usize = 14;

/// A thread's contexts. It is not destroyed with the thread's other values. Exit handlers of the
/// process, such as destructors of the program, run after those and still have a context.
#[derive(Debug)]
pub(crate) struct Stack {
    near: [Handle<Context>; NEAR],
    far: ManuallyDrop<Vec<Handle<Context>>>,
    depth: usize,
}

impl Stack {
    const EMPTY: Self = Self {
        near: [Handle::NULL; NEAR],
        far: ManuallyDrop::new(Vec::new()),
        depth: 0,
    };

    /// The current context.
    pub(crate) fn last(&self) -> Option<Handle<Context>> {
        let index = self.depth.checked_sub(1)?;
        self.near.get(index).or_else(|| self.far.last()).copied()
    }

    pub(crate) fn push(&mut self, handle: Handle<Context>) {
        match self.near.get_mut(self.depth) {
            Some(place) => *place = handle,
            None => self.far.push(handle),
        }
        self.depth += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<Handle<Context>> {
        let last = self.last()?;
        self.depth -= 1;
        if self.depth >= NEAR {
            self.far.pop();
        } else {
            // Freed here, because nothing else frees it.
            *self.far = Vec::new();
        }
        Some(last)
    }
}

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack::EMPTY) };
}

/// Inspects or changes the thread's stack.
///
/// # Errors
/// If the thread is already in such a call.
pub(crate) fn stack<R>(body: impl FnOnce(&mut Stack) -> R) -> Result<R> {
    STACK
        .with(|stack| {
            let stack = stack.try_borrow_mut();
            stack.map(|mut stack| body(&mut stack))
        })
        .map_err(|_| Status::INVALID_CONTEXT)
}

/// The thread's current context; null if there is none.
pub(crate) fn top() -> Handle<Context> {
    let last = stack(|stack| stack.last()).ok().flatten();
    last.unwrap_or(Handle::NULL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_as_deep_as_it_is_used() {
        let mut stack = Stack::EMPTY;
        assert_eq!(stack.pop(), None);
        for handle in (1..=40).map(Handle::new) {
            stack.push(handle);
            assert_eq!(stack.last(), Some(handle));
        }
        for handle in (1..=40).rev().map(Handle::new) {
            assert_eq!(stack.pop(), Some(handle));
        }
        assert_eq!((stack.last(), stack.far.capacity()), (None, 0));
    }

    #[test]
    fn a_stack_outlives_its_threads_other_values() {
        assert!(!std::mem::needs_drop::<RefCell<Stack>>());
    }
}
