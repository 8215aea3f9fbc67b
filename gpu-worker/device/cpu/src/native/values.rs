//! Values of one group of eight lanes: in vector registers, in their home in the register file, or
//! on the stack. The most recently used values get registers.

use super::assembler::{
    Assembler, R12, R13, R14, R15, RSP, Rm, VBROADCASTSD, VCMPPS, VMOVUPS, VMOVUPS_TO, VPADDD,
    VPADDQ, VPBROADCASTD, Ymm,
};
use super::def_use::Var;
use crate::decode::form::{Bank, Slot};
use std::collections::HashMap;

/// Number of a value.
pub(super) type Id = usize;

/// The canonical NaN.
pub(super) const NAN: u32 = 0x7fff_ffff;

/// A value computed once for the warp: the location of lane 0's value, and the step from lane to
/// lane.
pub(super) type Scalar = (Rm, i64);

/// The value of eight lanes.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// Words and masks take one register, doubles two.
    pub(super) bank: Bank,
    at: [Option<Ymm>; 2],
    /// Stack places of its halves.
    spilled: [Option<i32>; 2],
    /// The register with the memory that holds it.
    home: Option<Var>,
    /// Location of lane 0's value, and the step from lane to lane.
    scalar: Option<Scalar>,
    /// True for a single-precision result with NaNs that are not canonical yet.
    pub(super) raw: bool,
    /// Number of registers that hold it.
    vars: usize,
}

/// All values of a run, and their locations.
pub(super) struct Values {
    pub(super) asm: Assembler,
    list: Vec<Value>,
    names: HashMap<Var, Id>,
    /// Registers with values that were computed once for the warp.
    pub(super) scalars: HashMap<Var, Scalar>,
    /// The group of eight lanes; 0 if the bases move instead.
    pub(super) group: i32,
    file: [Option<(Id, usize)>; 16],
    used: [u64; 16],
    pinned: u16,
    now: u64,
    /// Stack bytes in use.
    pub(super) stack: i32,
    free: Vec<i32>,
    /// True once more registers were needed at once than there are; the code is useless then.
    pub(super) crowded: bool,
}

impl Values {
    pub(super) fn new(stack: i32) -> Self {
        Self {
            asm: Assembler::default(),
            list: Vec::new(),
            names: HashMap::new(),
            scalars: HashMap::new(),
            group: 0,
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

    /// Begins an instruction: unpins all registers.
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

    pub(super) fn place(&self, var: Var, half: usize) -> Rm {
        let group = self.group << u8::from(var.bank() == Bank::Double);
        let offset = (var.1 & !Slot::CONSTANT) as i32 + 32 * (half as i32 + group);
        let base = match (var.bank(), var.is_constant()) {
            (Bank::Double, false) => R13,
            (Bank::Double, true) => R15,
            (_, false) => R12,
            (_, true) => R14,
        };
        Rm::At(base, offset)
    }

    /// A free register, spilled if necessary; pinned.
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
        let value = &self.list[id];
        let kept = value.home.is_some() || value.scalar.is_some();
        if !kept && value.spilled[half].is_none() {
            let place = self.free.pop().unwrap_or_else(|| {
                self.stack += 32;
                self.stack - 32
            });
            self.list[id].spilled[half] = Some(place);
            self.asm.v2(VMOVUPS_TO, Ymm(at as u8), Rm::At(RSP, place));
        }
    }

    /// The value of a register, known or in its home.
    pub(super) fn of(&mut self, var: Var) -> Id {
        if let Some(id) = self.names.get(&var) {
            return *id;
        }
        let id = self.add(var.bank());
        let scalar = self.scalars.get(&var).copied();
        self.list[id].scalar = scalar;
        self.list[id].home = scalar.is_none().then_some(var);
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
            scalar: None,
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
        if let (None, Some(scalar)) = (self.list[id].spilled[half], self.list[id].scalar) {
            self.spread(register, self.list[id].bank, half, scalar);
            self.hold(register, id, half);
            return register;
        }
        let from = match (self.list[id].spilled[half], self.list[id].home) {
            (Some(place), _) => Rm::At(RSP, place),
            (None, Some(home)) => self.place(home, half),
            // Unreachable: a value always has a location.
            (None, None) => Rm::At(RSP, 0),
        };
        self.asm.v2(VMOVUPS, register, from);
        self.hold(register, id, half);
        register
    }

    /// Difference of each lane from lane 0's value.
    pub(super) fn steps(&mut self, bank: Bank, half: usize, step: i64) -> Rm {
        let first = 8 * i64::from(self.group);
        if bank == Bank::Double {
            let first = first + 4 * half as i64;
            return self.asm.constant(std::array::from_fn(|word| {
                let bits = (first + (word / 2) as i64) * step;
                (bits >> (32 * (word % 2))) as u32
            }));
        }
        let steps = std::array::from_fn(|lane| ((first + lane as i64) * step) as u32);
        self.asm.constant(steps)
    }

    /// Gives every lane its value of a scalar computed for the warp.
    pub(super) fn spread(&mut self, d: Ymm, bank: Bank, half: usize, (from, step): Scalar) {
        if bank != Bank::Double {
            self.asm.v2(VPBROADCASTD, d, from);
            if step != 0 {
                let steps = self.steps(bank, half, step);
                self.asm.v3(VPADDD, d, d, steps);
            }
            return;
        }
        self.asm.v2(VBROADCASTSD, d, from);
        if step != 0 {
            let steps = self.steps(bank, half, step);
            self.asm.v3(VPADDQ, d, d, steps);
        }
    }

    /// Assigns a register a value computed for the warp, or the one in its memory.
    pub(super) fn rename(&mut self, var: Var, scalar: Option<Scalar>) {
        self.forget(var);
        match scalar {
            Some(scalar) => self.scalars.insert(var, scalar),
            None => self.scalars.remove(&var),
        };
    }

    /// Half of a value as an operand: constants stay in memory.
    pub(super) fn operand(&mut self, id: Id, half: usize) -> Rm {
        match self.list[id].home {
            Some(home) if home.is_constant() && self.list[id].at[half].is_none() => {
                self.place(home, half)
            }
            _ => Rm::Ymm(self.get(id, half)),
        }
    }

    fn hold(&mut self, register: Ymm, id: Id, half: usize) {
        self.file[usize::from(register.0)] = Some((id, half));
        self.list[id].at[half] = Some(register);
    }

    /// Makes a value of computed vector registers, and assigns it to a register.
    pub(super) fn define(&mut self, var: Var, registers: &[Ymm]) -> Id {
        let id = self.add(var.bank());
        for (half, register) in registers.iter().enumerate() {
            self.hold(*register, id, half);
        }
        self.name(var, id);
        id
    }

    /// Assigns an existing value to a register.
    pub(super) fn name(&mut self, var: Var, id: Id) {
        self.list[id].vars += 1;
        if let Some(old) = self.names.insert(var, id) {
            self.lose(old);
        }
    }

    /// Drops the value of a register that is not read any more.
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

    /// Detaches a value from the register file, which is about to change.
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

    /// True if a register's memory already holds its value.
    pub(super) fn is_home(&self, var: Var, id: Id) -> bool {
        self.list[id].home == Some(var)
    }

    /// Writes a register's value to its memory.
    pub(super) fn store(&mut self, var: Var, id: Id) {
        let halves = if var.bank() == Bank::Double { 2 } else { 1 };
        for half in 0..halves {
            self.unpin();
            let register = self.get(id, half);
            let place = self.place(var, half);
            self.asm.v2(VMOVUPS_TO, register, place);
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
        // A spilled copy has the old bits.
        if let Some(place) = self.list[id].spilled[0].take() {
            self.free.push(place);
        }
    }
}
