//! Slots of a session's modules.

use std::collections::{HashMap, VecDeque};

use bus_schemas::{Code, ModuleHash, limits};

use crate::error::{Result, refused};
use crate::module::Module;

/// Which module slots are taken, and the transfers of the images that the worker was given by this
/// session. It is locked while loads and unloads are appended: the worker sees them in the same order, and so
/// both know of each transfer when the last module that came of it was unloaded.
#[derive(Debug, Default)]
pub(super) struct Slots {
    next: u32,
    free: VecDeque<u32>,
    pub(super) given: HashMap<ModuleHash, u64>,
    /// How many slots have a module of an image.
    pub(super) loads: HashMap<ModuleHash, u32>,
}

impl Slots {
    /// A free slot for a module.
    pub(super) fn take(&mut self) -> Result<u32> {
        match self.free.pop_front() {
            Some(slot) => Ok(slot),
            None if self.next < limits::MODULES => {
                self.next += 1;
                Ok(self.next - 1)
            }
            None => {
                let detail = format!("a session holds {} modules at most", limits::MODULES);
                Err(refused(Code::BadModule, detail))
            }
        }
    }

    /// A slot has another module no more: an image that none has is the worker's to forget, and is
    /// offered again when it is loaded again.
    pub(super) fn leave(&mut self, module: &Module) {
        self.free.push_back(module.slot);
        if let Some(loads) = self.loads.get_mut(&module.hash) {
            *loads -= 1;
            if *loads == 0 {
                self.loads.remove(&module.hash);
                self.given.remove(&module.hash);
            }
        }
    }
}
