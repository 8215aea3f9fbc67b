//! Copies to and from arrays of one dimension; others are copied as boxes.

use super::copy::on;
use crate::abi::{Address, Bytes, Count, Handle, Room};
use crate::array::Array;
use crate::copy3d::{Copy3D, Side};
use crate::current_context::current_device;
use crate::guard::api;
use crate::status::Result;
use crate::stream::Stream;

/// Copies at once.
fn run<'c>(to: Side<'c>, from: Side<'c>, count: Count<'c>) -> Result {
    current_device()?;
    Copy3D::between(to, from, count).run()
}

/// Copies, or records the copy if the stream is captured.
fn run_on<'c>(to: Side<'c>, from: Side<'c>, count: Count<'c>, stream: Handle<Stream>) -> Result {
    let copy = Copy3D::between(to, from, count);
    on(stream, || copy.node(), || run(to, from, count))
}

api! {
    fn cuMemcpyHtoA_v2<'c>(to: Handle<Array>, offset: usize, from: Bytes<'c>, count: Count<'c>)
        ptds cuMemcpyHtoA_v2_ptds => run(Side::array(to, offset), Side::source(from), count);
    fn cuMemcpyAtoH_v2<'c>(to: Room<'c>, from: Handle<Array>, offset: usize, count: Count<'c>)
        ptds cuMemcpyAtoH_v2_ptds => run(Side::target(to), Side::array(from, offset), count);
    fn cuMemcpyDtoA_v2<'c>(to: Handle<Array>, offset: usize, from: Address<'c>, count: Count<'c>)
        ptds cuMemcpyDtoA_v2_ptds => run(Side::array(to, offset), Side::device(from), count);

    fn cuMemcpyAtoD_v2<'c>(to: Address<'c>, from: Handle<Array>, offset: usize, count: Count<'c>)
        ptds cuMemcpyAtoD_v2_ptds
    {
        run(Side::device(to), Side::array(from, offset), count)?;
        crate::copy::settle(to.number())
    }

    fn cuMemcpyAtoA_v2<'c>(
        to: Handle<Array>, to_offset: usize, from: Handle<Array>, from_offset: usize, count: Count<'c>,
    ) ptds cuMemcpyAtoA_v2_ptds => run(Side::array(to, to_offset), Side::array(from, from_offset), count);

    // The bytes are read during the call.
    fn cuMemcpyHtoAAsync_v2<'c>(
        to: Handle<Array>, offset: usize, from: Bytes<'c>, count: Count<'c>, stream: Handle<Stream>,
    ) ptsz cuMemcpyHtoAAsync_v2_ptsz => run_on(Side::array(to, offset), Side::source(from), count, stream);

    // The bytes are written when the call returns.
    fn cuMemcpyAtoHAsync_v2<'c>(
        to: Room<'c>, from: Handle<Array>, offset: usize, count: Count<'c>, stream: Handle<Stream>,
    ) ptsz cuMemcpyAtoHAsync_v2_ptsz => run_on(Side::target(to), Side::array(from, offset), count, stream);
}
