//! A session's device memory: allocations at addresses its client picks, physical memory behind
//! them in extents of whole granules that neighbouring allocations may share.

use std::collections::BTreeMap;

use bus_schemas::{Code, Failure, Window};

use crate::driver::{Context, Mapping};

/// Allocations and the extents behind them.
#[derive(Debug)]
pub(crate) struct Memory {
    window: Window,
    granularity: u64,
    /// First address -> bytes.
    allocations: BTreeMap<u64, u64>,
    /// First address -> mapping and how many allocations touch it.
    extents: BTreeMap<u64, (Mapping, usize)>,
    resident: u64,
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
            resident: 0,
        }
    }

    /// Bytes allocated.
    pub(crate) fn resident(&self) -> u64 {
        self.resident
    }

    /// The allocation that holds an address: its first address and bytes.
    fn holder(&self, address: u64) -> Option<(u64, u64)> {
        let (first, bytes) = self.allocations.range(..=address).next_back()?;
        (address - first < *bytes).then_some((*first, *bytes))
    }

    /// Whether a range lies inside one allocation.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), Failure> {
        let inside = bytes == 0
            || self.holder(address).is_some_and(|(first, size)| {
                address
                    .checked_add(bytes)
                    .is_some_and(|end| end <= first + size)
            });
        if inside {
            return Ok(());
        }
        let detail = format!("{bytes} bytes at {address:#x} are not inside an allocation");
        Err(Failure::new(Code::IllegalAddress, detail))
    }

    /// Backs a range of the window that is free. Gives the ranges that are mapped anew for it: what is
    /// in them is somebody else's.
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
        let gaps = self.gaps(base, limit);
        for (from, to) in gaps.iter().copied() {
            match context.map(from, to - from) {
                Ok(mapping) => drop(self.extents.insert(from, (mapping, 0))),
                Err(failure) => {
                    self.extents.retain(|_, (_, users)| *users > 0);
                    return Err(failure);
                }
            }
        }
        self.touch(base, limit, |users| *users += 1);
        self.allocations.insert(address, bytes);
        self.resident += bytes;
        let fresh = gaps.into_iter().map(|(from, to)| (from, to - from));
        Ok(fresh.collect())
    }

    /// Unmapped parts of a range of whole granules.
    fn gaps(&self, base: u64, limit: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut at) = (Vec::new(), base);
        let below = self.extents.range(..base).next_back();
        if let Some((_, (mapping, _))) = below {
            at = at.max(mapping.base + mapping.size);
        }
        for (first, (mapping, _)) in self.extents.range(base..limit) {
            if *first > at {
                gaps.push((at, *first));
            }
            at = mapping.base + mapping.size;
        }
        if at < limit {
            gaps.push((at, limit));
        }
        gaps
    }

    fn touch(&mut self, base: u64, limit: u64, mut change: impl FnMut(&mut usize)) {
        for (mapping, users) in self
            .extents
            .range_mut(..limit)
            .rev()
            .map(|(_, extent)| extent)
        {
            if mapping.base + mapping.size <= base {
                break;
            }
            change(users);
        }
    }

    /// Frees the allocation that begins at an address. The caller has waited for its users.
    pub(crate) fn free(&mut self, address: u64) -> Result<(), Failure> {
        let Some(bytes) = self.allocations.remove(&address) else {
            return Err(bad(format!("no allocation begins at {address:#x}")));
        };
        let base = address - address % self.granularity;
        let limit = (address + bytes).next_multiple_of(self.granularity);
        self.touch(base, limit, |users| *users -= 1);
        self.extents.retain(|_, (_, users)| *users > 0);
        self.resident -= bytes;
        Ok(())
    }
}
