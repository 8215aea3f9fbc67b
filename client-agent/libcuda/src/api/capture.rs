//! Stream capture.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{Count, List, Out};
use crate::capture::{begin, end, is_captured, with};
use crate::current_context::current_device;
use crate::graph::graph;
use crate::guard::api;
use crate::status::{Result, Status};
use crate::stream::number_of;

/// The flag of an update that replaces what there is.
const REPLACE: c_uint = 1;

/// Where the answers of `cuStreamGetCaptureInfo` go.
struct Info<'a> {
    status: Out<'a, c_int>,
    id: Out<'a, u64>,
    graph: Out<'a, usize>,
    after: Out<'a, *const usize>,
    count: Out<'a, usize>,
}

impl Info<'_> {
    /// Answers for a stream. The list of nodes stays until the next call on the stream.
    fn answer(self, stream: usize) -> Result {
        number_of(stream)?;
        self.status.put(c_int::from(is_captured(stream)))?;
        with(stream, |capture| {
            self.id.put_if(capture.id);
            self.graph.put_if(capture.graph.handle);
            let tail = capture.tail(stream);
            self.after.put_if(tail.as_ptr());
            self.count.put_if(tail.len());
        });
        Ok(())
    }
}

fn update<'a>(stream: usize, list: List<'a, usize>, count: Count<'a>, flags: c_uint) -> Result {
    let list = list.items(count)?;
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
        after: List<'_, usize>,
        data: *const c_void,
        count: Count<'_>,
        mode: c_int,
    ) also cuStreamBeginCaptureToGraph_ptsz {
        let _ = (data, mode);
        current_device()?;
        number_of(stream)?;
        let after = after.items(count)?;
        begin(stream, Some((graph(handle)?, after.collect())))
    }

    fn cuStreamEndCapture(stream: usize, handle: Out<'_, usize>) also cuStreamEndCapture_ptsz {
        number_of(stream)?;
        // Without a graph there is none.
        handle.put(0)?;
        handle.put(end(stream)?.handle)
    }

    fn cuStreamIsCapturing(stream: usize, status: Out<'_, c_int>) also cuStreamIsCapturing_ptsz {
        number_of(stream)?;
        status.put(c_int::from(is_captured(stream)))
    }

    fn cuStreamGetCaptureInfo(stream: usize, status: Out<'_, c_int>, id: Out<'_, u64>)
        also cuStreamGetCaptureInfo_ptsz
    {
        let (graph, after, count) = (Out::UNWANTED, Out::UNWANTED, Out::UNWANTED);
        Info { status, id, graph, after, count }.answer(stream)
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: usize,
        status: Out<'_, c_int>,
        id: Out<'_, u64>,
        graph: Out<'_, usize>,
        after: Out<'_, *const usize>,
        count: Out<'_, usize>,
    ) also cuStreamGetCaptureInfo_v2_ptsz {
        Info { status, id, graph, after, count }.answer(stream)
    }

    fn cuStreamGetCaptureInfo_v3(
        stream: usize,
        status: Out<'_, c_int>,
        id: Out<'_, u64>,
        graph: Out<'_, usize>,
        after: Out<'_, *const usize>,
        data: Out<'_, *const c_void>,
        count: Out<'_, usize>,
    ) also cuStreamGetCaptureInfo_v3_ptsz {
        // No dependency has data.
        data.put_if(std::ptr::null());
        Info { status, id, graph, after, count }.answer(stream)
    }

    fn cuStreamUpdateCaptureDependencies(
        stream: usize,
        list: List<'_, usize>,
        count: Count<'_>,
        flags: c_uint,
    ) also cuStreamUpdateCaptureDependencies_ptsz {
        update(stream, list, count, flags)
    }

    fn cuStreamUpdateCaptureDependencies_v2(
        stream: usize,
        list: List<'_, usize>,
        data: *const c_void,
        count: Count<'_>,
        flags: c_uint,
    ) also cuStreamUpdateCaptureDependencies_v2_ptsz {
        let _ = data;
        update(stream, list, count, flags)
    }
}
