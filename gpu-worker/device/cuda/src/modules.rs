//! The modules of a device, prepared on any thread: linking takes up to seconds, and loading waits for all
//! work of the GPU. The device's thread does neither.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bus_schemas::{Code, Failure, ModuleHash};
use device::{Compiler, Halt, PreparedModule, Watch};

use crate::clock::Clock;
use crate::driver::Context;
use crate::linked::Linked;

/// Modules by the hash of their images, and what is needed to make them.
#[derive(Debug)]
pub(crate) struct Modules {
    context: Context,
    /// The driver's version.
    driver: u32,
    clock: Clock,
    table: Mutex<BTreeMap<ModuleHash, Arc<Linked>>>,
    /// The failure that has ended the context, if a preparation has seen it.
    ended: OnceLock<Failure>,
}

impl Modules {
    /// Creates an empty table for a context of a driver of this version.
    pub(crate) fn new(context: Context, driver: u32, clock: Clock) -> Self {
        Self {
            context,
            driver,
            clock,
            table: Mutex::default(),
            ended: OnceLock::new(),
        }
    }

    pub(crate) fn get(&self, hash: ModuleHash) -> Option<Arc<Linked>> {
        self.table().get(&hash).cloned()
    }

    /// Returns the failure that has ended the context, if a preparation has seen it.
    pub(crate) fn ended(&self) -> Option<Failure> {
        self.ended.get().cloned()
    }

    // A panic with the lock held leaves the table with or without the whole module.
    fn table(&self) -> MutexGuard<'_, BTreeMap<ModuleHash, Arc<Linked>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Compiler for Modules {
    /// The watch is asked once: the driver cannot be told to stop.
    fn compile(
        &self,
        hash: ModuleHash,
        image: &[u8],
        watch: &dyn Watch,
    ) -> Result<PreparedModule, Failure> {
        if let Some(linked) = self.get(hash) {
            return Ok(linked.info.clone());
        }
        let halted = |halt: Halt| Failure::new(Code::ModuleLimit, halt.to_string());
        watch.goes_on(0).map_err(halted)?;
        self.context.enter()?;
        // Made without the lock, because sessions load modules meanwhile.
        let made = Linked::new(hash, image, self.driver, &self.clock);
        if made.is_err()
            && let Some(why) = self.context.end()
        {
            // Another preparation may have seen it before.
            let _ = self.ended.set(why);
        }
        let (linked, compiled) = made?;
        let info = linked.info.clone();
        self.table().insert(hash, Arc::new(linked));
        Ok(PreparedModule { compiled, ..info })
    }

    fn forget(&self, hash: ModuleHash) {
        let gone = self.table().remove(&hash);
        // Freed without the lock.
        drop(gone);
    }
}
