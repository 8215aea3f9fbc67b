//! Reads and writes of device memory and of pinned memory, as the device does them.

use super::{Memory, inside};
use crate::codes::ILLEGAL_ADDRESS;

/// Reads memory of this process.
fn load(address: u64, bytes: usize) -> Vec<u8> {
    let mut read = vec![0; bytes];
    let from = std::ptr::with_exposed_provenance::<u8>(address as usize);
    // SAFETY: the callers have checked that the range is mapped and readable; the vector has as many bytes.
    unsafe { std::ptr::copy_nonoverlapping(from, read.as_mut_ptr(), bytes) };
    read
}

/// Writes memory of this process.
fn store(address: u64, bytes: &[u8]) {
    let to = std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
    // SAFETY: the callers have checked that the range is mapped and writable.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
}

impl Memory {
    /// Checks that the device reaches a range.
    pub(crate) fn check(&self, address: u64, bytes: u64) -> Result<(), u32> {
        let end = address.checked_add(bytes).ok_or(ILLEGAL_ADDRESS)?;
        if inside(&self.own, address, bytes) {
            return Ok(());
        }
        let mut at = address;
        while at < end {
            let before = self.mapped.range(..=at).next_back();
            let here = before.filter(|(first, it)| it.open && at - **first < it.bytes);
            at = here
                .map(|(first, it)| first + it.bytes)
                .ok_or(ILLEGAL_ADDRESS)?;
        }
        Ok(())
    }

    /// Reads device memory.
    pub(crate) fn read(&self, address: u64, bytes: u64) -> Result<Vec<u8>, u32> {
        self.check(address, bytes)?;
        Ok(load(address, bytes as usize))
    }

    /// Writes device memory.
    pub(crate) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), u32> {
        self.check(address, bytes.len() as u64)?;
        store(address, bytes);
        Ok(())
    }

    /// Reads pinned memory, which must still be there.
    pub(crate) fn read_pinned(&self, address: u64, bytes: u64) -> Result<Vec<u8>, u32> {
        match self.is_pinned(address, bytes) {
            true => Ok(load(address, bytes as usize)),
            false => Err(ILLEGAL_ADDRESS),
        }
    }

    /// Writes pinned memory, which must still be there.
    pub(crate) fn write_pinned(&self, address: u64, bytes: &[u8]) -> Result<(), u32> {
        match self.is_pinned(address, bytes.len() as u64) {
            true => {
                store(address, bytes);
                Ok(())
            }
            false => Err(ILLEGAL_ADDRESS),
        }
    }
}
