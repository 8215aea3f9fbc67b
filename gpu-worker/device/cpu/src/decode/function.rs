//! A decoded function: its frame, its parameters, what it calls, and where its registers live.

use super::form::{Bank, Slot, Special};
use super::lists::Lists;
use std::collections::BTreeSet;

/// Where an argument or result of a call lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// A register of a bank.
    Register(Bank, Slot),
    /// Bytes of local memory: offset from the frame, size.
    Local(u32, u32),
}

/// Whom a call goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Callee {
    /// A function of this module.
    Function(u32),
    /// The function whose address is in this register.
    Register(Slot),
    /// A function that the device provides.
    Runtime(Runtime),
}

/// What the device provides where a module only declares it.
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
    /// The function of this name and of so many arguments and results.
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
    /// Every register it names.
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
    /// Constants it uses, of words and of doubles.
    pub(crate) constants: (BTreeSet<u32>, BTreeSet<u32>),
    /// Registers that it may read before it writes them: zeroed when it starts.
    pub(crate) unwritten: Vec<(Bank, Slot)>,
    /// The blocks in the order in which parted lanes run, each by its first instruction and that behind its last;
    /// empty where that is the order of the text.
    pub(crate) order: Vec<(u32, u32)>,
    /// Where its registers live, for who generates code.
    pub(crate) alive: Alive,
}

/// Which of a function's registers live behind its blocks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Alive {
    /// First instruction of each block.
    pub(crate) starts: Vec<u32>,
    /// Numbers of registers that live behind each.
    pub(crate) behind: Lists,
    /// Numbers of those that are taken to live everywhere.
    pub(crate) always: Vec<u32>,
    /// The places of registers, by their numbers.
    pub(crate) places: Vec<(Bank, Slot)>,
}

/// What one activation of a function takes.
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
    /// What a bank takes.
    pub(crate) fn bank(&mut self, bank: Bank) -> &mut u32 {
        match bank {
            Bank::Word => &mut self.words,
            Bank::Double => &mut self.doubles,
            Bank::Pred => &mut self.preds,
        }
    }
}
