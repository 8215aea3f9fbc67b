//! Copies to and from arrays of one dimension; others are copied as boxes.

use std::ffi::c_void;

use super::copy::on;
use crate::guard::api;
use crate::status::Result;
use crate::volume::{Copy3D, Side};

/// Copies now.
///
/// # Safety
/// Host addresses are of so many bytes.
unsafe fn run(to: Side, from: Side, count: usize) -> Result {
    crate::current::current_device()?;
    // SAFETY: the caller vouches for them.
    unsafe { Copy3D::between(to, from, count).run() }
}

/// Copies, or records it where the stream is captured.
///
/// # Safety
/// As [`run`].
unsafe fn run_on(to: Side, from: Side, count: usize, stream: usize) -> Result {
    let copy = Copy3D::between(to, from, count);
    // SAFETY: the caller vouches for them.
    on(stream, || copy.node(), || unsafe { run(to, from, count) })
}

api! {
    fn cuMemcpyHtoA_v2(to: usize, offset: usize, from: *const c_void, count: usize)
        also cuMemcpyHtoA_v2_ptds
    {
        // SAFETY: the caller's pointer.
        unsafe { run(Side::array(to, offset), Side::host(from as usize), count) }
    }

    fn cuMemcpyAtoH_v2(to: *mut c_void, from: usize, offset: usize, count: usize)
        also cuMemcpyAtoH_v2_ptds
    {
        // SAFETY: the caller's pointer.
        unsafe { run(Side::host(to as usize), Side::array(from, offset), count) }
    }

    fn cuMemcpyDtoA_v2(to: usize, offset: usize, from: u64, count: usize)
        also cuMemcpyDtoA_v2_ptds
    {
        // SAFETY: neither side is of the host.
        unsafe { run(Side::array(to, offset), Side::device(from), count) }
    }

    fn cuMemcpyAtoD_v2(to: u64, from: usize, offset: usize, count: usize)
        also cuMemcpyAtoD_v2_ptds
    {
        // SAFETY: neither side is of the host.
        unsafe { run(Side::device(to), Side::array(from, offset), count)? };
        crate::copy::settle(to)
    }

    fn cuMemcpyAtoA_v2(
        to: usize,
        to_offset: usize,
        from: usize,
        from_offset: usize,
        count: usize,
    ) also cuMemcpyAtoA_v2_ptds {
        // SAFETY: neither side is of the host.
        unsafe { run(Side::array(to, to_offset), Side::array(from, from_offset), count) }
    }

    fn cuMemcpyHtoAAsync_v2(
        to: usize,
        offset: usize,
        from: *const c_void,
        count: usize,
        stream: usize,
    ) also cuMemcpyHtoAAsync_v2_ptsz {
        // SAFETY: the caller's pointer. The bytes are taken at the call.
        unsafe { run_on(Side::array(to, offset), Side::host(from as usize), count, stream) }
    }

    fn cuMemcpyAtoHAsync_v2(
        to: *mut c_void,
        from: usize,
        offset: usize,
        count: usize,
        stream: usize,
    ) also cuMemcpyAtoHAsync_v2_ptsz {
        // SAFETY: the caller's pointer. The bytes are there at the return.
        unsafe { run_on(Side::host(to as usize), Side::array(from, offset), count, stream) }
    }
}
