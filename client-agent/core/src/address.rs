//! Device addresses, picked by the client.

use std::collections::{BTreeMap, BTreeSet};

use bus_schemas::{Code, Failure, Window};

/// Alignment of every allocation.
const GRAIN: u64 = 256;
/// Maximum number of remembered variables of unloaded modules.
const GONE: usize = 4_096;
/// An allocation of at least this many bytes begins at a multiple of it.
const LARGE: u64 = 2 << 20;

/// Bytes that an allocation of `bytes` bytes counts as.
pub(crate) fn charged(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(GRAIN).unwrap_or(u64::MAX)
}

/// Picks the addresses of one session's allocations: best fit in the lower 15/16 of its window (the
/// rest is the worker's). An address may be reused as soon as it is freed, although earlier ops
/// still use it: the session's ops run in order.
#[derive(Debug, Clone)]
pub struct Addresses {
    // The same free ranges twice: by address to join neighbours, by size to find the best fit.
    free: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
    // Address -> (bytes taken, bytes asked for).
    live: BTreeMap<u64, (u64, u64)>,
    // Address -> bytes that are kept free of allocations, except those mapped there.
    reserved: BTreeMap<u64, u64>,
    /// Mapped allocations that belong to another session, or that are held at other addresses.
    imported: BTreeSet<u64>,
    /// The range in which the worker puts module variables.
    worker: (u64, u64),
    /// Variables that the program knows: address -> (bytes, slot of the module). A GPU's driver
    /// puts them elsewhere.
    variables: BTreeMap<u64, (u64, u32)>,
    /// Variables of unloaded modules in the worker's part: address -> bytes.
    gone: BTreeMap<u64, u64>,
    quota: u64,
    held: u64,
}

impl Addresses {
    /// Makes the addresses of a window. `quota` bounds the bytes held. The worker has the last word
    /// on it, because the tenant may have other sessions there.
    #[must_use]
    pub fn new(window: Window, quota: u64) -> Self {
        let mut addresses = Self {
            free: BTreeMap::new(),
            by_size: BTreeSet::new(),
            live: BTreeMap::new(),
            reserved: BTreeMap::new(),
            imported: BTreeSet::new(),
            worker: (window.worker_part(), window.end()),
            variables: BTreeMap::new(),
            gone: BTreeMap::new(),
            quota,
            held: 0,
        };
        let first = window.base.next_multiple_of(GRAIN);
        let end = addresses.worker.0 / GRAIN * GRAIN;
        if first < end {
            addresses.put(first, end - first);
        }
        addresses
    }

    /// Bytes held now: each allocation counts as a multiple of 256, as at the worker.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Finds room for `bytes` bytes and returns its first address: a multiple of 256, or of 2 MiB
    /// if `bytes` is at least that.
    ///
    /// # Errors
    /// [`Code::BadAddress`] for zero bytes, [`Code::Quota`] above the quota, [`Code::OutOfMemory`]
    /// if the window has no such range.
    pub fn alloc(&mut self, bytes: u64) -> Result<u64, Failure> {
        if bytes == 0 {
            return Err(Failure::new(Code::BadAddress, "an allocation of 0 bytes"));
        }
        self.afford(charged(bytes))?;
        let align = if bytes >= LARGE { LARGE } else { GRAIN };
        let (address, need) = self.cut(bytes, align)?;
        self.live.insert(address, (need, bytes));
        self.held += need;
        Ok(address)
    }

    /// Reserves `bytes` bytes of addresses for [`Addresses::map`] and returns the first one: a
    /// multiple of `align`, which is a power of two. A reserved range holds no memory.
    ///
    /// # Errors
    /// [`Code::BadAddress`] for zero bytes, [`Code::OutOfMemory`] if the window has no such range.
    pub fn reserve(&mut self, bytes: u64, align: u64) -> Result<u64, Failure> {
        if bytes == 0 {
            return Err(Failure::new(Code::BadAddress, "a range of 0 bytes"));
        }
        let (address, need) = self.cut(bytes, align.max(GRAIN))?;
        self.reserved.insert(address, need);
        Ok(address)
    }

    /// Releases a range that [`Addresses::reserve`] made.
    ///
    /// # Errors
    /// [`Code::BadAddress`] if none begins there or something is mapped in it.
    pub fn unreserve(&mut self, address: u64) -> Result<(), Failure> {
        let Some(&bytes) = self.reserved.get(&address) else {
            let detail = format!("no reserved range begins at {address:#x}");
            return Err(Failure::new(Code::BadAddress, detail));
        };
        if self.live.range(address..address + bytes).next().is_some() {
            let detail = format!("memory is mapped in the range at {address:#x}");
            return Err(Failure::new(Code::BadAddress, detail));
        }
        self.reserved.remove(&address);
        self.give(address, bytes);
        Ok(())
    }

    /// Maps an allocation at an address of a reserved range.
    ///
    /// # Errors
    /// [`Code::BadAddress`] if the bytes are not within one reserved range or not free there,
    /// [`Code::Quota`] above the quota.
    pub fn map(&mut self, address: u64, bytes: u64) -> Result<(), Failure> {
        self.is_vacant(address, bytes)?;
        self.afford(bytes)?;
        self.live.insert(address, (bytes, bytes));
        self.held += bytes;
        Ok(())
    }

    /// Fails unless `bytes` bytes, a multiple of 256, are free within one reserved range.
    fn is_vacant(&self, address: u64, bytes: u64) -> Result<(), Failure> {
        let end = address.checked_add(bytes).filter(|_| bytes > 0);
        let within = end.is_some_and(|end| {
            self.reservation(address)
                .is_some_and(|(start, size)| end <= start + size)
        });
        let before = self.live.range(..end.unwrap_or(0)).next_back();
        let free = before.is_none_or(|(start, (taken, _))| start + taken <= address);
        if !within || !free || !address.is_multiple_of(GRAIN) || !bytes.is_multiple_of(GRAIN) {
            let detail = format!("{bytes} bytes at {address:#x} are not reserved and free");
            return Err(Failure::new(Code::BadAddress, detail));
        }
        Ok(())
    }

    /// Maps `bytes` bytes of another session at `address`, in a range that [`Addresses::reserve`]
    /// made. They do not count as held. [`Addresses::unmap`] ends the mapping.
    ///
    /// # Errors
    /// [`Code::BadAddress`] if that range is not reserved and free.
    pub fn import(&mut self, address: u64, bytes: u64) -> Result<(), Failure> {
        let taken = charged(bytes);
        self.is_vacant(address, taken)?;
        self.live.insert(address, (taken, bytes));
        self.imported.insert(address);
        Ok(())
    }

    /// Moves an allocation that [`Addresses::map`] made at `from` to `to`, in a reserved range.
    /// With `keep`, it stays mapped at `from` too. Returns its bytes.
    ///
    /// # Errors
    /// [`Code::BadAddress`] if no held allocation begins at `from`, or `to` is not reserved and
    /// free.
    pub fn relocate(&mut self, to: u64, from: u64, keep: bool) -> Result<u64, Failure> {
        let bytes = self.mapped(from)?;
        self.is_vacant(to, bytes)?;
        self.live.insert(to, (bytes, bytes));
        if keep {
            self.imported.insert(from);
        } else {
            self.live.remove(&from);
        }
        Ok(bytes)
    }

    /// Maps an allocation that [`Addresses::map`] made at `from` at `to` as well, in a reserved
    /// range. [`Addresses::unmap`] of `to` ends that. Returns its bytes.
    ///
    /// # Errors
    /// Same as [`Addresses::relocate`].
    pub fn map_again(&mut self, to: u64, from: u64) -> Result<u64, Failure> {
        let bytes = self.mapped(from)?;
        self.import(to, bytes)?;
        Ok(bytes)
    }

    /// Bytes of the allocation that [`Addresses::map`] made at an address.
    fn mapped(&self, address: u64) -> Result<u64, Failure> {
        let own = self.is_mapped(address) && !self.imported.contains(&address);
        let found = self.live.get(&address).filter(|_| own);
        found.map(|(taken, _)| *taken).ok_or_else(|| {
            let detail = format!("nothing is held at {address:#x}");
            Failure::new(Code::BadAddress, detail)
        })
    }

    /// True if an allocation that [`Addresses::map`] made begins there.
    #[must_use]
    pub fn is_mapped(&self, address: u64) -> bool {
        self.live.contains_key(&address) && self.reservation(address).is_some()
    }

    /// True if mapped pieces at reserved addresses cover a range without a gap: to a program they
    /// are one.
    fn is_mapped_through(&self, address: u64, end: u64) -> bool {
        let first = self.live.range(..=address).next_back();
        let mut pieces = first
            .into_iter()
            .chain(self.live.range(address.saturating_add(1)..end));
        let mut covered = address;
        while covered < end {
            let next = pieces.next().filter(|(start, (_, asked))| {
                **start <= covered && covered - **start < *asked && self.is_mapped(**start)
            });
            let Some((start, (_, asked))) = next else {
                return false;
            };
            covered = start + asked;
        }
        true
    }

    /// Ends an allocation that [`Addresses::map`] made; its range stays reserved.
    ///
    /// # Errors
    /// [`Code::BadAddress`] if none begins there.
    pub fn unmap(&mut self, address: u64) -> Result<u64, Failure> {
        if self.is_mapped(address)
            && let Some((taken, asked)) = self.live.remove(&address)
        {
            let is_own = !self.imported.remove(&address);
            self.held -= if is_own { taken } else { 0 };
            return Ok(asked);
        }
        let detail = format!("nothing is mapped at {address:#x}");
        Err(Failure::new(Code::BadAddress, detail))
    }

    /// The reserved range that contains an address: its begin and its bytes.
    fn reservation(&self, address: u64) -> Option<(u64, u64)> {
        let (start, size) = self.reserved.range(..=address).next_back()?;
        (address - start < *size).then_some((*start, *size))
    }

    /// Fails unless the quota has room for `bytes` more bytes.
    fn afford(&self, bytes: u64) -> Result<(), Failure> {
        if bytes <= self.quota.saturating_sub(self.held) {
            return Ok(());
        }
        let detail = format!(
            "{bytes} bytes asked for, {} of the quota of {} bytes are held",
            self.held, self.quota
        );
        Err(Failure::new(Code::Quota, detail))
    }

    /// Takes a range from the free ones; returns its first address and its bytes.
    fn cut(&mut self, bytes: u64, align: u64) -> Result<(u64, u64), Failure> {
        let Some((start, size, address, need)) = self.fit(bytes, align) else {
            let detail = format!("no {bytes} bytes in a row are free in the session's window");
            return Err(Failure::new(Code::OutOfMemory, detail));
        };
        self.take(start, size);
        if start < address {
            self.put(start, address - start);
        }
        if address + need < start + size {
            self.put(address + need, start + size - (address + need));
        }
        Ok((address, need))
    }

    /// Frees the allocation that begins at `address` and returns its bytes.
    ///
    /// # Errors
    /// [`Code::BadAddress`] if none begins there.
    pub fn free(&mut self, address: u64) -> Result<u64, Failure> {
        let (taken, asked) = self.allocation(address)?;
        self.live.remove(&address);
        self.held -= taken;
        self.give(address, taken);
        Ok(asked)
    }

    /// The allocation that begins at `address` and may be freed: the bytes that it takes, and the
    /// bytes asked for.
    ///
    /// # Errors
    /// [`Code::BadAddress`] if none begins there.
    pub fn allocation(&self, address: u64) -> Result<(u64, u64), Failure> {
        let found = self.live.get(&address).copied();
        found.filter(|_| !self.is_mapped(address)).ok_or_else(|| {
            let detail = format!("no allocation begins at {address:#x}");
            Failure::new(Code::BadAddress, detail)
        })
    }

    /// Returns a range to the free ones, and joins it with free neighbours.
    fn give(&mut self, address: u64, taken: u64) {
        let (mut start, mut size) = (address, taken);
        if let Some((&before, &length)) = self.free.range(..address).next_back()
            && before + length == start
        {
            self.take(before, length);
            (start, size) = (before, size + length);
        }
        if let Some(&length) = self.free.get(&(address + taken)) {
            self.take(address + taken, length);
            size += length;
        }
        self.put(start, size);
    }

    /// The allocation that contains `address`: its begin and the bytes asked for.
    #[must_use]
    pub fn range(&self, address: u64) -> Option<(u64, u64)> {
        let (start, (_, asked)) = self.live.range(..=address).next_back()?;
        (address - start < *asked).then_some((*start, *asked))
    }

    /// Notes the address of a variable of the module in this slot. Returns true if it is outside
    /// the worker's part of the window.
    pub fn add_variable(&mut self, slot: u32, address: u64, bytes: u64) -> bool {
        if bytes == 0 {
            return false;
        }
        self.variables.insert(address, (bytes, slot));
        let end = address.saturating_add(bytes);
        self.gone
            .retain(|start, size| *start >= end || start.saturating_add(*size) <= address);
        !self.is_workers(address)
    }

    /// Forgets the variables of the unloaded module in this slot.
    pub fn forget_variables(&mut self, slot: u32) {
        let of_slot = |_: &u64, (_, of): &mut (u64, u32)| *of == slot;
        let forgotten: Vec<(u64, (u64, u32))> = self.variables.extract_if(.., of_slot).collect();
        for (address, (bytes, _)) in forgotten {
            if self.is_workers(address) && self.gone.len() < GONE {
                self.gone.insert(address, bytes);
            }
        }
    }

    /// The known variable that contains `address`: its begin and its bytes.
    #[must_use]
    pub fn variable(&self, address: u64) -> Option<(u64, u64)> {
        let (start, (bytes, _)) = self.variables.range(..=address).next_back()?;
        (address - start < *bytes).then_some((*start, *bytes))
    }

    /// Says whether a variable may be at `address`: one that the program knows, or one in the
    /// worker's part of the window, unless its module is unloaded.
    #[must_use]
    pub fn may_be_variable(&self, address: u64) -> bool {
        let gone = self.gone.range(..=address).next_back();
        let is_gone = gone.is_some_and(|(start, bytes)| address - start < *bytes);
        (self.is_workers(address) && !is_gone) || self.variable(address).is_some()
    }

    fn is_workers(&self, address: u64) -> bool {
        (self.worker.0..self.worker.1).contains(&address)
    }

    /// Checks that `bytes` bytes at `address` lie within one allocation or variable, or where the
    /// worker puts module variables, which only it knows.
    ///
    /// # Errors
    /// [`Code::BadAddress`] if they do not.
    pub fn check(&self, address: u64, bytes: u64) -> Result<(), Failure> {
        let end = address.checked_add(bytes);
        let of_worker = self.is_workers(address)
            && self.may_be_variable(address)
            && end.is_some_and(|end| end <= self.worker.1);
        let allocation = self.live.range(..=address).next_back();
        let within = allocation
            .is_some_and(|(start, (_, asked))| end.is_some_and(|end| end <= start + asked))
            || end.is_some_and(|end| self.is_mapped_through(address, end));
        let variable = || {
            let found = self.variable(address);
            found.is_some_and(|(start, size)| end.is_some_and(|end| end <= start + size))
        };
        if of_worker || within || variable() {
            return Ok(());
        }
        let detail = format!("{bytes} bytes at {address:#x} do not lie in one allocation");
        Err(Failure::new(Code::BadAddress, detail))
    }

    /// The smallest free range with room for `bytes` at `align`: (its start, its size, the address
    /// in it, the bytes to take).
    fn fit(&self, bytes: u64, align: u64) -> Option<(u64, u64, u64, u64)> {
        let need = bytes.checked_next_multiple_of(GRAIN)?;
        self.by_size.range((need, 0)..).find_map(|&(size, start)| {
            let address = start.checked_next_multiple_of(align)?;
            let fits = (address - start).checked_add(need)? <= size;
            fits.then_some((start, size, address, need))
        })
    }

    fn put(&mut self, start: u64, size: u64) {
        self.free.insert(start, size);
        self.by_size.insert((size, start));
    }

    fn take(&mut self, start: u64, size: u64) {
        self.free.remove(&start);
        self.by_size.remove(&(size, start));
    }
}

#[cfg(test)]
mod tests;
