//! Copies and sets.

use std::ffi::{c_uint, c_void};

use super::memory::holder;
use super::stream::device as of_stream;
use crate::context::current_device;
use crate::device::Device;
use crate::guard::api;
use crate::host;
use crate::status::{Result, Status};
use crate::work;

/// Bytes of the host.
///
/// # Safety
/// The pointer is to so many bytes.
unsafe fn bytes<'a>(from: *const c_void, count: usize) -> Result<&'a [u8]> {
    if from.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { std::slice::from_raw_parts(from.cast(), count) })
}

/// Bytes of the host to be written.
///
/// # Safety
/// As [`bytes`], and nobody else uses them.
unsafe fn room<'a>(to: *mut c_void, count: usize) -> Result<&'a mut [u8]> {
    if to.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { std::slice::from_raw_parts_mut(to.cast(), count) })
}

/// The device that holds an address, else the current one, which will say that it does not.
fn device_of(address: u64) -> Result<&'static Device> {
    let current = current_device()?;
    Ok(holder(address)?.unwrap_or(current))
}

/// # Safety
/// As [`bytes`].
unsafe fn to_device(to: u64, from: *const c_void, count: usize) -> Result {
    let device = device_of(to)?;
    if count == 0 {
        return Ok(());
    }
    // SAFETY: the caller vouches for it.
    let from = unsafe { bytes(from, count)? };
    work::submit(device, |session| session.copy_in(to, from))
}

/// # Safety
/// As [`room`].
unsafe fn to_host(to: *mut c_void, from: u64, count: usize) -> Result {
    let device = device_of(from)?;
    if count == 0 {
        return Ok(());
    }
    // SAFETY: the caller vouches for it.
    work::read(device, from, unsafe { room(to, count)? })
}

fn within(to: u64, from: u64, count: usize) -> Result {
    let (target, source) = (device_of(to)?, device_of(from)?);
    if count == 0 {
        return Ok(());
    }
    if target.ordinal == source.ordinal {
        return work::submit(target, |session| session.copy(to, from, count as u64));
    }
    let mut through = vec![0; count];
    work::read(source, from, &mut through)?;
    work::submit(target, |session| session.copy_in(to, &through))
}

/// Whether an address is a device's, as far as copies that do not say are concerned.
fn is_device(address: u64) -> Result<bool> {
    Ok(host::find(address as usize).is_none() && holder(address)?.is_some())
}

/// A copy whose sides are told from their addresses.
///
/// # Safety
/// Host addresses are of so many bytes.
unsafe fn any(to: u64, from: u64, count: usize) -> Result {
    // SAFETY: the caller vouches for them.
    unsafe {
        match (is_device(to)?, is_device(from)?) {
            (true, true) => within(to, from, count),
            (true, false) => to_device(to, from as *const c_void, count),
            (false, true) => to_host(to as *mut c_void, from, count),
            (false, false) => {
                work::sync(current_device()?)?;
                let from = bytes(from as *const c_void, count)?;
                std::ptr::copy(from.as_ptr(), to as *mut u8, count);
                Ok(())
            }
        }
    }
}

fn set(address: u64, value: u32, width: u8, count: usize) -> Result {
    let device = device_of(address)?;
    if count == 0 {
        return Ok(());
    }
    work::submit(device, |session| {
        session.set(address, count as u64, value, width)
    })
}

/// Sets rows of `count` elements, `pitch` bytes apart.
fn set_rows(
    address: u64,
    pitch: usize,
    value: u32,
    width: u8,
    count: usize,
    rows: usize,
) -> Result {
    let row = count
        .checked_mul(usize::from(width))
        .ok_or(Status::INVALID_VALUE)?;
    if rows > 1 && pitch < row {
        return Err(Status::INVALID_VALUE);
    }
    if pitch == row {
        return set(address, value, width, count * rows);
    }
    (0..rows).try_for_each(|at| set(address + (at * pitch) as u64, value, width, count))
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2D {
    from: Side,
    to: Side,
    width: usize,
    height: usize,
}

/// One side of such a copy.
#[repr(C)]
#[derive(Clone, Copy)]
struct Side {
    x: usize,
    y: usize,
    kind: c_uint,
    host: *mut c_void,
    device: u64,
    array: usize,
    pitch: usize,
}

impl Side {
    /// Address of a row, and whether it is a device's.
    fn row(&self, row: usize) -> Result<(u64, bool)> {
        let base = match self.kind {
            1 => self.host as u64,
            2 | 4 => self.device,
            _ => return Err(Status::NOT_SUPPORTED),
        };
        let device = match self.kind {
            1 => false,
            2 => true,
            _ => is_device(base)?,
        };
        Ok((base + ((self.y + row) * self.pitch + self.x) as u64, device))
    }
}

/// # Safety
/// The structure is the caller's, and what it names.
unsafe fn rows(copy: *const Copy2D) -> Result {
    if copy.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    let copy = unsafe { copy.read() };
    for row in 0..copy.height {
        let ((to, to_dev), (from, from_dev)) = (copy.to.row(row)?, copy.from.row(row)?);
        // SAFETY: as above.
        unsafe {
            match (to_dev, from_dev) {
                (true, true) => within(to, from, copy.width)?,
                (true, false) => to_device(to, from as *const c_void, copy.width)?,
                (false, true) => to_host(to as *mut c_void, from, copy.width)?,
                (false, false) => any(to, from, copy.width)?,
            }
        }
    }
    Ok(())
}

api! {
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, count: usize) also cuMemcpyHtoD_v2_ptds {
        // SAFETY: the caller's pointer.
        unsafe { to_device(to, from, count) }
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, count: usize, stream: usize)
        also cuMemcpyHtoDAsync_v2_ptsz
    {
        of_stream(stream)?;
        // SAFETY: the caller's pointer. The bytes are taken at the call.
        unsafe { to_device(to, from, count) }
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, count: usize) also cuMemcpyDtoH_v2_ptds {
        // SAFETY: the caller's pointer.
        unsafe { to_host(to, from, count) }
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, count: usize, stream: usize)
        also cuMemcpyDtoHAsync_v2_ptsz
    {
        of_stream(stream)?;
        // SAFETY: the caller's pointer. The bytes are there at the return.
        unsafe { to_host(to, from, count) }
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, count: usize) also cuMemcpyDtoD_v2_ptds {
        within(to, from, count)
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, count: usize, stream: usize)
        also cuMemcpyDtoDAsync_v2_ptsz
    {
        of_stream(stream)?;
        within(to, from, count)
    }

    fn cuMemcpy(to: u64, from: u64, count: usize) also cuMemcpy_ptds {
        // SAFETY: the caller's pointers.
        unsafe { any(to, from, count) }
    }

    fn cuMemcpyAsync(to: u64, from: u64, count: usize, stream: usize) also cuMemcpyAsync_ptsz {
        of_stream(stream)?;
        // SAFETY: the caller's pointers.
        unsafe { any(to, from, count) }
    }

    fn cuMemcpyPeer(to: u64, to_context: usize, from: u64, from_context: usize, count: usize)
        also cuMemcpyPeer_ptds
    {
        let _ = (to_context, from_context);
        within(to, from, count)
    }

    fn cuMemcpyPeerAsync(
        to: u64,
        to_context: usize,
        from: u64,
        from_context: usize,
        count: usize,
        stream: usize,
    ) also cuMemcpyPeerAsync_ptsz {
        let _ = (to_context, from_context);
        of_stream(stream)?;
        within(to, from, count)
    }

    fn cuMemcpy2D_v2(copy: *const Copy2D)
        also cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds
    {
        // SAFETY: the caller's structure.
        unsafe { rows(copy) }
    }

    fn cuMemcpy2DAsync_v2(copy: *const Copy2D, stream: usize) also cuMemcpy2DAsync_v2_ptsz {
        of_stream(stream)?;
        // SAFETY: the caller's structure.
        unsafe { rows(copy) }
    }

    fn cuMemsetD8_v2(address: u64, value: u8, count: usize) also cuMemsetD8_v2_ptds {
        set(address, u32::from(value), 1, count)
    }

    fn cuMemsetD16_v2(address: u64, value: u16, count: usize) also cuMemsetD16_v2_ptds {
        set(address, u32::from(value), 2, count)
    }

    fn cuMemsetD32_v2(address: u64, value: u32, count: usize) also cuMemsetD32_v2_ptds {
        set(address, value, 4, count)
    }

    fn cuMemsetD8Async(address: u64, value: u8, count: usize, stream: usize)
        also cuMemsetD8Async_ptsz
    {
        of_stream(stream)?;
        set(address, u32::from(value), 1, count)
    }

    fn cuMemsetD16Async(address: u64, value: u16, count: usize, stream: usize)
        also cuMemsetD16Async_ptsz
    {
        of_stream(stream)?;
        set(address, u32::from(value), 2, count)
    }

    fn cuMemsetD32Async(address: u64, value: u32, count: usize, stream: usize)
        also cuMemsetD32Async_ptsz
    {
        of_stream(stream)?;
        set(address, value, 4, count)
    }

    fn cuMemsetD2D8_v2(address: u64, pitch: usize, value: u8, width: usize, height: usize)
        also cuMemsetD2D8_v2_ptds
    {
        set_rows(address, pitch, u32::from(value), 1, width, height)
    }

    fn cuMemsetD2D16_v2(address: u64, pitch: usize, value: u16, width: usize, height: usize)
        also cuMemsetD2D16_v2_ptds
    {
        set_rows(address, pitch, u32::from(value), 2, width, height)
    }

    fn cuMemsetD2D32_v2(address: u64, pitch: usize, value: u32, width: usize, height: usize)
        also cuMemsetD2D32_v2_ptds
    {
        set_rows(address, pitch, value, 4, width, height)
    }
}
