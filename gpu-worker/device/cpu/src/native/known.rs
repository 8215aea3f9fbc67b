//! Constants whose bits are known when code is generated.

use super::roles::Var;
use crate::decode::Entry;
use crate::decode::form::{Bank, Constant, Slot};
use std::collections::HashMap;

/// Their bits, by their register.
pub(super) type Known = HashMap<Var, u64>;

/// Constants of a module whose bits are fixed.
pub(super) fn known(entries: &[Entry]) -> Known {
    let mut known = Known::new();
    for entry in entries {
        let words = entry.words.iter().map(|it| (Bank::Word, 128, it));
        let doubles = entry.doubles.iter().map(|it| (Bank::Double, 256, it));
        for (bank, size, (at, constant)) in words.chain(doubles) {
            if let Constant::Bits(bits) = constant {
                known.insert(Var::new(bank, Slot((at * size) | Slot::CONSTANT)), *bits);
            }
        }
    }
    known
}
