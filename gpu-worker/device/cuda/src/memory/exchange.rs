//! Allocations of other sessions at addresses of this one: the same extents, mapped a second time.

use bus_schemas::{Code, ExportPlace, Failure};

use super::imports::{ExportedExtents, Import};
use super::{Memory, bad};
use crate::driver::Context;

impl Memory {
    /// Returns the extents of the allocation that begins at an address.
    pub(crate) fn exported(&self, address: u64) -> Result<ExportedExtents, Failure> {
        let none = || bad(format!("no allocation begins at {address:#x}"));
        let bytes = *self.allocations.get(&address).ok_or_else(none)?;
        let touched = self.extents.range(..address + bytes).rev();
        let touched = touched.take_while(|(first, extent)| **first + extent.size > address);
        let mut extents: Vec<_> = touched.map(|(first, it)| (*first, it.size)).collect();
        extents.reverse();
        let first = extents.first().map_or(address, |(first, _)| *first);
        let end = extents.last().map_or(address, |(first, size)| first + size);
        let place = ExportPlace {
            bytes,
            before: address - first,
            span: end - first,
        };
        Ok(ExportedExtents { extents, place })
    }

    /// Maps another session's allocation, with its first byte at an address.
    pub(crate) fn import(
        &mut self,
        context: &Context,
        address: u64,
        exported: &ExportedExtents,
    ) -> Result<(), Failure> {
        let ExportPlace {
            bytes,
            before,
            span,
        } = exported.place;
        let taken = || {
            bad(format!(
                "there is no room for {span} bytes around {address:#x}"
            ))
        };
        let first = address.checked_sub(before).ok_or_else(taken)?;
        let inside = self.window.contains(first, span) && first.is_multiple_of(self.granularity);
        let end = first
            .checked_add(span)
            .filter(|_| inside)
            .ok_or_else(taken)?;
        let mut mapped = self.extents.range(..end).rev();
        let mapped = mapped
            .next()
            .is_some_and(|(at, extent)| at + extent.size > first);
        if mapped || self.imports.overlap(first, end) {
            return Err(taken());
        }
        let begin = exported.extents.first().map_or(0, |(first, _)| *first);
        let extents = exported.extents.iter();
        let mappings =
            extents.map(|(at, size)| context.map_again(first + (at - begin), *size, *at));
        let mappings = mappings.collect::<Result<Vec<_>, Failure>>()?;
        let import = Import {
            bytes,
            first,
            end,
            _mappings: mappings,
        };
        self.imports.0.insert(address, import);
        Ok(())
    }

    /// Unmaps the import at an address. The caller has waited for its users.
    pub(crate) fn drop_import(&mut self, address: u64) -> Result<(), Failure> {
        let nothing = || {
            Failure::new(
                Code::BadAddress,
                format!("nothing is imported at {address:#x}"),
            )
        };
        self.imports
            .0
            .remove(&address)
            .map(drop)
            .ok_or_else(nothing)
    }

    /// True if it has imported anything.
    pub(crate) fn has_imports(&self) -> bool {
        !self.imports.0.is_empty()
    }
}
