//! Modules in a session: loaded into slots, in pieces, and unloaded.

use super::Prepared;
use super::failure::memory_failure;
use super::moves::{FREED, in_pieces};
use super::session::{Progressing, Run, Session, Step};
use crate::engine::instance::Placement;
use crate::error::MemoryError;
use bus_schemas::{Code, Failure, ModuleHash, Row as _, Symbol, limits};

impl Session {
    /// Addresses of the variables of a slot's module.
    pub(super) fn symbols(&self, slot: u32) -> Result<Vec<u8>, Failure> {
        let Some((instance, _)) = self.slots.get(&slot) else {
            let detail = format!("no module in slot {slot}");
            return Err(Failure::new(Code::UnknownFunction, detail));
        };
        let mut rows = Vec::new();
        let variables = instance.variables().take(limits::SYMBOLS);
        for (address, bytes, writable) in variables {
            let symbol = Symbol {
                address,
                bytes,
                writable,
            };
            symbol.write(&mut rows);
        }
        Ok(rows)
    }

    /// Loads a module into a slot and replaces the previous one.
    pub(super) fn load(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        slot: u32,
        hash: ModuleHash,
    ) -> Result<Step, Failure> {
        let (placement, prepared) = match self.loading.take() {
            Some(loading) => loading,
            None => {
                let Some(prepared) = run.modules.get(hash) else {
                    let detail = format!("module {hash} was not staged on this worker");
                    return Err(Failure::new(Code::BadModule, detail));
                };
                if let Step::Parked = self.unload(run, progress, slot)? {
                    return Ok(Step::Parked);
                }
                let begun = Placement::begin(&prepared.program, &mut self.memory);
                (begun.map_err(memory_failure)?, prepared)
            }
        };
        self.place(run, slot, placement, prepared)
    }

    fn place(
        &mut self,
        run: &Run<'_>,
        slot: u32,
        mut placement: Placement,
        prepared: Prepared,
    ) -> Result<Step, Failure> {
        loop {
            let placed = placement.go_on(&mut self.memory);
            let over = self.allocated().saturating_sub(run.room);
            match placed {
                Ok(_) if over > 0 => {
                    placement.instance.release(&mut self.memory);
                    return Err(memory_failure(MemoryError::OutOfMemory(over)));
                }
                Err(error) => {
                    placement.instance.release(&mut self.memory);
                    return Err(memory_failure(error));
                }
                Ok(true) => {
                    self.slots.insert(slot, (placement.instance, prepared));
                    return Ok(Step::Done);
                }
                Ok(false) if run.is_over() => {
                    self.loading = Some((placement, prepared));
                    return Ok(Step::Parked);
                }
                Ok(false) => {}
            }
        }
    }

    /// Takes the module out of a slot, if there is one.
    pub(super) fn unload(
        &mut self,
        run: &Run<'_>,
        progress: &mut Progressing,
        slot: u32,
    ) -> Result<Step, Failure> {
        self.last = None;
        if let Some((instance, _)) = self.slots.get(&slot) {
            let (base, bytes) = instance.block();
            let given_back = in_pieces(run, &mut progress.moved, (bytes, FREED), |offset, len| {
                self.memory.drain(base + offset, len);
                Ok(())
            })?;
            if let Step::Parked = given_back {
                return Ok(Step::Parked);
            }
        }
        if let Some((instance, _)) = self.slots.remove(&slot) {
            instance.release(&mut self.memory);
        }
        Ok(Step::Done)
    }
}
