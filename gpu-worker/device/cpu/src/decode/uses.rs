//! What a function uses: special registers, functions and constants.

use super::form::{Bank, Function, Slot, Special};
use std::collections::BTreeSet;

/// Special registers, functions and constants that a body uses.
#[derive(Default)]
pub(super) struct Uses {
    specials: Vec<(Special, Slot)>,
    calls: Vec<u32>,
    indirect: bool,
    /// Of words and of doubles.
    constants: (BTreeSet<u32>, BTreeSet<u32>),
}

impl Uses {
    /// The register that holds a special register, if one does.
    pub(super) fn special(&self, special: Special) -> Option<Slot> {
        let known = self.specials.iter().find(|(known, _)| *known == special);
        known.map(|(_, slot)| *slot)
    }

    /// Notes the register that holds a special register.
    pub(super) fn hold(&mut self, special: Special, slot: Slot) {
        self.specials.push((special, slot));
    }

    /// Numbers of the registers that hold special registers.
    pub(super) fn held(&self) -> Vec<u32> {
        let held = self.specials.iter();
        let numbers = held.filter_map(|(_, slot)| slot.number());
        numbers.map(|at| at as u32).collect()
    }

    /// Notes a call of a function.
    pub(super) fn call(&mut self, function: u32) {
        self.calls.push(function);
    }

    /// Notes a call of an address.
    pub(super) fn call_address(&mut self) {
        self.indirect = true;
    }

    /// Notes a constant of a bank's pool.
    pub(super) fn constant(&mut self, bank: Bank, index: u32) {
        match bank {
            Bank::Double => self.constants.1.insert(index),
            _ => self.constants.0.insert(index),
        };
    }

    /// Gives a function its uses; `placed` is the place of a register.
    pub(super) fn give(self, function: Function, placed: impl Fn(Slot) -> Slot) -> Function {
        let specials = self.specials.iter();
        Function {
            specials: specials.map(|(it, slot)| (*it, placed(*slot))).collect(),
            calls: self.calls,
            indirect: self.indirect,
            constants: self.constants,
            ..function
        }
    }
}
