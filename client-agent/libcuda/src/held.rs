//! Allocations of a device's memory, each with the context that was current when the program asked for it: a
//! context that is reset frees its own.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::abi::Handle;
use crate::context::Context;
use crate::lock::lock;
use crate::stack::top;

/// The contexts of allocations, by address.
#[derive(Debug, Default)]
pub(crate) struct Held {
    table: Mutex<HashMap<u64, Handle<Context>>>,
}

impl Held {
    /// Notes an allocation of the thread's context.
    pub(crate) fn add(&self, address: u64) {
        lock(&self.table).insert(address, top());
    }

    /// Forgets an allocation.
    pub(crate) fn remove(&self, address: u64) {
        lock(&self.table).remove(&address);
    }

    /// Takes the allocations of a context out.
    pub(crate) fn take(&self, context: Handle<Context>) -> Vec<u64> {
        let mut table = lock(&self.table);
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
        stack(|stack| stack.push(Handle::new(7))).expect("nobody is at it");
        held.add(512);
        held.add(768);
        held.remove(768);
        assert_eq!(held.take(Handle::new(7)), [512]);
        assert!(held.take(Handle::new(7)).is_empty());
        assert_eq!(held.take(Handle::NULL), [256]);
    }
}
