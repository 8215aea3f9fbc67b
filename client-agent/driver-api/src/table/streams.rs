//! Streams, capture, events.

use super::rows;
use crate::role::Object::{Event, Graph, Stream};
use crate::role::ParameterRole::{
    Any, Callback, Count, Flags, Handle, HandleIf, In, InIf, List, OneOf, Out, OutIf,
};

/// `CU_STREAM_NON_BLOCKING`.
const STREAM: u64 = 1;
/// Blocking waits, no times, between processes.
const EVENT: u64 = 7;
/// `CU_EVENT_RECORD_EXTERNAL`, `CU_EVENT_WAIT_EXTERNAL`.
const EXTERNAL: u64 = 1;
/// Global, of the thread, relaxed.
const CAPTURE: &[i64] = &[0, 1, 2];
/// Dependencies are added, or set.
const UPDATE: &[i64] = &[0, 1];

rows! { ROWS:
    "Stream Management" {
        cuStreamCreate(Context) { phStream: Out, Flags: Flags(STREAM) }
        cuStreamCreateWithPriority(Context) { phStream: Out, flags: Flags(STREAM), priority: Any }
        cuStreamGetPriority(Initialised) { hStream: HandleIf(Stream), priority: Out }
        cuStreamGetDevice(Initialised) { hStream: HandleIf(Stream), device: Out }
        cuStreamGetFlags(Initialised) { hStream: HandleIf(Stream), flags: Out }
        cuStreamGetId(Initialised) { hStream: HandleIf(Stream), streamId: Out }
        cuStreamGetCtx(Initialised) { hStream: HandleIf(Stream), pctx: Out }
        cuStreamGetCtx_v2(Initialised) { hStream: HandleIf(Stream), pCtx: Out, pGreenCtx: OutIf }
        cuStreamGetGreenCtx(Initialised) { hStream: HandleIf(Stream), phCtx: Out }
        cuStreamWaitEvent(Initialised) { hStream: HandleIf(Stream), hEvent: Handle(Event), Flags: Flags(EXTERNAL) }
        cuStreamAddCallback(Initialised) {
            hStream: HandleIf(Stream), callback: Callback, userData: Any, flags: Flags(0),
        }
        cuStreamAddCallback_ptsz(Initialised) {
            hStream: HandleIf(Stream), callback: Callback, userData: Any, flags: Flags(0),
        }
        cuStreamBeginCapture(Initialised) { hStream: HandleIf(Stream) }
        cuStreamBeginCapture_v2(Initialised) { hStream: HandleIf(Stream), mode: OneOf(CAPTURE) }
        cuStreamBeginCaptureToGraph(Initialised) {
            hStream: HandleIf(Stream), hGraph: Handle(Graph), dependencies: List, dependencyData: InIf,
            numDependencies: Count, mode: OneOf(CAPTURE),
        }
        cuThreadExchangeStreamCaptureMode(Initialised) { mode: In }
        cuStreamEndCapture(Initialised) { hStream: HandleIf(Stream), phGraph: Out }
        cuStreamIsCapturing(Initialised) { hStream: HandleIf(Stream), captureStatus: Out }
        cuStreamGetCaptureInfo(Initialised) {
            hStream: HandleIf(Stream), captureStatus_out: Out, id_out: OutIf,
        }
        cuStreamGetCaptureInfo_v2(Initialised) {
            hStream: HandleIf(Stream), captureStatus_out: Out, id_out: OutIf, graph_out: OutIf,
            dependencies_out: OutIf, numDependencies_out: OutIf,
        }
        cuStreamGetCaptureInfo_v3(Initialised) {
            hStream: HandleIf(Stream), captureStatus_out: Out, id_out: OutIf, graph_out: OutIf,
            dependencies_out: OutIf, edgeData_out: OutIf, numDependencies_out: OutIf,
        }
        cuStreamUpdateCaptureDependencies(Initialised) {
            hStream: HandleIf(Stream), dependencies: List, numDependencies: Count, flags: OneOf(UPDATE),
        }
        cuStreamUpdateCaptureDependencies_v2(Initialised) {
            hStream: HandleIf(Stream), dependencies: List, dependencyData: InIf, numDependencies: Count,
            flags: OneOf(UPDATE),
        }
        cuStreamQuery(Initialised) { hStream: HandleIf(Stream) }
        cuStreamSynchronize(Initialised) { hStream: HandleIf(Stream) }
        cuStreamDestroy(Initialised) { hStream: Handle(Stream) }
        cuStreamDestroy_v2(Initialised) { hStream: Handle(Stream) }
        cuStreamCopyAttributes(Initialised) { dst: HandleIf(Stream), src: HandleIf(Stream) }
        cuStreamGetAttribute(Initialised) { hStream: HandleIf(Stream), attr: Any, value_out: Out }
        cuStreamSetAttribute(Initialised) { hStream: HandleIf(Stream), attr: Any, value: In }
    }
    "Event Management" {
        cuEventCreate(Context) { phEvent: Out, Flags: Flags(EVENT) }
        cuEventRecord(Initialised) { hEvent: Handle(Event), hStream: HandleIf(Stream) }
        cuEventRecordWithFlags(Initialised) {
            hEvent: Handle(Event), hStream: HandleIf(Stream), flags: Flags(EXTERNAL),
        }
        cuEventQuery(Initialised, Unsafe) { hEvent: Handle(Event) }
        cuEventSynchronize(Initialised, Unsafe) { hEvent: Handle(Event) }
        cuEventDestroy(Initialised) { hEvent: Handle(Event) }
        cuEventDestroy_v2(Initialised) { hEvent: Handle(Event) }
        cuEventElapsedTime(Initialised) { pMilliseconds: Out, hStart: Handle(Event), hEnd: Handle(Event) }
        cuEventElapsedTime_v2(Initialised) { pMilliseconds: Out, hStart: Handle(Event), hEnd: Handle(Event) }
    }
}
