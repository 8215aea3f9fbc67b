//! Two programs that share a device.

use crate::workload::Model;

/// A program that somebody waits for, and one beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// Somebody waits for each of its requests.
    pub urgent: Model,
    /// It takes what is left.
    pub effort: Model,
}

impl Pair {
    /// Its name: both models'.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}+{}", self.urgent.name, self.effort.name)
    }
}
