//! A decoded function: its frame, its parameters, its callees, and the live ranges of its
//! registers.

use super::form::{Bank, Slot, Special};
use super::lists::Lists;
use std::collections::BTreeSet;

/// Place of an argument or result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// A register of a bank.
    Register(Bank, Slot),
    /// Bytes of local memory: offset from the frame, size.
    Local(u32, u32),
}

/// The target of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A function of this module.
    Function(u32),
    /// The function with the address in this register.
    Register(Slot),
    /// A function that the device provides.
    Runtime(Runtime),
}

/// Functions that the device provides where a module only declares them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runtime {
    /// `vprintf(format, arguments)`, also where it is declared without a result.
    Print,
    /// `malloc(bytes)`.
    Allocate,
    /// `free(address)`.
    Free,
    /// `__assertfail(message, file, line, function, character size)`.
    Assert,
}

impl Runtime {
    /// The function of this name with that many arguments and results.
    pub(crate) fn find(name: &str, shape: (usize, usize)) -> Option<Self> {
        Some(match (name, shape) {
            ("vprintf", (2, 0 | 1)) => Self::Print,
            ("malloc", (1, 1)) => Self::Allocate,
            ("free", (1, 0)) => Self::Free,
            ("__assertfail", (5, 0)) => Self::Assert,
            _ => return None,
        })
    }
}

/// One call instruction's operands.
#[derive(Clone, Debug)]
pub(crate) struct CallSite {
    pub(crate) callee: Callee,
    pub(crate) args: Vec<Passed>,
    pub(crate) rets: Vec<Passed>,
}

impl CallSite {
    /// Every register that the call names.
    pub(crate) fn registers(&self) -> impl Iterator<Item = &Slot> {
        let passed = self.args.iter().chain(&self.rets);
        let passed = passed.filter_map(|passed| match passed {
            Passed::Register(_, slot) => Some(slot),
            Passed::Local(..) => None,
        });
        let callee = match &self.callee {
            Callee::Register(slot) => Some(slot),
            _ => None,
        };
        passed.chain(callee)
    }
}

/// A function or entry, decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Function {
    pub(crate) start: u32,
    pub(crate) frame: Frame,
    pub(crate) params: Vec<Passed>,
    pub(crate) returns: Vec<Passed>,
    /// Registers that a warp's place fills.
    pub(crate) specials: Vec<(Special, Slot)>,
    /// Functions called directly.
    pub(crate) calls: Vec<u32>,
    pub(crate) indirect: bool,
    /// Constants that it uses, of words and of doubles.
    pub(crate) constants: (BTreeSet<u32>, BTreeSet<u32>),
    /// Registers that it may read before it writes them; they are zeroed at its start.
    pub(crate) unwritten: Vec<(Bank, Slot)>,
    /// The blocks in the order in which diverged lanes run, each by its first instruction and the
    /// one behind its last. Empty if that is the order of the text.
    pub(crate) order: Vec<(u32, u32)>,
    /// Live registers, for the code generator.
    pub(crate) alive: Alive,
}

/// Registers of a function that are live behind its blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alive {
    /// First instruction of each block.
    pub(crate) starts: Vec<u32>,
    /// Numbers of the registers that are live behind each block.
    pub(crate) behind: Lists,
    /// Numbers of the registers that are assumed to be live everywhere.
    pub(crate) always: Vec<u32>,
    /// The places of registers, by their numbers.
    pub(crate) places: Vec<(Bank, Slot)>,
}

/// Size of one activation of a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes in the bank of 32-bit registers.
    pub(crate) words: u32,
    /// Bytes in the bank of 64-bit registers.
    pub(crate) doubles: u32,
    /// Predicates.
    pub(crate) preds: u32,
    /// Bytes of local memory per thread.
    pub(crate) local: u32,
}

impl Frame {
    /// Size in a bank.
    pub(crate) fn bank(&mut self, bank: Bank) -> &mut u32 {
        match bank {
            Bank::Word => &mut self.words,
            Bank::Double => &mut self.doubles,
            Bank::Pred => &mut self.preds,
        }
    }
}
