//! The table of a session's maps.

use std::collections::BTreeMap;

/// Maps of a session's allocations.
#[derive(Debug, Default)]
pub(super) struct Maps {
    /// By the first address: its end, and the start of the allocation. Pages stay here without an
    /// allocation if the host refused to unmap them.
    pub(super) places: BTreeMap<u64, (u64, Option<u64>)>,
    /// By the start of each mapped allocation: its end, and its number of maps.
    pub(super) homes: BTreeMap<u64, (u64, usize)>,
}

impl Maps {
    /// True if a map is on a page of a range.
    pub(super) fn overlap(&self, addr: u64, end: u64) -> bool {
        let before = self.places.range(..end).next_back();
        before.is_some_and(|(_, (until, _))| *until > addr)
    }

    /// True if an allocation in a range is mapped elsewhere.
    pub(super) fn is_mapped(&self, addr: u64, end: u64) -> bool {
        let before = self.homes.range(..end).next_back();
        before.is_some_and(|(_, (until, _))| *until > addr)
    }

    /// Adds a map at `to` of the allocation of `bytes` bytes at `from`.
    pub(super) fn add(&mut self, (to, from): (u64, u64), bytes: u64) {
        self.places.insert(to, (to + bytes, Some(from)));
        self.homes.entry(from).or_insert((from + bytes, 0)).1 += 1;
    }

    /// Removes the map at `to`; if the host `keeps` its pages, their addresses stay taken.
    pub(super) fn remove(&mut self, to: u64, keeps: bool) {
        let Some((_, from)) = self.places.get_mut(&to) else {
            return;
        };
        let home = from.take();
        if !keeps {
            self.places.remove(&to);
        }
        if let Some(home) = home
            && let Some((_, times)) = self.homes.get_mut(&home)
        {
            *times -= 1;
            if *times == 0 {
                self.homes.remove(&home);
            }
        }
    }
}
