//! A session's device memory: allocations at addresses its client picks. The physical memory behind them
//! comes in extents of whole granules, which neighbouring allocations may share.

mod buried;
mod exchange;
mod imports;

use std::collections::BTreeMap;

use bus_schemas::{Code, Failure, Window};

use crate::driver::{Context, Mapping};
use buried::{Buried, Grave};
pub(crate) use imports::ExportedExtents;
use imports::Imports;

/// Allocations and the extents behind them.
#[derive(Debug)]
pub(crate) struct Memory {
    window: Window,
    granularity: u64,
    /// First address -> bytes.
    allocations: BTreeMap<u64, u64>,
    /// First address -> extent.
    extents: BTreeMap<u64, Extent>,
    /// Extents that no allocation touches any more, but work may.
    buried: Buried<Option<Mapping>>,
    imports: Imports,
    resident: u64,
}

/// Whole granules of addresses that have physical memory, except while it is swapped out.
#[derive(Debug)]
struct Extent {
    size: u64,
    mapping: Option<Mapping>,
    /// Number of allocations that touch it.
    users: usize,
}

fn bad(detail: String) -> Failure {
    Failure::new(Code::BadAddress, detail)
}

impl Memory {
    pub(crate) fn new(window: Window, granularity: u64) -> Self {
        let (allocations, extents) = (BTreeMap::new(), BTreeMap::new());
        Self {
            window,
            granularity,
            allocations,
            extents,
            buried: Buried::default(),
            imports: Imports::default(),
            resident: 0,
        }
    }

    /// Bytes allocated.
    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }

    /// Bytes that it takes of the device, including freed ones that may be in use.
    pub(crate) fn held(&self) -> u64 {
        self.resident + self.buried.held()
    }

    /// Returns the allocation that holds an address: its first address and bytes.
    fn holder(&self, address: u64) -> Option<(u64, u64)> {
        let (first, bytes) = self.allocations.range(..=address).next_back()?;
        (address - first < *bytes).then_some((*first, *bytes))
    }

    /// Checks that a range lies inside one allocation, its own or an imported one.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), Failure> {
        let inside = bytes == 0
            || self.holder(address).is_some_and(|(first, size)| {
                address
                    .checked_add(bytes)
                    .is_some_and(|end| end <= first + size)
            });
        if inside || self.imports.holds(address, bytes) || self.covers(address, bytes) {
            return Ok(());
        }
        let detail = format!("{bytes} bytes at {address:#x} are not inside an allocation");
        Err(Failure::new(Code::IllegalAddress, detail))
    }

    /// True if allocations that lie side by side, imported ones included, hold all of a range: a program may
    /// have mapped them so.
    fn covers(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else {
            return false;
        };
        let mut covered = address;
        while covered < end {
            let own = self.holder(covered).map(|(first, size)| first + size);
            match own.or_else(|| self.imports.end(covered)) {
                Some(end) => covered = end,
                None => return false,
            }
        }
        true
    }

    /// Backs a free range of the window. Freed extents there are used again if they are still mapped, because
    /// work on them precedes the caller's. Returns the ranges that are mapped anew: they hold another
    /// session's bytes.
    pub(crate) fn alloc(
        &mut self,
        context: &Context,
        address: u64,
        bytes: u64,
    ) -> Result<Vec<(u64, u64)>, Failure> {
        let end = address.checked_add(bytes).filter(|_| bytes > 0);
        let Some(end) = end.filter(|_| self.window.contains(address, bytes)) else {
            return Err(bad(format!(
                "{bytes} bytes at {address:#x} are outside the window"
            )));
        };
        let before = self.allocations.range(..end).next_back();
        if before.is_some_and(|(first, size)| first + size > address) {
            return Err(bad(format!(
                "{bytes} bytes at {address:#x} are allocated already"
            )));
        }
        let base = address - address % self.granularity;
        let limit = end.next_multiple_of(self.granularity);
        if self.imports.overlap(base, limit) {
            return Err(bad(format!(
                "{bytes} bytes at {address:#x} would lie beside another session's"
            )));
        }
        let gaps = self.back(context, base, limit)?;
        self.touch(base, limit, |users| *users += 1);
        self.allocations.insert(address, bytes);
        self.resident += bytes;
        let fresh = gaps.into_iter().map(|(from, to)| (from, to - from));
        Ok(fresh.collect())
    }

    /// Maps all of a range of whole granules; returns the parts that were unmapped. If this fails, everything
    /// is as before.
    fn back(
        &mut self,
        context: &Context,
        base: u64,
        limit: u64,
    ) -> Result<Vec<(u64, u64)>, Failure> {
        let mut revived = Vec::new();
        for (first, grave) in self.buried.revive(base, limit) {
            let Grave {
                size,
                held,
                free,
                what: mapping,
            } = grave;
            let users = 0;
            revived.push((first, held, free));
            self.extents.insert(
                first,
                Extent {
                    size,
                    mapping,
                    users,
                },
            );
        }
        let gaps = self.gaps(base, limit);
        let map = |(from, to): &(u64, u64)| {
            let mapping = context.map(*from, to - from)?;
            let extent = Extent {
                size: to - from,
                mapping: Some(mapping),
                users: 0,
            };
            Ok((*from, extent))
        };
        match gaps.iter().map(map).collect::<Result<Vec<_>, Failure>>() {
            Ok(mapped) => {
                self.extents.extend(mapped);
                Ok(gaps)
            }
            Err(failure) => {
                for (first, held, free) in revived {
                    self.bury(first, held, free);
                }
                Err(failure)
            }
        }
    }

    /// Buries an extent that no allocation touches any more.
    fn bury(&mut self, first: u64, held: u64, free: u64) {
        if let Some(extent) = self.extents.remove(&first) {
            let grave = Grave {
                size: extent.size,
                held,
                free,
                what: extent.mapping,
            };
            self.buried.bury(first, grave);
        }
    }

    /// Returns the unmapped parts of a range of whole granules.
    fn gaps(&self, base: u64, limit: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut at) = (Vec::new(), base);
        let below = self.extents.range(..base).next_back();
        if let Some((first, extent)) = below {
            at = at.max(first + extent.size);
        }
        for (first, extent) in self.extents.range(base..limit) {
            if *first > at {
                gaps.push((at, *first));
            }
            at = first + extent.size;
        }
        if at < limit {
            gaps.push((at, limit));
        }
        gaps
    }

    fn touch(&mut self, base: u64, limit: u64, mut change: impl FnMut(&mut usize)) {
        for (first, extent) in self.extents.range_mut(..limit).rev() {
            if first + extent.size <= base {
                break;
            }
            change(&mut extent.users);
        }
    }

    /// Frees the allocation that begins at an address. The memory behind it stays mapped until
    /// [`Memory::passed`] is called with the number of this free, which is above those of earlier ones.
    pub(crate) fn free(&mut self, address: u64, free: u64) -> Result<(), Failure> {
        let Some(bytes) = self.allocations.remove(&address) else {
            return Err(bad(format!("no allocation begins at {address:#x}")));
        };
        let base = address - address % self.granularity;
        let limit = (address + bytes).next_multiple_of(self.granularity);
        self.touch(base, limit, |users| *users -= 1);
        self.resident -= bytes;
        let end = address + bytes;
        let below = self.extents.range(..limit).rev();
        let touched = below.take_while(|(first, extent)| **first + extent.size > base);
        let dead = touched.filter(|(_, extent)| extent.users == 0);
        let held = |(first, extent): (&u64, &Extent)| {
            let last = end.min(first + extent.size);
            (*first, last.saturating_sub(address.max(*first)))
        };
        let dead: Vec<_> = dead.map(held).collect();
        for (first, held) in dead {
            self.bury(first, held, free);
        }
        Ok(())
    }

    /// Drops the memory behind a free and those before it, because all work has passed it.
    pub(crate) fn passed(&mut self, free: u64) {
        drop(self.buried.passed(free));
    }

    /// Returns the extents with physical memory: first address and bytes.
    pub(crate) fn extents(&self) -> Vec<(u64, u64)> {
        let extents = self.extents.iter();
        let mapped = extents.filter(|(_, extent)| extent.mapping.is_some());
        mapped
            .map(|(first, extent)| (*first, extent.size))
            .collect()
    }

    /// Gives an extent's physical memory back; its addresses stay. The caller has waited for its users.
    pub(crate) fn release(&mut self, first: u64) {
        if let Some(extent) = self.extents.get_mut(&first) {
            extent.mapping = None;
        }
    }

    /// Gives the extent that holds an address physical memory, if it has none. Until it is overwritten, the
    /// memory has another session's bytes. The bytes that were taken out of the extent overwrite all of it.
    pub(crate) fn restore(&mut self, context: &Context, address: u64) -> Result<(), Failure> {
        let Some((first, extent)) = self.extents.range_mut(..=address).next_back() else {
            return Err(bad(format!("no extent holds {address:#x}")));
        };
        if extent.mapping.is_none() {
            extent.mapping = Some(context.map(*first, extent.size)?);
        }
        Ok(())
    }
}
