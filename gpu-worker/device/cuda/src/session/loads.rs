//! Modules of a session. Another thread loads them, and a slice goes on once its module is there.

use bus_schemas::{Code, Failure, ModuleHash, Op};
use device_swap::Movable as _;

use super::flight::Flight;
use super::{Loaded, Session, Surroundings};
use crate::loader::Loading;

impl Session {
    /// True if an op loads a module that is not there yet. The first call for an op asks for it.
    pub(super) fn waits_for_load(
        &mut self,
        around: &Surroundings<'_>,
        op: &Op,
        flight: &mut Flight,
    ) -> bool {
        let Op::LoadModule { hash, .. } = *op else {
            return false;
        };
        if self.fault().is_some() {
            // It will not run.
            return false;
        }
        if self.loading.is_none() {
            self.loading = Some(self.ask(around, hash, flight));
        }
        self.held_up = match &mut self.loading {
            Some(Ok(loading)) => !loading.is_over(),
            _ => false,
        };
        self.held_up
    }

    /// Asks for a module. The wait for it is not the time of launches.
    fn ask(
        &self,
        around: &Surroundings<'_>,
        hash: ModuleHash,
        flight: &mut Flight,
    ) -> Result<Loading, Failure> {
        self.part(flight)?;
        let Some(linked) = around.modules.get(hash) else {
            let detail = format!("no image {hash} was staged");
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        Ok(around.loader.load(linked))
    }

    /// Puts the module that was asked for in a slot.
    pub(super) fn load(&mut self, slot: u32) -> Result<(), Failure> {
        let Some(loading) = self.loading.take() else {
            return Err(Failure::new(Code::Protocol, "no module was asked for"));
        };
        let (linked, module) = loading?.take()?;
        let loaded = Loaded {
            linked,
            module,
            functions: Vec::new(),
            variables: Vec::new(),
        };
        let before = self.slots.insert(slot, loaded);
        before.map_or(Ok(()), |before| self.unload(before))
    }

    /// Unloads the module of a slot, if there is one.
    pub(super) fn empty(&mut self, slot: u32, flight: &mut Flight) -> Result<(), Failure> {
        self.part(flight)?;
        let loaded = self.slots.remove(slot);
        loaded.map_or(Ok(()), |loaded| self.unload(loaded))
    }
}
