//! Reads and writes of registers by a body's statements, noted while they are decoded.

use super::form::{GuardSlot, Slot};

/// A read of a register, or a write that no guard can prevent, by the statement whose code begins
/// at `at`. Reads of a statement come before its writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) at: u32,
    pub(super) register: u32,
    pub(super) write: bool,
}

/// Where a statement's code begins, and its operands in the module's pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    pub(super) code: u32,
    pub(super) pool: u32,
}

/// What a body's statements do to its registers, in their order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    pub(super) list: Vec<Access>,
    /// The statements.
    pub(super) begins: Vec<Begin>,
    /// Where the current statement's code begins.
    at: u32,
    guarded: bool,
}

impl Accesses {
    /// A statement begins.
    pub(super) fn statement(&mut self, code: usize, pool: usize) {
        self.at = code as u32;
        self.guarded = false;
        let begin = Begin {
            code: self.at,
            pool: pool as u32,
        };
        // Statements without code are part of the one behind them.
        match self.begins.last() {
            Some(last) if last.code == self.at => {}
            _ => self.begins.push(begin),
        }
    }

    /// The guard of the statement that has begun.
    pub(super) fn guard(&mut self, guard: Option<GuardSlot>) {
        self.guarded = guard.is_some();
    }

    pub(crate) fn read(&mut self, slot: Slot) {
        let Some(register) = slot.number() else {
            return;
        };
        // A target may be decoded before a source; the source is read first all the same.
        let mut place = self.list.len();
        while place > 0 && self.list[place - 1].at == self.at && self.list[place - 1].write {
            place -= 1;
        }
        let access = Access {
            at: self.at,
            register: register as u32,
            write: false,
        };
        self.list.insert(place, access);
    }

    pub(crate) fn write(&mut self, slot: Slot) {
        let Some(register) = slot.number().filter(|_| !self.guarded) else {
            return;
        };
        self.list.push(Access {
            at: self.at,
            register: register as u32,
            write: true,
        });
    }
}
