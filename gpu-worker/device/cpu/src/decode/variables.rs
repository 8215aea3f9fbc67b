//! The memory of a function's variables.

use super::builder::fail;
use crate::error::BuildResult as Result;
use ptx::ParsedVariable;
use std::collections::HashMap;

/// Maximum bytes of one function's local memory.
const LOCAL_LIMIT: u64 = 512 << 10;

/// Places of a function's variables in local and shared memory, and the sizes of their elements.
pub(super) struct Variables<'a> {
    /// Bytes of local memory.
    local: u32,
    /// End of the shared variables.
    shared: u64,
    /// Bytes of one element of each variable.
    elements: HashMap<&'a str, u64>,
}

impl<'a> Variables<'a> {
    /// No variables. Shared ones will begin at `shared`.
    pub(super) fn new(shared: u64) -> Self {
        Self {
            local: 0,
            shared,
            elements: HashMap::new(),
        }
    }

    /// Notes the size of a variable's elements.
    pub(super) fn declare(&mut self, variable: &ParsedVariable<'a>) {
        let element = variable.scalar.size() * u64::from(variable.lanes);
        self.elements.insert(variable.name, element);
    }

    /// Bytes of one element of a variable; `None` if the function has none of this name.
    pub(super) fn element_bytes(&self, name: &str) -> Option<u64> {
        self.elements.get(name).copied()
    }

    /// Reserves local memory for a variable.
    pub(super) fn local(&mut self, variable: &ParsedVariable<'a>) -> Result<u32> {
        let at = u64::from(self.local).next_multiple_of(variable.align.max(1));
        let end = at.saturating_add(variable.size().unwrap_or(u64::MAX));
        if end > LOCAL_LIMIT {
            return fail(
                variable.position,
                format!("more than {LOCAL_LIMIT} bytes of local memory"),
            );
        }
        self.local = end as u32;
        Ok(at as u32)
    }

    /// Reserves shared memory for a variable.
    pub(super) fn shared(&mut self, variable: &ParsedVariable<'a>) -> u64 {
        let at = self.shared.next_multiple_of(variable.align);
        self.shared = at.saturating_add(variable.size().unwrap_or(0));
        at
    }

    /// Reserves local memory for the function's stack.
    pub(super) fn stack(&mut self, bytes: u32) -> u32 {
        let at = self.local_bytes();
        self.local = at + bytes;
        at
    }

    /// Bytes of local memory, for the next function's to begin aligned.
    pub(super) fn local_bytes(&self) -> u32 {
        self.local.next_multiple_of(16)
    }
}
