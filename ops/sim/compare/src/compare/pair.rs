//! Two programs that share a device.

use crate::workload::Model;

/// A program with waiting users, and one beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    /// The urgent program; a user waits for each of its requests.
    pub urgent: Model,
    /// The program that takes the remaining time.
    pub effort: Model,
}

impl Pair {
    /// Its name: both models'.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}+{}", self.urgent.name, self.effort.name)
    }
}
