//! Stream capture.

use std::ffi::{c_int, c_uint, c_void};

use super::graph::nodes;
use super::{put, put_if};
use crate::capture::{begin, end, is_captured, with};
use crate::current::current_device;
use crate::graph::graph;
use crate::guard::api;
use crate::status::{Result, Status};
use crate::stream::number_of;

/// The flag of an update that replaces what there is.
const REPLACE: c_uint = 1;

/// Where the answers of `cuStreamGetCaptureInfo` go.
#[derive(Clone, Copy)]
struct Info {
    status: *mut c_int,
    id: *mut u64,
    graph: *mut usize,
    after: *mut *const usize,
    count: *mut usize,
}

impl Info {
    /// # Safety
    /// The pointers are the caller's.
    unsafe fn tell(self, stream: usize) -> Result {
        number_of(stream)?;
        // SAFETY: the caller vouches for them; the list stays until the next call on the stream.
        unsafe {
            put(self.status, c_int::from(is_captured(stream)))?;
            with(stream, |capture| {
                put_if(self.id, capture.id);
                put_if(self.graph, capture.graph.handle);
                let tail = capture.tail(stream);
                put_if(self.after, tail.as_ptr());
                put_if(self.count, tail.len());
            });
        }
        Ok(())
    }
}

/// # Safety
/// There are so many nodes.
unsafe fn update(stream: usize, list: *const usize, count: usize, flags: c_uint) -> Result {
    // SAFETY: the caller vouches for it.
    let list = unsafe { nodes(list, count)? };
    let updated = with(stream, |capture| {
        let tail = capture.tail(stream);
        if flags & REPLACE != 0 {
            tail.clear();
        }
        tail.extend(list);
        tail.sort_unstable();
        tail.dedup();
    });
    updated.ok_or(Status::ILLEGAL_STATE)
}

fn start(stream: usize) -> Result {
    current_device()?;
    number_of(stream)?;
    begin(stream, None)
}

api! {
    fn cuStreamBeginCapture_v2(stream: usize, mode: c_int) also cuStreamBeginCapture_v2_ptsz {
        let _ = mode;
        start(stream)
    }

    fn cuStreamBeginCapture(stream: usize) also cuStreamBeginCapture_ptsz {
        start(stream)
    }

    fn cuStreamBeginCaptureToGraph(
        stream: usize,
        handle: usize,
        after: *const usize,
        data: *const c_void,
        count: usize,
        mode: c_int,
    ) also cuStreamBeginCaptureToGraph_ptsz {
        let _ = (data, mode);
        current_device()?;
        number_of(stream)?;
        // SAFETY: the caller's list.
        let after = unsafe { nodes(after, count)? };
        begin(stream, Some((graph(handle)?, after.to_vec())))
    }

    fn cuStreamEndCapture(stream: usize, handle: *mut usize) also cuStreamEndCapture_ptsz {
        number_of(stream)?;
        // SAFETY: the caller's pointer; without a graph there is none.
        unsafe {
            put(handle, 0)?;
            put(handle, end(stream)?.handle)
        }
    }

    fn cuStreamIsCapturing(stream: usize, status: *mut c_int) also cuStreamIsCapturing_ptsz {
        number_of(stream)?;
        // SAFETY: the caller's pointer.
        unsafe { put(status, c_int::from(is_captured(stream))) }
    }

    fn cuStreamGetCaptureInfo(stream: usize, status: *mut c_int, id: *mut u64)
        also cuStreamGetCaptureInfo_ptsz
    {
        let (graph, after, count) = (
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        );
        // SAFETY: the caller's pointers.
        unsafe { Info { status, id, graph, after, count }.tell(stream) }
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: usize,
        status: *mut c_int,
        id: *mut u64,
        graph: *mut usize,
        after: *mut *const usize,
        count: *mut usize,
    ) also cuStreamGetCaptureInfo_v2_ptsz {
        // SAFETY: the caller's pointers.
        unsafe { Info { status, id, graph, after, count }.tell(stream) }
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: usize,
        status: *mut c_int,
        id: *mut u64,
        graph: *mut usize,
        after: *mut *const usize,
        data: *mut *const c_void,
        count: *mut usize,
    ) also cuStreamGetCaptureInfo_v3_ptsz {
        // SAFETY: the caller's pointers. No dependency has data.
        unsafe {
            put_if(data, std::ptr::null());
            Info { status, id, graph, after, count }.tell(stream)
        }
    }

    fn cuStreamUpdateCaptureDependencies(
        stream: usize,
        list: *const usize,
        count: usize,
        flags: c_uint,
    ) also cuStreamUpdateCaptureDependencies_ptsz {
        // SAFETY: the caller's list.
        unsafe { update(stream, list, count, flags) }
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: usize,
        list: *const usize,
        data: *const c_void,
        count: usize,
        flags: c_uint,
    ) also cuStreamUpdateCaptureDependencies_v2_ptsz {
        let _ = data;
        // SAFETY: the caller's list.
        unsafe { update(stream, list, count, flags) }
    }
}
