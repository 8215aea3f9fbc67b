//! Copies and sets.

use std::ffi::c_void;

use crate::abi::{Address, Bytes, Count, In, List, Out, Room};
use crate::capture::or_capture;
use crate::copy::{any, set, set_rows, settle, to_device, to_host, within};
use crate::copy3d::{Copy2D, Copy3D};
use crate::graph::{Fill, Work};
use crate::guard::api;
use crate::status::{Result, Status};
use crate::stream::number_of;

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

/// Copies from the program to a device.
fn upload(to: Address<'_>, from: Bytes<'_>, count: Count<'_>) -> Result {
    // SAFETY: the count that stands beside a copy's source says how many bytes are there.
    unsafe { to_device(to.number(), from.address(), count.number()) }
}

/// Copies from a device to the program.
fn download(to: Room<'_>, from: Address<'_>, count: Count<'_>) -> Result {
    // SAFETY: the count that stands beside a copy's target says how many bytes have room, and during
    // the call they are the copy's.
    unsafe { to_host(to.address(), from.number(), count.number()) }
}

/// Copies between addresses of devices.
fn across(to: Address<'_>, from: Address<'_>, count: Count<'_>) -> Result {
    // SAFETY: a program that names pinned memory of its own for a device's has the count's bytes there.
    unsafe { within(to.number(), from.number(), count.number()) }
}

/// Copies from and to where the addresses say.
fn either(to: Address<'_>, from: Address<'_>, count: Count<'_>) -> Result {
    // SAFETY: an address that is no device's is of memory of the program's, of the count's bytes.
    unsafe { any(to.number(), from.number(), count.number()) }
}

/// Copies one after the other, each from and to where its addresses say.
fn batch<'a>(
    to: List<'a, Address<'a>>,
    from: List<'a, Address<'a>>,
    sizes: List<'a, Count<'a>>,
    count: Count<'a>,
    stream: usize,
) -> Result {
    if count.number() == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let places = to.items(count)?.zip(from.items(count)?);
    let mut copies = places.zip(sizes.items(count)?);
    copies.try_for_each(|((to, from), size)| {
        let node = || Ok(Work::Copy(Copy3D::linear(to, from, size)));
        on(stream, node, || either(to, from, size))
    })
}

api! {
    fn cuMemcpyHtoD_v2(to: Address<'_>, from: Bytes<'_>, count: Count<'_>) also cuMemcpyHtoD_v2_ptds {
        upload(to, from, count)?;
        settle(to.number())
    }

    fn cuMemcpyHtoDAsync_v2(to: Address<'_>, from: Bytes<'_>, count: Count<'_>, stream: usize)
        also cuMemcpyHtoDAsync_v2_ptsz
    {
        let node = || Ok(Work::Copy(Copy3D::to_device(to, from, count)));
        // The bytes are taken at the call.
        on(stream, node, || upload(to, from, count))
    }

    fn cuMemcpyDtoH_v2(to: Room<'_>, from: Address<'_>, count: Count<'_>) also cuMemcpyDtoH_v2_ptds {
        download(to, from, count)
    }

    fn cuMemcpyDtoHAsync_v2(to: Room<'_>, from: Address<'_>, count: Count<'_>, stream: usize)
        also cuMemcpyDtoHAsync_v2_ptsz
    {
        let node = || Ok(Work::Copy(Copy3D::to_host(to, from, count)));
        // The bytes are there at the return.
        on(stream, node, || download(to, from, count))
    }

    fn cuMemcpyDtoD_v2(to: Address<'_>, from: Address<'_>, count: Count<'_>) also cuMemcpyDtoD_v2_ptds {
        across(to, from, count)?;
        settle(to.number())
    }

    fn cuMemcpyDtoDAsync_v2(to: Address<'_>, from: Address<'_>, count: Count<'_>, stream: usize)
        also cuMemcpyDtoDAsync_v2_ptsz
    {
        on(stream, || Ok(Work::Copy(Copy3D::linear(to, from, count))), || across(to, from, count))
    }

    fn cuMemcpy(to: Address<'_>, from: Address<'_>, count: Count<'_>) also cuMemcpy_ptds {
        either(to, from, count)
    }

    fn cuMemcpyAsync(to: Address<'_>, from: Address<'_>, count: Count<'_>, stream: usize) also cuMemcpyAsync_ptsz {
        let node = || Ok(Work::Copy(Copy3D::linear(to, from, count)));
        on(stream, node, || either(to, from, count))
    }

    fn cuMemcpyPeer(to: Address<'_>, to_context: usize, from: Address<'_>, from_context: usize, count: Count<'_>)
        also cuMemcpyPeer_ptds
    {
        let _ = (to_context, from_context);
        across(to, from, count)?;
        settle(to.number())
    }

    fn cuMemcpyPeerAsync(
        to: Address<'_>,
        to_context: usize,
        from: Address<'_>,
        from_context: usize,
        count: Count<'_>,
        stream: usize,
    ) also cuMemcpyPeerAsync_ptsz {
        let _ = (to_context, from_context);
        on(stream, || Ok(Work::Copy(Copy3D::linear(to, from, count))), || across(to, from, count))
    }

    fn cuMemcpy2D_v2(copy: In<'_, Copy2D>)
        also cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds
    {
        Copy3D::from(copy.take()?).run()
    }

    fn cuMemcpy2DAsync_v2(copy: In<'_, Copy2D>, stream: usize) also cuMemcpy2DAsync_v2_ptsz {
        let copy = Copy3D::from(copy.take()?);
        on(stream, || copy.node(), || copy.run())
    }

    fn cuMemcpy3D_v2(copy: In<'_, Copy3D>)
        also cuMemcpy3D_v2_ptds, cuMemcpy3DPeer, cuMemcpy3DPeer_ptds
    {
        copy.take()?.run()
    }

    fn cuMemcpy3DAsync_v2(copy: In<'_, Copy3D>, stream: usize)
        also cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DPeerAsync, cuMemcpy3DPeerAsync_ptsz
    {
        let copy = copy.take()?;
        on(stream, || copy.node(), || copy.run())
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
        to: List<'_, Address<'_>>,
        from: List<'_, Address<'_>>,
        sizes: List<'_, Count<'_>>,
        count: Count<'_>,
        attributes: *const c_void,
        indices: List<'_, usize>,
        attribute_count: usize,
        failed: Out<'_, usize>,
        stream: usize,
    ) also cuMemcpyBatchAsync_ptsz {
        let _ = (attributes, indices, attribute_count);
        // Which of them fails is not said.
        failed.put_if(usize::MAX);
        batch(to, from, sizes, count, stream)
    }

    fn cuMemcpyBatchAsync_v2(
        to: List<'_, Address<'_>>,
        from: List<'_, Address<'_>>,
        sizes: List<'_, Count<'_>>,
        count: Count<'_>,
        attributes: *const c_void,
        indices: List<'_, usize>,
        attribute_count: usize,
        stream: usize,
    ) also cuMemcpyBatchAsync_v2_ptsz {
        let _ = (attributes, indices, attribute_count);
        batch(to, from, sizes, count, stream)
    }
}
