//! Allocations of a device's memory, each with the context that was current at the time. A context
//! that ends frees its allocations.

use std::collections::{BTreeSet, HashMap};
use std::sync::Mutex;

use foldhash::fast::FixedState;

use crate::abi::Handle;
use crate::context::Context;
use crate::lock::{Seldom, lock};
use crate::stack::top;

/// The time at which an allocation is freed unless the program frees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// With its context.
    WithContext,
    /// Only when the device's primary context is reset: memory of pools, and twins of host memory.
    AtReset,
}

/// The contexts of allocations, by address.
#[derive(Debug, Default)]
pub(crate) struct Held {
    table: Mutex<HashMap<u64, (Handle<Context>, Ends), FixedState>>,
}

impl Held {
    /// Notes an allocation of the thread's context.
    pub(crate) fn add(&self, address: u64, ends: Ends) {
        lock(&self.table).insert(address, (top(), ends));
    }

    /// Forgets an allocation.
    pub(crate) fn remove(&self, address: u64) {
        lock(&self.table).remove(&address);
    }

    /// Removes and returns the allocations of a context that end now.
    pub(crate) fn take(&self, context: Handle<Context>, now: Ends) -> Vec<u64> {
        let mut table = lock(&self.table);
        let is_over = |ends| now == Ends::AtReset || ends == now;
        let taken = table.extract_if(|_, (of, ends)| *of == context && is_over(*ends));
        taken.map(|(address, _)| address).collect()
    }
}

/// Allocations that the program has marked; marks are rare.
#[derive(Debug, Default)]
pub(crate) struct Marked(Seldom<BTreeSet<u64>>);

impl Marked {
    /// Sets or clears the mark of the allocation at a base.
    pub(crate) fn set(&self, base: u64, is_marked: bool) {
        if is_marked {
            self.0.lock().insert(base);
        } else if let Some(mut bases) = self.0.if_used() {
            bases.remove(&base);
        }
    }

    /// Says whether the allocation at a base is marked.
    pub(crate) fn holds(&self, base: u64) -> bool {
        self.0.if_used().is_some_and(|bases| bases.contains(&base))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::stack;

    #[test]
    fn a_context_has_its_own() {
        let held = Held::default();
        held.add(256, Ends::WithContext);
        stack(|stack| stack.push(Handle::new(7))).expect("nobody is at it");
        held.add(512, Ends::WithContext);
        held.add(768, Ends::WithContext);
        held.add(1024, Ends::AtReset);
        held.remove(768);
        assert_eq!(held.take(Handle::new(7), Ends::WithContext), [512]);
        assert_eq!(held.take(Handle::new(7), Ends::AtReset), [1024]);
        assert!(held.take(Handle::new(7), Ends::AtReset).is_empty());
        assert_eq!(held.take(Handle::NULL, Ends::AtReset), [256]);
    }
}
