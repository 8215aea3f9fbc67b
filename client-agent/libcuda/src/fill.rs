//! Sets of memory: rows of equal elements.

#![expect(
    unsafe_code,
    reason = "pinned memory comes as an address of the program's"
)]

use crate::copy::device_of;
use crate::current_context::current_device;
use crate::device::Device;
use crate::host;
use crate::process::holder;
use crate::status::{Result, Status};
use crate::work;

/// A set of rows: `CUDA_MEMSET_NODE_PARAMS`, which is the begin of its later version.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fill {
    address: u64,
    /// Bytes from row to row.
    pitch: usize,
    value: u32,
    /// Bytes of an element.
    pub(crate) width: u32,
    /// Elements of a row.
    pub(crate) count: usize,
    pub(crate) rows: usize,
}

impl Fill {
    /// A set of one row of elements of `width` bytes.
    pub(crate) fn row(address: u64, value: u32, width: usize, count: usize) -> Self {
        let (pitch, width, rows) = (0, width as u32, 1);
        Self {
            address,
            pitch,
            value,
            width,
            count,
            rows,
        }
    }

    /// Repeats the row `rows` times, at distances of `pitch` bytes.
    pub(crate) fn repeated(self, pitch: usize, rows: usize) -> Self {
        Self {
            pitch,
            rows,
            ..self
        }
    }

    /// Does the set.
    pub(crate) fn run(&self) -> Result {
        if self.rows <= 1 {
            return self.set(self.address, self.count * self.rows);
        }
        let row = self.count.checked_mul(self.width as usize);
        let row = row.filter(|row| row.checked_mul(self.rows).is_some());
        let row = row.ok_or(Status::INVALID_VALUE)?;
        if row == 0 {
            return current_device().map(|_| ());
        }
        if self.pitch < row {
            return Err(Status::INVALID_VALUE);
        }
        if self.pitch == row {
            return self.set(self.address, self.count * self.rows);
        }
        let starts = (0..self.rows).map(|at| {
            let behind = at.checked_mul(self.pitch)?;
            self.address.checked_add(behind as u64)
        });
        // Refused before any write.
        for start in starts.clone() {
            refuse_short(start.ok_or(Status::INVALID_VALUE)?, row as u64)?;
        }
        starts
            .flatten()
            .try_for_each(|start| self.set(start, self.count))
    }

    /// Sets adjacent elements.
    fn set(&self, address: u64, count: usize) -> Result {
        let device = device_of(address)?;
        if count == 0 {
            return Ok(());
        }
        if holder(address)?.is_none() && self.set_host(device, address, count)? {
            return Ok(());
        }
        let width = self.width as u8;
        work::submit_at(device, address, |session| {
            session.set(address, count as u64, self.value, width)
        })
    }

    /// Sets pinned host memory, after the work so far; false if the address is not pinned.
    fn set_host(&self, device: &Device, address: u64, count: usize) -> Result<bool> {
        let width = self.width as usize;
        let Some(bytes) = count.checked_mul(width) else {
            return Ok(false);
        };
        let pinned = host::find(address as usize);
        if pinned.is_none_or(|pinned| bytes > pinned.base + pinned.bytes - address as usize) {
            return Ok(false);
        }
        work::sync(device)?;
        let pattern = self.value.to_le_bytes();
        // SAFETY: the program has this many bytes there, pinned by it, and no work is under way.
        let to = unsafe { std::slice::from_raw_parts_mut(address as *mut u8, bytes) };
        for (at, byte) in to.iter_mut().enumerate() {
            *byte = pattern[at % width];
        }
        Ok(true)
    }
}

/// Refuses a row that does not begin in a device allocation, pinned memory or variable, or that
/// ends behind that allocation.
fn refuse_short(address: u64, bytes: u64) -> Result {
    let device = device_of(address)?;
    match device.with(|session| session.channel().range(address)) {
        Some((base, size)) if bytes > size - (address - base) => Err(Status::INVALID_VALUE),
        Some(_) => Ok(()),
        None => {
            let pinned = host::find(address as usize).is_some();
            let known = pinned || device.managed.holds(address) || device.is_of_modules(address);
            known.then_some(()).ok_or(Status::INVALID_VALUE)
        }
    }
}
