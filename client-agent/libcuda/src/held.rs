//! What a program holds of a device's memory, and in which context it was when it asked for it: a context
//! that is reset frees what is its own.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::stack::top;

/// The contexts of allocations, by address.
#[derive(Debug, Default)]
pub(crate) struct Held {
    table: Mutex<HashMap<u64, usize>>,
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes an allocation of the thread's context.
    pub(crate) fn add(&self, address: u64) {
        self.lock().insert(address, top());
    }

    /// Forgets an allocation.
    pub(crate) fn remove(&self, address: u64) {
        self.lock().remove(&address);
    }

    /// Takes the allocations of a context out.
    pub(crate) fn take(&self, context: usize) -> Vec<u64> {
        let mut table = self.lock();
        let taken = table.extract_if(|_, of| *of == context);
        taken.map(|(address, _)| address).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::stack;

    #[test]
    fn a_context_has_its_own() {
        let held = Held::default();
        held.add(256);
        stack(|stack| stack.push(7)).expect("nobody is at it");
        held.add(512);
        held.add(768);
        held.remove(768);
        assert_eq!(held.take(7), [512]);
        assert!(held.take(7).is_empty());
        assert_eq!(held.take(0), [256]);
    }
}
