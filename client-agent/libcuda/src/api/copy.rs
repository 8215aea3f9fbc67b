//! Copies and sets.

use std::ffi::c_void;

use crate::capture::or_capture;
use crate::copy::{any, set, set_rows, settle, to_device, to_host, within};
use crate::graph::{Fill, Work};
use crate::guard::api;
use crate::status::{Result, Status};
use crate::stream::number_of;
use crate::volume::{Copy2D, Copy3D};

/// Does an asynchronous copy or set, or records it where the stream is captured.
pub(super) fn on(
    stream: usize,
    work: impl FnOnce() -> Result<Work>,
    now: impl FnOnce() -> Result,
) -> Result {
    number_of(stream)?;
    or_capture(stream, work, now)
}

fn set_on(stream: usize, address: u64, value: u32, width: u8, count: usize) -> Result {
    let fill = Fill {
        address,
        pitch: 0,
        value,
        width: u32::from(width),
        count,
        rows: 1,
    };
    on(
        stream,
        || Ok(Work::Fill(fill)),
        || set(address, value, width, count),
    )
}

/// Sets rows, or records that where the stream is captured.
fn set_rows_on(stream: usize, fill: Fill) -> Result {
    let now = || {
        let width = fill.width as u8;
        set_rows(
            fill.address,
            fill.pitch,
            fill.value,
            width,
            fill.count,
            fill.rows,
        )
    };
    on(stream, || Ok(Work::Fill(fill)), now)
}

/// Copies one after the other, each from and to where its addresses say.
///
/// # Safety
/// There are so many of each, and host addresses are of so many bytes.
unsafe fn batch(
    to: *const u64,
    from: *const u64,
    sizes: *const usize,
    count: usize,
    stream: usize,
) -> Result {
    if count == 0 || to.is_null() || from.is_null() || sizes.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    (0..count).try_for_each(|at| {
        // SAFETY: the caller vouches for the lists.
        let (to, from, size) =
            unsafe { (to.add(at).read(), from.add(at).read(), sizes.add(at).read()) };
        // SAFETY: as above.
        on(
            stream,
            || Ok(Work::Copy(Copy3D::linear(to, from, size))),
            || unsafe { any(to, from, size) },
        )
    })
}

/// # Safety
/// The pointer is to a structure, or null.
unsafe fn flat(copy: *const Copy2D) -> Result<Copy3D> {
    if copy.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { copy.read() }.into())
}

/// # Safety
/// The pointer is to a structure, or null.
unsafe fn boxed(copy: *const Copy3D) -> Result<Copy3D> {
    if copy.is_null() {
        return Err(Status::INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { copy.read() })
}

api! {
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, count: usize) also cuMemcpyHtoD_v2_ptds {
        // SAFETY: the caller's pointer.
        unsafe { to_device(to, from, count)? };
        settle(to)
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, count: usize, stream: usize)
        also cuMemcpyHtoDAsync_v2_ptsz
    {
        let node = || Ok(Work::Copy(Copy3D::to_device(to, from, count)));
        // SAFETY: the caller's pointer. The bytes are taken at the call.
        on(stream, node, || unsafe { to_device(to, from, count) })
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, count: usize) also cuMemcpyDtoH_v2_ptds {
        // SAFETY: the caller's pointer.
        unsafe { to_host(to, from, count) }
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, count: usize, stream: usize)
        also cuMemcpyDtoHAsync_v2_ptsz
    {
        let node = || Ok(Work::Copy(Copy3D::to_host(to, from, count)));
        // SAFETY: the caller's pointer. The bytes are there at the return.
        on(stream, node, || unsafe { to_host(to, from, count) })
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, count: usize) also cuMemcpyDtoD_v2_ptds {
        within(to, from, count)?;
        settle(to)
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, count: usize, stream: usize)
        also cuMemcpyDtoDAsync_v2_ptsz
    {
        on(stream, || Ok(Work::Copy(Copy3D::linear(to, from, count))), || within(to, from, count))
    }

    fn cuMemcpy(to: u64, from: u64, count: usize) also cuMemcpy_ptds {
        // SAFETY: the caller's pointers.
        unsafe { any(to, from, count) }
    }

    fn cuMemcpyAsync(to: u64, from: u64, count: usize, stream: usize) also cuMemcpyAsync_ptsz {
        let node = || Ok(Work::Copy(Copy3D::linear(to, from, count)));
        // SAFETY: the caller's pointers.
        on(stream, node, || unsafe { any(to, from, count) })
    }

    fn cuMemcpyPeer(to: u64, to_context: usize, from: u64, from_context: usize, count: usize)
        also cuMemcpyPeer_ptds
    {
        let _ = (to_context, from_context);
        within(to, from, count)?;
        settle(to)
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
        on(stream, || Ok(Work::Copy(Copy3D::linear(to, from, count))), || within(to, from, count))
    }

    fn cuMemcpy2D_v2(copy: *const Copy2D)
        also cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds
    {
        // SAFETY: the caller's structure, and what it names.
        unsafe { flat(copy)?.run() }
    }

    fn cuMemcpy2DAsync_v2(copy: *const Copy2D, stream: usize) also cuMemcpy2DAsync_v2_ptsz {
        // SAFETY: the caller's structure, and what it names.
        let copy = unsafe { flat(copy)? };
        // SAFETY: as above.
        on(stream, || copy.node(), || unsafe { copy.run() })
    }

    fn cuMemcpy3D_v2(copy: *const Copy3D)
        also cuMemcpy3D_v2_ptds, cuMemcpy3DPeer, cuMemcpy3DPeer_ptds
    {
        // SAFETY: the caller's structure, and what it names.
        unsafe { boxed(copy)?.run() }
    }

    fn cuMemcpy3DAsync_v2(copy: *const Copy3D, stream: usize)
        also cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz
    {
        // SAFETY: the caller's structure, and what it names.
        let copy = unsafe { boxed(copy)? };
        // SAFETY: as above.
        on(stream, || copy.node(), || unsafe { copy.run() })
    }

    fn cuMemsetD8_v2(address: u64, value: u8, count: usize) also cuMemsetD8_v2_ptds {
        set(address, u32::from(value), 1, count)?;
        settle(address)
    }

    fn cuMemsetD16_v2(address: u64, value: u16, count: usize) also cuMemsetD16_v2_ptds {
        set(address, u32::from(value), 2, count)?;
        settle(address)
    }

    fn cuMemsetD32_v2(address: u64, value: u32, count: usize) also cuMemsetD32_v2_ptds {
        set(address, value, 4, count)?;
        settle(address)
    }

    fn cuMemsetD8Async(address: u64, value: u8, count: usize, stream: usize)
        also cuMemsetD8Async_ptsz
    {
        set_on(stream, address, u32::from(value), 1, count)
    }

    fn cuMemsetD16Async(address: u64, value: u16, count: usize, stream: usize)
        also cuMemsetD16Async_ptsz
    {
        set_on(stream, address, u32::from(value), 2, count)
    }

    fn cuMemsetD32Async(address: u64, value: u32, count: usize, stream: usize)
        also cuMemsetD32Async_ptsz
    {
        set_on(stream, address, value, 4, count)
    }

    fn cuMemsetD2D8_v2(address: u64, pitch: usize, value: u8, width: usize, height: usize)
        also cuMemsetD2D8_v2_ptds
    {
        set_rows(address, pitch, u32::from(value), 1, width, height)?;
        settle(address)
    }

    fn cuMemsetD2D16_v2(address: u64, pitch: usize, value: u16, width: usize, height: usize)
        also cuMemsetD2D16_v2_ptds
    {
        set_rows(address, pitch, u32::from(value), 2, width, height)?;
        settle(address)
    }

    fn cuMemsetD2D32_v2(address: u64, pitch: usize, value: u32, width: usize, height: usize)
        also cuMemsetD2D32_v2_ptds
    {
        set_rows(address, pitch, value, 4, width, height)?;
        settle(address)
    }

    fn cuMemsetD2D8Async(
        address: u64,
        pitch: usize,
        value: u8,
        count: usize,
        rows: usize,
        stream: usize,
    ) also cuMemsetD2D8Async_ptsz {
        let value = u32::from(value);
        set_rows_on(stream, Fill { address, pitch, value, width: 1, count, rows })
    }

    fn cuMemsetD2D16Async(
        address: u64,
        pitch: usize,
        value: u16,
        count: usize,
        rows: usize,
        stream: usize,
    ) also cuMemsetD2D16Async_ptsz {
        let value = u32::from(value);
        set_rows_on(stream, Fill { address, pitch, value, width: 2, count, rows })
    }

    fn cuMemsetD2D32Async(
        address: u64,
        pitch: usize,
        value: u32,
        count: usize,
        rows: usize,
        stream: usize,
    ) also cuMemsetD2D32Async_ptsz {
        set_rows_on(stream, Fill { address, pitch, value, width: 4, count, rows })
    }

    fn cuMemcpyBatchAsync(
        to: *const u64,
        from: *const u64,
        sizes: *const usize,
        count: usize,
        attributes: *const c_void,
        indices: *const usize,
        attribute_count: usize,
        failed: *mut usize,
        stream: usize,
    ) also cuMemcpyBatchAsync_ptsz {
        let _ = (attributes, indices, attribute_count);
        // SAFETY: the caller's pointers. Which of them fails is not told apart.
        unsafe {
            super::put_if(failed, usize::MAX);
            batch(to, from, sizes, count, stream)
        }
    }

    fn cuMemcpyBatchAsync_v2(
        to: *const u64,
        from: *const u64,
        sizes: *const usize,
        count: usize,
        attributes: *const c_void,
        indices: *const usize,
        attribute_count: usize,
        stream: usize,
    ) also cuMemcpyBatchAsync_v2_ptsz {
        let _ = (attributes, indices, attribute_count);
        // SAFETY: the caller's pointers.
        unsafe { batch(to, from, sizes, count, stream) }
    }
}
