//! Reads and writes of registers by a body's statements, noted while they are decoded.

use super::form::Slot;

/// A read of a register, or a write that no guard can prevent. The code of its statement begins at
/// `at`. Reads of a statement come before its writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) at: u32,
    pub(super) register: u32,
    pub(super) write: bool,
}

/// Start of a statement's code, and of its operands in the module's pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    pub(super) code: u32,
    pub(super) pool: u32,
}

/// Register accesses of a body's statements, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Accesses {
    pub(super) list: Vec<Access>,
    /// The statements.
    pub(super) begins: Vec<Begin>,
    /// Start of the current statement's code.
    at: u32,
    guarded: bool,
}

impl Accesses {
    /// Starts a statement.
    pub(super) fn statement(&mut self, code: usize, pool: usize) {
        self.at = code as u32;
        self.guarded = false;
        let begin = Begin {
            code: self.at,
            pool: pool as u32,
        };
        // Statements without code are part of the next one.
        match self.begins.last() {
            Some(last) if last.code == self.at => {}
            _ => self.begins.push(begin),
        }
    }

    /// Notes that the current statement has a guard.
    pub(super) fn guarded(&mut self) {
        self.guarded = true;
    }

    pub(crate) fn read(&mut self, slot: Slot) {
        let Some(register) = slot.number() else {
            return;
        };
        // A target may be decoded before a source, but the source is read first.
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
