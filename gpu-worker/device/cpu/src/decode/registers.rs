//! The registers of a body.

use super::accesses::Accesses;
use super::form::{Bank, Slot};

/// The registers of a body, without places yet, and their accesses.
#[derive(Default)]
pub(super) struct RegisterFile {
    /// The banks of the registers, by their numbers.
    banks: Vec<Bank>,
    /// True if any vector register is declared.
    vectors: bool,
    accesses: Accesses,
}

impl RegisterFile {
    /// Adds a register of a bank; it gets its place when the body is complete.
    pub(super) fn add(&mut self, bank: Bank) -> Slot {
        self.banks.push(bank);
        Slot::virtual_register(self.banks.len() - 1)
    }

    /// Notes that a vector register is declared.
    pub(super) fn has_vector(&mut self) {
        self.vectors = true;
    }

    /// True if any vector register is declared.
    pub(super) fn any_vector(&self) -> bool {
        self.vectors
    }

    /// The accesses.
    pub(super) fn accesses(&mut self) -> &mut Accesses {
        &mut self.accesses
    }

    /// Ends the body: the banks and the accesses.
    pub(super) fn into_parts(self) -> (Vec<Bank>, Accesses) {
        (self.banks, self.accesses)
    }
}
