//! Modules of a session: images given to the worker, and slots.

use std::collections::{HashMap, VecDeque};
use std::sync::PoisonError;

use bus_schemas::{Code, KernelKey, ModuleHash, Op, Row, Symbol, limits};

use super::Session;
use crate::error::{ClientError, Result, refused};
use crate::module::Module;

/// Which module slots are taken, and the transfers of the images that the worker was given by this
/// session.
#[derive(Debug, Default)]
pub(super) struct Slots {
    next: u32,
    free: VecDeque<u32>,
    given: HashMap<ModuleHash, u64>,
}

impl Session {
    /// Loads a PTX image. It travels and is compiled once for all of the tenant's sessions on the
    /// worker: it is offered by its hash first, unless it is small. Blocks until the worker has said
    /// that its device can run it, unless it said so before.
    ///
    /// # Errors
    /// [`Code::BadModule`] with line and column, or what else the device says of an image that it
    /// cannot run; the session goes on. Else the session's.
    pub fn load(&self, image: &[u8]) -> Result<Module> {
        let hash = ModuleHash::of(image);
        let info = self.images.examine(hash, image)?;
        self.give(hash, image)?;
        let slot = self.slot()?;
        self.append(&Op::LoadModule { slot, hash })?;
        Ok(Module { slot, hash, info })
    }

    /// Has the worker prepare an image that will be loaded soon. Blocks as [`Session::load`] does.
    ///
    /// # Errors
    /// As [`Session::load`].
    pub fn prepare(&self, image: &[u8]) -> Result<()> {
        let hash = ModuleHash::of(image);
        self.images.examine(hash, image)?;
        self.give(hash, image)
    }

    /// Has the worker prepare an image.
    fn give(&self, hash: ModuleHash, image: &[u8]) -> Result<()> {
        let key = (self.opened().incarnation, hash);
        let judgement = self.images.judgement(key);
        if let Some(Some(failure)) = judgement {
            return Err(ClientError::Refused(failure));
        }
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let transfer = match slots.given.get(&hash) {
            Some(transfer) => *transfer,
            None => {
                let transfer = self.line.stage(image, Some(hash))?;
                slots.given.insert(hash, transfer);
                transfer
            }
        };
        drop(slots);
        if judgement.is_some() {
            // Another session of the program's was told; the load waits for the image where that is
            // not here any more.
            return Ok(());
        }
        let said = self.line.block_on(self.line.image(transfer));
        match &said {
            Ok(()) => self.images.judge(key, None),
            Err(ClientError::Refused(failure)) => self.images.judge(key, Some(failure.clone())),
            Err(_) => {}
        }
        said
    }

    /// A free slot for a module.
    fn slot(&self) -> Result<u32> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = match slots.free.pop_front() {
            Some(slot) => slot,
            None if slots.next < limits::MODULES => {
                slots.next += 1;
                slots.next - 1
            }
            None => {
                let detail = format!("a session holds {} modules at most", limits::MODULES);
                return Err(refused(Code::BadModule, detail));
            }
        };
        Ok(slot)
    }

    /// Where a module's variables lie: one for each that its image tells of, in that order.
    ///
    /// # Errors
    /// The session's.
    pub fn symbols(&self, module: &Module) -> Result<Vec<Symbol>> {
        let op = Op::Symbols { slot: module.slot };
        let number = self.line.push(&op, 0, &[], KernelKey(0))?;
        let rows = self.line.block_on(self.line.answer(number))?;
        let rows = rows.chunks_exact(Symbol::SIZE).map(Symbol::read);
        rows.collect::<Option<_>>()
            .ok_or_else(|| refused(Code::Protocol, "a row of symbols has no meaning"))
    }

    /// Unloads a module; its functions must not be launched any more.
    ///
    /// # Errors
    /// The session's.
    pub fn unload(&self, module: Module) -> Result<()> {
        self.append(&Op::UnloadModule { slot: module.slot })?;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.free.push_back(module.slot);
        Ok(())
    }
}
