//! Events.

use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::abi::Out;
use crate::capture::{self, or_capture};
use crate::current_context::current;
use crate::device::Device;
use crate::event::{EVENTS, Event, record};
use crate::graph::Work;
use crate::guard::api;
use crate::process::process;
use crate::status::{Result, Status};
use crate::stream::number_of;
use crate::work;

/// The flag of `cuEventRecordWithFlags` and `cuStreamWaitEvent` for events outside of a capture.
const EXTERNAL: c_uint = 1;

fn event(handle: usize) -> Result<(Arc<Event>, &'static Device)> {
    let process = process()?;
    let event = EVENTS.get(handle).ok_or(Status::INVALID_HANDLE)?;
    let device = process
        .devices
        .get(event.device)
        .ok_or(Status::INVALID_DEVICE)?;
    Ok((event, device))
}

/// Records an event, or notes it where the stream is captured.
fn note_or_record(handle: usize, stream: usize) -> Result {
    number_of(stream)?;
    EVENTS.with(handle, |_| ()).ok_or(Status::INVALID_HANDLE)?;
    match capture::record(handle, stream) {
        true => Ok(()),
        false => record(handle, stream),
    }
}

/// Milliseconds between two events that were reached.
fn elapsed(start: usize, end: usize) -> Result<f32> {
    let ((start, device), (end, other)) = (event(start)?, event(end)?);
    let ops = [&start, &end].map(|event| event.op.load(Ordering::Relaxed));
    let timed = start.is_timed() && end.is_timed();
    if !timed || device.ordinal != other.ordinal || ops.contains(&0) {
        return Err(Status::INVALID_HANDLE);
    }
    let last = ops[0].max(ops[1]);
    if !work::is_done(device, last)? {
        return Err(Status::NOT_READY);
    }
    // The times come with the answer of a wait.
    work::sync_through(device, last)?;
    match (start.time(), end.time()) {
        (Some(start), Some(end)) => Ok((end as f64 - start as f64) as f32 / 1e6),
        // Of many thousand events between two answers the oldest times are not kept.
        _ => Err(Status::NOT_READY),
    }
}

api! {
    fn cuEventCreate(handle: Out<'_, usize>, flags: c_uint) {
        let (_, context) = current()?;
        handle.check()?;
        handle.put(EVENTS.add(Event::new(flags, context.device)))
    }

    fn cuEventDestroy_v2(handle: usize) also cuEventDestroy {
        process()?;
        EVENTS.remove(handle).map(|_| ()).ok_or(Status::INVALID_HANDLE)
    }

    fn cuEventRecord(handle: usize, stream: usize) also cuEventRecord_ptsz {
        note_or_record(handle, stream)
    }

    fn cuEventRecordWithFlags(handle: usize, stream: usize, flags: c_uint)
        also cuEventRecordWithFlags_ptsz
    {
        // An event of the outside world is a node of its own.
        match flags & EXTERNAL {
            0 => note_or_record(handle, stream),
            _ => or_capture(stream, || Ok(Work::Record(handle)), || record(handle, stream)),
        }
    }

    fn cuEventQuery(handle: usize) {
        let (event, device) = event(handle)?;
        match work::is_done(device, event.op.load(Ordering::Relaxed))? {
            true => Ok(()),
            false => Err(Status::NOT_READY),
        }
    }

    fn cuEventSynchronize(handle: usize) {
        let (event, device) = event(handle)?;
        work::sync_through(device, event.op.load(Ordering::Relaxed))
    }

    fn cuEventElapsedTime_v2(milliseconds: Out<'_, f32>, start: usize, end: usize)
        also cuEventElapsedTime
    {
        milliseconds.put(elapsed(start, end)?)
    }

    fn cuIpcGetEventHandle(out: Out<'_, c_int>, handle: usize) {
        let _ = out;
        event(handle)?;
        Err(Status::NOT_SUPPORTED)
    }
}
