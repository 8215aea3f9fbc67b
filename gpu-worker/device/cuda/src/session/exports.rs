//! A session's side of memory that others use, or that it uses of theirs.

use bus_schemas::{Failure, Op};

use super::Session;
use crate::driver::Context;
use crate::memory::ExportedExtents;

impl Session {
    /// True if others use memory of it, or it theirs.
    pub(crate) fn has_exchanged(&self) -> bool {
        !self.exported.is_empty() || self.memory.has_imports()
    }

    /// Others may use the allocation that begins at an address.
    pub(crate) fn export(&mut self, address: u64) -> Result<ExportedExtents, Failure> {
        let extents = self.memory.exported(address)?;
        self.exported.insert(address);
        Ok(extents)
    }

    /// Nobody else uses it any more.
    pub(crate) fn end_export(&mut self, address: u64) {
        self.exported.remove(&address);
    }

    /// True if an op frees what others use: they are to lose it first, and [`Session::frees`] says so.
    pub(super) fn waits_for_importers(&mut self, op: &Op) -> bool {
        let Op::Free { address } = op else {
            return false;
        };
        let exported = self.exported.contains(address);
        if exported {
            self.frees = Some(*address);
        }
        exported
    }

    /// The exported allocation that is to be freed next, once.
    pub(crate) fn frees(&mut self) -> Option<u64> {
        self.frees.take()
    }

    /// Has another session's allocation at an address.
    pub(crate) fn import(
        &mut self,
        context: &Context,
        address: u64,
        exported: &ExportedExtents,
    ) -> Result<(), Failure> {
        // What was freed may be mapped there.
        self.drop_if_freed()?;
        self.memory.import(context, address, exported)
    }

    /// Does not use it any more; waits for its work that may.
    pub(crate) fn drop_import(&mut self, address: u64) -> Result<(), Failure> {
        self.context.enter()?;
        self.stream.wait()?;
        self.memory.drop_import(address)
    }
}
