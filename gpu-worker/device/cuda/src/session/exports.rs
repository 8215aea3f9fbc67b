//! A session's side of exports and imports.

use bus_schemas::{Failure, Op};

use super::Session;
use crate::driver::Context;
use crate::memory::ExportedExtents;

impl Session {
    /// True if it has exported or imported memory.
    pub(crate) fn has_exchanged(&self) -> bool {
        !self.exported.is_empty() || self.memory.has_imports()
    }

    /// True if it has imported memory.
    pub(crate) fn has_imports(&self) -> bool {
        self.memory.has_imports()
    }

    /// Lets others use the allocation that begins at an address.
    pub(crate) fn export(&mut self, address: u64) -> Result<ExportedExtents, Failure> {
        let extents = self.memory.exported(address)?;
        self.exported.insert(address);
        Ok(extents)
    }

    /// Ends an export that no other session uses any more.
    pub(crate) fn end_export(&mut self, address: u64) {
        self.exported.remove(&address);
    }

    /// True if an op frees memory that others use. They must lose it first, and [`Session::frees`] returns
    /// it.
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

    /// Takes the exported allocation that is to be freed next.
    pub(crate) fn frees(&mut self) -> Option<u64> {
        self.frees.take()
    }

    /// Imports another session's allocation at an address.
    pub(crate) fn import(
        &mut self,
        context: &Context,
        address: u64,
        exported: &ExportedExtents,
    ) -> Result<(), Failure> {
        // Freed memory may still be mapped there.
        self.drop_if_freed()?;
        self.memory.import(context, address, exported)
    }

    /// Drops an import, after a wait for work that may use it.
    pub(crate) fn drop_import(&mut self, address: u64) -> Result<(), Failure> {
        self.context.enter()?;
        self.stream.wait()?;
        self.memory.drop_import(address)
    }
}
