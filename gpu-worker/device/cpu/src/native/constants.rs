//! Constants with bits that are known when code is generated.

use super::def_use::Var;
use crate::decode::form::{Bank, Constant, Slot};

/// A module's constants.
#[derive(Clone, Copy)]
pub(super) struct Constants<'d>(pub(super) &'d [Vec<Constant>; 2]);

impl Constants<'_> {
    /// The constant that a register stands for, if it is one.
    pub(super) fn constant(self, var: Var) -> Option<Constant> {
        if !var.is_constant() {
            return None;
        }
        let at = (var.1 & !Slot::CONSTANT) as usize;
        let place = match var.bank() {
            Bank::Double => self.0[1].get(at / 256),
            _ => self.0[0].get(at / 128),
        };
        place.copied()
    }

    /// The constant's bits, if they are fixed.
    pub(super) fn bits(self, var: Var) -> Option<u64> {
        match self.constant(var)? {
            Constant::Bits(bits) => Some(bits),
            _ => None,
        }
    }
}
