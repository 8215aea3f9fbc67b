//! Allocations of other sessions at addresses of this one: the same extents, mapped a second time.

use std::collections::BTreeMap;

use bus_schemas::{Code, ExportPlace, Failure};

use super::{Memory, bad};
use crate::driver::{Context, Mapping};

/// What a session has of others, by the addresses of their first bytes.
#[derive(Debug, Default)]
pub(super) struct Imports(BTreeMap<u64, Import>);

#[derive(Debug)]
struct Import {
    bytes: u64,
    /// The addresses that its extents take.
    first: u64,
    end: u64,
    /// Unmapped when it is dropped.
    _mappings: Vec<Mapping>,
}

impl Imports {
    /// Whether a range lies in something imported.
    pub(super) fn holds(&self, address: u64, bytes: u64) -> bool {
        let before = self.0.range(..=address).next_back();
        before.is_some_and(|(first, import)| {
            let end = address.checked_add(bytes);
            end.is_some_and(|end| end <= first + import.bytes)
        })
    }

    /// Whether something imported is mapped in a range.
    pub(super) fn overlap(&self, base: u64, limit: u64) -> bool {
        let mut imports = self.0.values();
        imports.any(|import| import.first < limit && base < import.end)
    }
}

/// The extents of an exported allocation: where each is mapped in its session, and its bytes.
#[derive(Debug, Clone)]
pub(crate) struct ExportedExtents {
    extents: Vec<(u64, u64)>,
    pub(crate) place: ExportPlace,
}

impl Memory {
    /// The extents of the allocation that begins at an address.
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

    /// Has the first byte of another session's allocation at an address.
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

    /// What was imported at an address is not mapped there any more. The caller has waited for its users.
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

    /// Whether it has anything of others.
    pub(crate) fn has_imports(&self) -> bool {
        !self.imports.0.is_empty()
    }
}
