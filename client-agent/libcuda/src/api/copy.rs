//! Copies and sets.

use crate::abi::{Address, Bytes, Count, Handle, In, List, Out, Room, Unused};
use crate::capture::or_capture;
use crate::context::Context;
use crate::copy::{any, settle, to_device, to_host, within};
use crate::copy3d::{Copy2D, Copy3D};
use crate::fill::Fill;
use crate::graph::Work;
use crate::guard::api;
use crate::status::{Result, Status};
use crate::stream::Stream;

/// Does an asynchronous copy or set, or records it if the stream is captured.
pub(super) fn on(
    stream: Handle<Stream>,
    work: impl FnOnce() -> Result<Work>,
    now: impl FnOnce() -> Result,
) -> Result {
    stream.op_number()?;
    or_capture(stream, work, now)
}

/// Copies from the program to a device.
fn upload<'c>(to: Address<'c>, from: Bytes<'c>, count: Count<'c>) -> Result {
    // SAFETY: the count of the same call says how many bytes are there to be read.
    unsafe { to_device(to.number(), from.address(), count.number()) }
}

/// Copies from a device to the program.
fn download<'c>(to: Room<'c>, from: Address<'c>, count: Count<'c>) -> Result {
    // SAFETY: the count of the same call says how many bytes have room; the copy owns them during
    // the call.
    unsafe { to_host(to.address(), from.number(), count.number()) }
}

/// Copies between addresses of devices.
fn across<'c>(to: Address<'c>, from: Address<'c>, count: Count<'c>) -> Result {
    // SAFETY: a program that names pinned memory instead of device memory has the count's bytes
    // there.
    unsafe { within(to.number(), from.number(), count.number()) }
}

/// Copies between addresses of any kind; each address tells its kind.
fn either<'c>(to: Address<'c>, from: Address<'c>, count: Count<'c>) -> Result {
    // SAFETY: an address that is not a device's is of the program's memory, with the count's bytes.
    unsafe { any(to.number(), from.number(), count.number()) }
}

/// Copies by `now`, or records the copy if the stream is captured. The node derives its sides from
/// their addresses.
fn linear_on<'a>(
    (to, from, count): (Address<'a>, Address<'a>, Count<'a>),
    stream: Handle<Stream>,
    now: fn(Address<'a>, Address<'a>, Count<'a>) -> Result,
) -> Result {
    let node = || Ok(Work::Copy(Copy3D::linear(to, from, count).kept()));
    on(stream, node, || now(to, from, count))
}

/// Copies one after the other; the addresses tell the kind of each side.
fn batch<'a, 'c>(
    to: List<'a, Address<'c>>,
    from: List<'a, Address<'c>>,
    sizes: List<'a, Count<'c>>,
    count: Count<'a>,
    stream: Handle<Stream>,
) -> Result {
    if count.number() == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let places = to.items(count)?.zip(from.items(count)?);
    let mut copies = places.zip(sizes.items(count)?);
    copies.try_for_each(|((to, from), size)| linear_on((to, from, size), stream, either))
}

/// Copies a box, or records the copy if the stream is captured.
fn box_on(copy: Copy3D<'_>, stream: Handle<Stream>) -> Result {
    on(stream, || copy.node(), || copy.run())
}

api! {
    fn cuMemcpyHtoD_v2<'c>(to: Address<'c>, from: Bytes<'c>, count: Count<'c>) ptds cuMemcpyHtoD_v2_ptds {
        upload(to, from, count)?;
        settle(to.number())
    }

    fn cuMemcpyHtoDAsync_v2<'c>(to: Address<'c>, from: Bytes<'c>, count: Count<'c>, stream: Handle<Stream>)
        ptsz cuMemcpyHtoDAsync_v2_ptsz
    {
        let node = || Ok(Work::Copy(Copy3D::to_device(to, from, count).kept()));
        // The bytes are read during the call.
        on(stream, node, || upload(to, from, count))
    }

    fn cuMemcpyDtoH_v2<'c>(to: Room<'c>, from: Address<'c>, count: Count<'c>) ptds cuMemcpyDtoH_v2_ptds
        => download(to, from, count);

    fn cuMemcpyDtoHAsync_v2<'c>(to: Room<'c>, from: Address<'c>, count: Count<'c>, stream: Handle<Stream>)
        ptsz cuMemcpyDtoHAsync_v2_ptsz
    {
        let node = || Ok(Work::Copy(Copy3D::to_host(to, from, count).kept()));
        // The bytes are written when the call returns.
        on(stream, node, || download(to, from, count))
    }

    fn cuMemcpyDtoD_v2<'c>(to: Address<'c>, from: Address<'c>, count: Count<'c>) ptds cuMemcpyDtoD_v2_ptds {
        across(to, from, count)?;
        settle(to.number())
    }

    fn cuMemcpyDtoDAsync_v2<'c>(to: Address<'c>, from: Address<'c>, count: Count<'c>, stream: Handle<Stream>)
        ptsz cuMemcpyDtoDAsync_v2_ptsz => linear_on((to, from, count), stream, across);
    fn cuMemcpy<'c>(to: Address<'c>, from: Address<'c>, count: Count<'c>) ptds cuMemcpy_ptds
        => either(to, from, count);
    fn cuMemcpyAsync<'c>(to: Address<'c>, from: Address<'c>, count: Count<'c>, stream: Handle<Stream>)
        ptsz cuMemcpyAsync_ptsz => linear_on((to, from, count), stream, either);

    fn cuMemcpyPeer<'c>(
        to: Address<'c>, _to_context: Handle<Context>, from: Address<'c>, _from_context: Handle<Context>,
        count: Count<'c>,
    ) ptds cuMemcpyPeer_ptds {
        across(to, from, count)?;
        settle(to.number())
    }

    fn cuMemcpyPeerAsync<'c>(
        to: Address<'c>, _to_context: Handle<Context>, from: Address<'c>, _from_context: Handle<Context>,
        count: Count<'c>, stream: Handle<Stream>,
    ) ptsz cuMemcpyPeerAsync_ptsz => linear_on((to, from, count), stream, across);
    fn cuMemcpy2D_v2(copy: In<'_, Copy2D<'_>>)
        also cuMemcpy2DUnaligned_v2 ptds cuMemcpy2D_v2_ptds, cuMemcpy2DUnaligned_v2_ptds
        => Copy3D::from(copy.take()?).run();
    fn cuMemcpy2DAsync_v2(copy: In<'_, Copy2D<'_>>, stream: Handle<Stream>) ptsz cuMemcpy2DAsync_v2_ptsz
        => box_on(copy.take()?.into(), stream);
    fn cuMemcpy3D_v2(copy: In<'_, Copy3D<'_>>)
        also cuMemcpy3DPeer ptds cuMemcpy3D_v2_ptds, cuMemcpy3DPeer_ptds => copy.take()?.run();
    fn cuMemcpy3DAsync_v2(copy: In<'_, Copy3D<'_>>, stream: Handle<Stream>)
        also cuMemcpy3DPeerAsync ptsz cuMemcpy3DAsync_v2_ptsz, cuMemcpy3DPeerAsync_ptsz
        => box_on(copy.take()?, stream);

    fn cuMemcpyBatchAsync<'a, 'c>(
        to: List<'a, Address<'c>>, from: List<'a, Address<'c>>, sizes: List<'a, Count<'c>>, count: Count<'a>,
        _attributes: Unused<'_>, _indices: List<'_, usize>, _attribute_count: usize,
        failed: Out<'_, usize>, stream: Handle<Stream>,
    ) ptsz cuMemcpyBatchAsync_ptsz {
        // The failed copy is not reported.
        failed.put_if(usize::MAX);
        batch(to, from, sizes, count, stream)
    }

    fn cuMemcpyBatchAsync_v2<'a, 'c>(
        to: List<'a, Address<'c>>, from: List<'a, Address<'c>>, sizes: List<'a, Count<'c>>, count: Count<'a>,
        _attributes: Unused<'_>, _indices: List<'_, usize>, _attribute_count: usize,
        stream: Handle<Stream>,
    ) ptsz cuMemcpyBatchAsync_v2_ptsz => batch(to, from, sizes, count, stream);
}

/// Defines the functions that set memory, one row for each element type. They set elements and rows
/// of elements, each synchronously and on a stream. Each has a form for the thread's default
/// stream.
macro_rules! sets {
    ($($element:ty: $set:ident, $set_ptds:ident, $set_on:ident, $set_on_ptsz:ident,
        $rows:ident, $rows_ptds:ident, $rows_on:ident, $rows_on_ptsz:ident;)*) => {$(
        api! {
            fn $set(address: u64, value: $element, count: usize) ptds $set_ptds {
                Fill::row(address, value.into(), size_of::<$element>(), count).run()?;
                settle(address)
            }

            fn $set_on(address: u64, value: $element, count: usize, stream: Handle<Stream>) ptsz $set_on_ptsz {
                let fill = Fill::row(address, value.into(), size_of::<$element>(), count);
                on(stream, || Ok(Work::Fill(fill)), || fill.run())
            }

            fn $rows(address: u64, pitch: usize, value: $element, count: usize, rows: usize) ptds $rows_ptds {
                let row = Fill::row(address, value.into(), size_of::<$element>(), count);
                row.repeated(pitch, rows).run()?;
                settle(address)
            }

            fn $rows_on(
                address: u64, pitch: usize, value: $element, count: usize, rows: usize, stream: Handle<Stream>,
            ) ptsz $rows_on_ptsz {
                let row = Fill::row(address, value.into(), size_of::<$element>(), count);
                let fill = row.repeated(pitch, rows);
                on(stream, || Ok(Work::Fill(fill)), || fill.run())
            }
        }
    )*};
}

sets! {
    u8: cuMemsetD8_v2, cuMemsetD8_v2_ptds, cuMemsetD8Async, cuMemsetD8Async_ptsz,
        cuMemsetD2D8_v2, cuMemsetD2D8_v2_ptds, cuMemsetD2D8Async, cuMemsetD2D8Async_ptsz;
    u16: cuMemsetD16_v2, cuMemsetD16_v2_ptds, cuMemsetD16Async, cuMemsetD16Async_ptsz,
        cuMemsetD2D16_v2, cuMemsetD2D16_v2_ptds, cuMemsetD2D16Async, cuMemsetD2D16Async_ptsz;
    u32: cuMemsetD32_v2, cuMemsetD32_v2_ptds, cuMemsetD32Async, cuMemsetD32Async_ptsz,
        cuMemsetD2D32_v2, cuMemsetD2D32_v2_ptds, cuMemsetD2D32Async, cuMemsetD2D32Async_ptsz;
}
