//! Slots of a session's modules.

use std::collections::{HashMap, VecDeque};

use bus_schemas::{Code, ModuleHash, limits};

use crate::error::{Result, refused};
use crate::module::Module;

/// Module slots in use, and the transfers of the images that this session sent to the worker. It is
/// locked while loads and unloads are appended, so the worker sees them in the same order. So both
/// sides know when the last module of each transfer was unloaded.
#[derive(Debug, Default)]
pub(super) struct Slots {
    next: u32,
    free: VecDeque<u32>,
    pub(super) given: HashMap<ModuleHash, u64>,
    /// Number of slots with a module of an image, by the image's hash.
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

    /// Frees the slot of a module. The worker may forget an image without modules, so it is offered
    /// again when it is loaded again.
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
