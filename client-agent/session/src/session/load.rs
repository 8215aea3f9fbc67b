//! Loading and unloading modules in a session.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use bus_schemas::{Code, KernelKey, ModuleHash, Op, Row, Symbol};

use super::Session;
use crate::error::{ClientError, Result, refused};
use crate::module::Module;

impl Session {
    /// Loads a PTX image. It is sent and compiled once for all of the tenant's sessions on the
    /// worker: unless it is small, its hash is offered first. Blocks until the worker has said that
    /// its device can run it, unless it said so before.
    ///
    /// # Errors
    /// [`Code::BadModule`] with line and column, or the device's reason if it cannot run the image;
    /// the session goes on. Else the session's failure.
    pub fn load(&self, image: &[u8]) -> Result<Module> {
        let loaded = self.try_load(image);
        loaded.inspect_err(|error| self.channel.note_error(error))
    }

    /// Same as [`Session::load`], for a caller that has another way if the image is refused: no trace tells it.
    ///
    /// # Errors
    /// Same as [`Session::load`].
    pub fn try_load(&self, image: &[u8]) -> Result<Module> {
        let hash = ModuleHash::of(image);
        let info = self.images.examine(hash, image)?;
        if memchr::memmem::find(image, b"vprintf").is_some() {
            self.prints.store(true, Ordering::Relaxed);
        }
        let began = self.channel.now();
        loop {
            self.give(hash, image)?;
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have unloaded the image's last module meanwhile.
            if slots.given.contains_key(&hash) {
                let slot = slots.take()?;
                let load = Op::LoadModule { slot, hash };
                let number = self.channel.push(&load, 0, &[], KernelKey(0))?;
                self.channel.loaded(number, began);
                *slots.loads.entry(hash).or_default() += 1;
                return Ok(Module { slot, hash, info });
            }
        }
    }

    /// Makes the worker prepare an image that will be loaded soon. Blocks like [`Session::load`].
    ///
    /// # Errors
    /// Same as [`Session::load`].
    pub fn prepare(&self, image: &[u8]) -> Result<()> {
        let hash = ModuleHash::of(image);
        let examined = self.images.examine(hash, image);
        let prepared = examined.and_then(|_| self.give(hash, image));
        prepared.inspect_err(|error| self.channel.note_error(error))
    }

    /// Makes the worker prepare an image.
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
                let transfer = self.channel.stage(image, Some(hash))?;
                slots.given.insert(hash, transfer);
                transfer
            }
        };
        drop(slots);
        if judgement.is_some() {
            // Another session of the program already has the verdict; the load waits for the image
            // if the worker no longer has it.
            return Ok(());
        }
        let said = self.channel.block_on(self.channel.image(transfer));
        match &said {
            Ok(()) => self.images.judge(key, None),
            // It may fit when other images are gone, so it is offered again.
            Err(ClientError::Refused(failure)) if failure.code == Code::ModuleShare => {
                let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
                slots.given.remove(&hash);
            }
            Err(ClientError::Refused(failure)) => self.images.judge(key, Some(failure.clone())),
            Err(_) => {}
        }
        said
    }

    /// The addresses of a module's variables, one for each in its image, in the same order. From
    /// now on the program may copy to and from them, wherever they are.
    ///
    /// # Errors
    /// The session's failure.
    pub fn symbols(&self, module: &Module) -> Result<Vec<Symbol>> {
        let op = Op::Symbols { slot: module.slot };
        let number = self.channel.push(&op, 0, &[], KernelKey(0))?;
        let rows = self.channel.block_on(self.channel.answer(number))?;
        let rows = rows.chunks_exact(Symbol::SIZE).map(Symbol::read);
        let rows: Option<Vec<Symbol>> = rows.collect();
        let rows =
            rows.ok_or_else(|| refused(Code::Protocol, "a row of symbols has no meaning"))?;
        for row in rows.iter().filter(|row| row.address != 0) {
            self.channel
                .add_variable(module.slot, row.address, row.bytes);
        }
        Ok(rows)
    }

    /// Unloads a module; its functions must not be launched any more.
    ///
    /// # Errors
    /// The session's failure.
    pub fn unload(&self, module: Module) -> Result<()> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        self.append(&Op::UnloadModule { slot: module.slot })?;
        self.channel.forget_variables(module.slot);
        slots.leave(&module);
        Ok(())
    }
}
