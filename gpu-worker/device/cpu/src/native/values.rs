//! Values of one group of eight lanes: in vector registers, in their home in the register file, or
//! on the stack. Registers are given to what was used last.

use super::assembler::{Assembler, R12, R13, R14, R15, RSP, Rm, VCMPPS, VMOVUPS, VMOVUPS_TO, Ymm};
use super::roles::Var;
use crate::decode::form::{Bank, Slot};
use std::collections::HashMap;

/// Number of a value.
pub(super) type Id = usize;

/// The canonical NaN.
pub(super) const NAN: u32 = 0x7fff_ffff;

/// What eight lanes hold.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// Words and masks take one register, doubles two.
    pub(super) bank: Bank,
    at: [Option<Ymm>; 2],
    /// Where on the stack its halves lie.
    spilled: [Option<i32>; 2],
    /// The register whose memory holds it.
    home: Option<Var>,
    /// Single-precision results whose NaNs are not canonical yet.
    pub(super) raw: bool,
    /// Registers that hold it.
    vars: usize,
}

/// All values of a run, and who is where.
pub(super) struct Values {
    pub(super) asm: Assembler,
    list: Vec<Value>,
    names: HashMap<Var, Id>,
    file: [Option<(Id, usize)>; 16],
    used: [u64; 16],
    pinned: u16,
    now: u64,
    /// Stack bytes in use.
    pub(super) stack: i32,
    free: Vec<i32>,
    /// More registers were needed at once than there are: the code is of no use.
    pub(super) crowded: bool,
}

impl Values {
    pub(super) fn new(stack: i32) -> Self {
        Self {
            asm: Assembler::default(),
            list: Vec::new(),
            names: HashMap::new(),
            file: [None; 16],
            used: [0; 16],
            pinned: 0,
            now: 0,
            stack,
            free: Vec::new(),
            crowded: false,
        }
    }

    /// Forgets all values; code and stack stay.
    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.names.clear();
        self.file = [None; 16];
        self.pinned = 0;
        self.free.clear();
    }

    /// Begins an instruction: nothing is held fast.
    pub(super) fn unpin(&mut self) {
        self.pinned = 0;
    }

    pub(super) fn pin(&mut self, register: Ymm) {
        self.pinned |= 1 << register.0;
    }

    pub(super) fn release(&mut self, register: Ymm) {
        self.pinned &= !(1 << register.0);
    }

    /// Registers that hold values.
    pub(super) fn busy(&self) -> Vec<Ymm> {
        let held = |at: &u8| self.file[usize::from(*at)].is_some() || self.pinned >> at & 1 != 0;
        (0..16).filter(held).map(Ymm).collect()
    }

    fn place(var: Var, half: usize) -> Rm {
        let offset = (var.1 & !Slot::CONSTANT) as i32 + 32 * half as i32;
        let base = match (var.bank(), var.is_constant()) {
            (Bank::Double, false) => R13,
            (Bank::Double, true) => R15,
            (_, false) => R12,
            (_, true) => R14,
        };
        Rm::At(base, offset)
    }

    /// A free register, emptied if need be; pinned.
    pub(super) fn fresh(&mut self) -> Ymm {
        self.now += 1;
        let pinned = self.pinned;
        let usable = |at: &usize| pinned >> at & 1 == 0;
        let empty = (0..16).filter(usable).find(|at| self.file[*at].is_none());
        let at = empty.unwrap_or_else(|| {
            let oldest = (0..16).filter(usable).min_by_key(|at| self.used[*at]);
            self.crowded |= oldest.is_none();
            let at = oldest.unwrap_or(0);
            self.evict(at);
            at
        });
        self.used[at] = self.now;
        let register = Ymm(at as u8);
        self.pin(register);
        register
    }

    fn evict(&mut self, at: usize) {
        let Some((id, half)) = self.file[at].take() else {
            return;
        };
        self.list[id].at[half] = None;
        if self.list[id].home.is_none() && self.list[id].spilled[half].is_none() {
            let place = self.free.pop().unwrap_or_else(|| {
                self.stack += 32;
                self.stack - 32
            });
            self.list[id].spilled[half] = Some(place);
            self.asm.v2(VMOVUPS_TO, Ymm(at as u8), Rm::At(RSP, place));
        }
    }

    /// The value of a register, known or where it lies.
    pub(super) fn of(&mut self, var: Var) -> Id {
        if let Some(id) = self.names.get(&var) {
            return *id;
        }
        let id = self.add(var.bank());
        self.list[id].home = Some(var);
        self.list[id].vars = 1;
        self.names.insert(var, id);
        id
    }

    /// The value of a register if the run has made or read it.
    pub(super) fn known(&self, var: Var) -> Option<Id> {
        self.names.get(&var).copied()
    }

    fn add(&mut self, bank: Bank) -> Id {
        self.list.push(Value {
            bank,
            at: [None; 2],
            spilled: [None; 2],
            home: None,
            raw: false,
            vars: 0,
        });
        self.list.len() - 1
    }

    pub(super) fn set_raw(&mut self, id: Id) {
        self.list[id].raw = true;
    }

    /// Half of a value in a register; pinned.
    pub(super) fn get(&mut self, id: Id, half: usize) -> Ymm {
        if let Some(register) = self.list[id].at[half] {
            self.now += 1;
            self.used[usize::from(register.0)] = self.now;
            self.pin(register);
            return register;
        }
        let register = self.fresh();
        let from = match (self.list[id].spilled[half], self.list[id].home) {
            (Some(place), _) => Rm::At(RSP, place),
            (None, Some(home)) => Self::place(home, half),
            // Never: a value is somewhere.
            (None, None) => Rm::At(RSP, 0),
        };
        self.asm.v2(VMOVUPS, register, from);
        self.hold(register, id, half);
        register
    }

    /// Half of a value as an operand: constants stay in memory.
    pub(super) fn operand(&mut self, id: Id, half: usize) -> Rm {
        match self.list[id].home {
            Some(home) if home.is_constant() && self.list[id].at[half].is_none() => {
                Self::place(home, half)
            }
            _ => Rm::Ymm(self.get(id, half)),
        }
    }

    fn hold(&mut self, register: Ymm, id: Id, half: usize) {
        self.file[usize::from(register.0)] = Some((id, half));
        self.list[id].at[half] = Some(register);
    }

    /// Makes a value of registers just computed, and the register it is for.
    pub(super) fn define(&mut self, var: Var, registers: &[Ymm]) -> Id {
        let id = self.add(var.bank());
        for (half, register) in registers.iter().enumerate() {
            self.hold(*register, id, half);
        }
        self.name(var, id);
        id
    }

    /// A register takes a value that is there.
    pub(super) fn name(&mut self, var: Var, id: Id) {
        self.list[id].vars += 1;
        if let Some(old) = self.names.insert(var, id) {
            self.lose(old);
        }
    }

    /// A register is not read any more.
    pub(super) fn forget(&mut self, var: Var) {
        if let Some(id) = self.names.remove(&var) {
            self.lose(id);
        }
    }

    fn lose(&mut self, id: Id) {
        let value = &mut self.list[id];
        value.vars -= 1;
        if value.vars > 0 {
            return;
        }
        for half in 0..2 {
            if let Some(register) = value.at[half].take() {
                self.file[usize::from(register.0)] = None;
            }
            self.free.extend(value.spilled[half].take());
        }
    }

    /// Cuts a value off from the register file, which is about to change.
    pub(super) fn detach(&mut self, id: Id) {
        let home = self.list[id].home.filter(|home| !home.is_constant());
        if home.is_none() {
            return;
        }
        let halves = if self.list[id].bank == Bank::Double {
            2
        } else {
            1
        };
        for half in 0..halves {
            let register = self.get(id, half);
            self.release(register);
        }
        self.list[id].home = None;
    }

    /// Whether a register's memory holds its value already.
    pub(super) fn is_home(&self, var: Var, id: Id) -> bool {
        self.list[id].home == Some(var)
    }

    /// Writes a register's value to its memory.
    pub(super) fn store(&mut self, var: Var, id: Id) {
        let halves = if var.bank() == Bank::Double { 2 } else { 1 };
        for half in 0..halves {
            self.unpin();
            let register = self.get(id, half);
            self.asm.v2(VMOVUPS_TO, register, Self::place(var, half));
        }
    }

    /// Makes a value's NaNs canonical.
    pub(super) fn clean(&mut self, id: Id) {
        if !std::mem::take(&mut self.list[id].raw) {
            return;
        }
        let register = self.get(id, 0);
        let mask = self.fresh();
        let nan = self.asm.constant([NAN; 8]);
        self.asm.v3i(VCMPPS, mask, register, register, 3);
        self.asm.blend(register, register, nan, mask);
        self.release(mask);
        // A copy on the stack is of the old bits.
        if let Some(place) = self.list[id].spilled[0].take() {
            self.free.push(place);
        }
    }
}
