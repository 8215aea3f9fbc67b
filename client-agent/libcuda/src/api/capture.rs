//! Stream capture.

use std::ffi::{c_int, c_uint, c_void};

use crate::abi::{Count, Handle, InOut, List, Out, Unused};
use crate::capture::{Mode, begin, end, exchange, status, with};
use crate::current_context::current_device;
use crate::graph::{Graph, Node};
use crate::guard::api;
use crate::status::{Result, Status};
use crate::stream::Stream;

/// The flag of an update that replaces the dependencies.
const REPLACE: c_uint = 1;

/// `CU_STREAM_CAPTURE_STATUS_ACTIVE`.
const UNDER_WAY: c_int = 1;

/// Destinations of the answers of `cuStreamGetCaptureInfo`.
struct Info<'a> {
    status: Out<'a, c_int>,
    id: Out<'a, u64>,
    graph: Out<'a, Handle<Graph>>,
    after: Out<'a, *const Handle<Node>>,
    count: Out<'a, usize>,
}

impl Info<'_> {
    /// Answers for a stream. The list of nodes stays valid until the next call on the stream.
    fn answer(self, stream: Handle<Stream>) -> Result {
        stream.op_number()?;
        let status = status(stream)?;
        self.status.put(status)?;
        if status == UNDER_WAY {
            with(stream, |capture| {
                self.id.put_if(capture.id);
                self.graph.put_if(capture.graph.handle);
                let tail = capture.tail(stream);
                self.after.put_if(tail.as_ptr());
                self.count.put_if(tail.len());
            })?;
        }
        Ok(())
    }
}

fn update<'a>(
    stream: Handle<Stream>,
    list: List<'a, Handle<Node>>,
    count: Count<'a>,
    flags: c_uint,
) -> Result {
    let list = list.items(count)?;
    let updated = with(stream, |capture| {
        capture.is_valid()?;
        let tail = capture.tail(stream);
        if flags & REPLACE != 0 {
            tail.clear();
        }
        tail.extend(list);
        tail.sort_unstable();
        tail.dedup();
        Ok(())
    })?;
    updated.unwrap_or(Err(Status::ILLEGAL_STATE))
}

fn start(stream: Handle<Stream>, mode: c_int) -> Result {
    current_device()?;
    stream.op_number()?;
    begin(stream, Mode::of(mode)?, None)
}

api! {
    fn cuStreamBeginCapture_v2(stream: Handle<Stream>, mode: c_int) ptsz cuStreamBeginCapture_v2_ptsz
        => start(stream, mode);
    fn cuStreamBeginCapture(stream: Handle<Stream>) ptsz cuStreamBeginCapture_ptsz
        => start(stream, Mode::Global.number());

    fn cuStreamBeginCaptureToGraph<'c>(
        stream: Handle<Stream>, graph: Handle<Graph>, after: List<'c, Handle<Node>>, _data: Unused<'_>,
        count: Count<'c>, mode: c_int,
    ) ptsz cuStreamBeginCaptureToGraph_ptsz {
        current_device()?;
        stream.op_number()?;
        let after = after.items(count)?;
        begin(stream, Mode::of(mode)?, Some((graph.get()?, after.collect())))
    }

    fn cuStreamEndCapture(stream: Handle<Stream>, graph: Out<'_, Handle<Graph>>) ptsz cuStreamEndCapture_ptsz {
        stream.op_number()?;
        // On failure the program gets no graph.
        graph.put(Handle::NULL)?;
        graph.put(end(stream)?.handle)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: InOut<'_, c_int>) {
        let new = Mode::of(mode.take()?)?;
        mode.put(exchange(new).number())
    }

    fn cuStreamIsCapturing(stream: Handle<Stream>, status: Out<'_, c_int>) ptsz cuStreamIsCapturing_ptsz {
        stream.op_number()?;
        status.put(crate::capture::status(stream)?)
    }

    fn cuStreamGetCaptureInfo(stream: Handle<Stream>, status: Out<'_, c_int>, id: Out<'_, u64>)
        ptsz cuStreamGetCaptureInfo_ptsz
    {
        let (graph, after, count) = (Out::UNWANTED, Out::UNWANTED, Out::UNWANTED);
        Info { status, id, graph, after, count }.answer(stream)
    }

    fn cuStreamGetCaptureInfo_v2(
        stream: Handle<Stream>, status: Out<'_, c_int>, id: Out<'_, u64>, graph: Out<'_, Handle<Graph>>,
        after: Out<'_, *const Handle<Node>>, count: Out<'_, usize>,
    ) ptsz cuStreamGetCaptureInfo_v2_ptsz => Info { status, id, graph, after, count }.answer(stream);

    fn cuStreamGetCaptureInfo_v3(
        stream: Handle<Stream>, status: Out<'_, c_int>, id: Out<'_, u64>, graph: Out<'_, Handle<Graph>>,
        after: Out<'_, *const Handle<Node>>, data: Out<'_, *const c_void>, count: Out<'_, usize>,
    ) ptsz cuStreamGetCaptureInfo_v3_ptsz {
        // No dependency has data.
        data.put_if(std::ptr::null());
        Info { status, id, graph, after, count }.answer(stream)
    }

    fn cuStreamUpdateCaptureDependencies<'c>(
        stream: Handle<Stream>, list: List<'c, Handle<Node>>, count: Count<'c>, flags: c_uint,
    ) ptsz cuStreamUpdateCaptureDependencies_ptsz => update(stream, list, count, flags);

    fn cuStreamUpdateCaptureDependencies_v2<'c>(
        stream: Handle<Stream>, list: List<'c, Handle<Node>>, _data: Unused<'_>, count: Count<'c>,
        flags: c_uint,
    ) ptsz cuStreamUpdateCaptureDependencies_v2_ptsz => update(stream, list, count, flags);
}
